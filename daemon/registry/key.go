package registry

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"time"

	"github.com/acpd/acpd/kinds"
)

// NameKeptFor is the time for which the name of an agent that left open work is kept for the
// agent that has its key. A delegation without a deadline waits as long.
const NameKeptFor = 10 * time.Minute

// KeyHash is the SHA-256 of an agent's key.
type KeyHash [sha256.Size]byte

// Credential is how a local connection calls: with the name of an agent, or "", and the hash of its key.
// Messages that were sent, or taken, under a key belong to the agent with that key.
type Credential struct {
	Name    string
	KeyHash KeyHash
}

// protectedName is a name whose agent left while it had open work.
type protectedName struct {
	key   KeyHash
	since time.Time
}

// NewAgentKey returns a random key for an agent.
func NewAgentKey() string {
	var b [32]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// HashAgentKey returns the hash of a key that an agent shows; the error begins with op.
func HashAgentKey(op, key string) (KeyHash, error) {
	if b, err := hex.DecodeString(key); err != nil || len(b) != 32 {
		return KeyHash{}, kinds.Errorf(kinds.Invalid, "%s: key: expected the 64 hex digits that attach returned", op)
	}
	return sha256.Sum256([]byte(key)), nil
}

// CheckCredential returns an error unless the key is that of the agent that has the name, or
// of one that left open work under it.
func (r *Registry) CheckCredential(as Credential) error {
	known, key := r.FindKeyHash(as.Name)
	switch {
	case !known:
		return kinds.Errorf(kinds.NoAgent, "speak: no agent %q is attached: attach, or try again when it is back", as.Name)
	case key != as.KeyHash:
		return kinds.Errorf(kinds.NotAuthorized, "speak: key: another agent has the name %q: show the key that its attach returned (acpctl: ACP_AGENT_KEY with ACP_AGENT)", as.Name)
	}
	return nil
}

// FindKeyHash returns the hash of the key to which a name belongs; known is false if it is free.
func (r *Registry) FindKeyHash(name string) (known bool, key KeyHash) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if i := slices.IndexFunc(r.attached, func(a *Agent) bool { return a.Name == name }); i >= 0 {
		return true, r.attached[i].KeyHash
	}
	k, ok := r.protectedNames[name]
	return ok && time.Since(k.since) < NameKeptFor, k.key
}

// protectNameWithOpenWork protects the name of an agent that leaves, if it is in open, the names with
// open work. It drops the protected names that are not in open any more. The caller holds mu.
func (r *Registry) protectNameWithOpenWork(a *Agent, open map[string]bool) {
	maps.DeleteFunc(r.protectedNames, func(name string, _ protectedName) bool { return !open[name] })
	if open[a.Name] {
		r.protectedNames[a.Name] = protectedName{a.KeyHash, time.Now()}
	}
}
