package registry

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/acpd/acpd/kinds"
)

// NameKept is how long the name of an agent that left with open work is kept for
// whoever has its key. It is as long as a delegation without a deadline waits.
const NameKept = 10 * time.Minute

// KeyHash is what an agent's key comes to.
type KeyHash [sha256.Size]byte

// Credential is as whom a local connection calls: an agent's name, "" for none, and what
// its key comes to. What the holder of a key sent, or was handed, is its own.
type Credential struct {
	Name    string
	KeyHash KeyHash
}

// kept is a name whose agent left while it had open work.
type kept struct {
	key   KeyHash
	since time.Time
}

// NewKey draws a key for an attached agent.
func NewKey() string {
	var b [32]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// HashKey checks a key that an agent shows.
func HashKey(op, key string) (KeyHash, error) {
	if b, err := hex.DecodeString(key); err != nil || len(b) != 32 {
		return KeyHash{}, kinds.Errorf(kinds.Invalid, "%s: key: expected the 64 hex digits that attach returned", op)
	}
	return sha256.Sum256([]byte(key)), nil
}

// Check checks that a key is that of the agent that has the name now, or had it and
// left open work.
func (r *Registry) Check(as Credential) error {
	known, key := r.KeyHashOf(as.Name)
	switch {
	case !known:
		return kinds.Errorf(kinds.NoAgent, "speak: no agent %q is attached: attach, or try again when it is back", as.Name)
	case key != as.KeyHash:
		return kinds.Errorf(kinds.NotAuthorized, "speak: key: another agent has the name %q: show the key that its attach returned (acpctl: ACP_AGENT_KEY beside ACP_AGENT)", as.Name)
	}
	return nil
}

// KeyHashOf returns what the key comes to of the agent that has a name, if one has.
func (r *Registry) KeyHashOf(name string) (known bool, key KeyHash) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.attached {
		if a.Name == name {
			return true, a.KeyHash
		}
	}
	k, ok := r.kept[name]
	return ok && time.Since(k.since) < NameKept, k.key
}

// keep keeps the name of an agent that leaves for the holder of its key, if it has
// open work, and forgets the names that have none any more. The caller holds mu.
func (r *Registry) keep(a *Agent, open map[string]bool) {
	for name := range r.kept {
		if !open[name] {
			delete(r.kept, name)
		}
	}
	if open[a.Name] {
		r.kept[a.Name] = kept{a.KeyHash, time.Now()}
	}
}
