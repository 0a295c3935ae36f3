package daemon

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/kinds"
)

// keptFor is how long the name of an agent that left with open work is kept for
// whoever has its key. It is as long as a delegation without a deadline waits.
const keptFor = orphanedFor

// holder is as whom a local connection calls: an agent's name, "" for none, and what
// its key comes to. What the holder of a key sent, or was handed, is its own.
type holder struct {
	name string
	key  digest
}

// kept is a name whose agent left while it had open work.
type kept struct {
	key   digest
	since time.Time
}

// newKey draws a key for an attached agent.
func newKey() string {
	var b [32]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// readKey checks a key that an agent shows.
func readKey(op, key string) (digest, error) {
	if b, err := hex.DecodeString(key); err != nil || len(b) != 32 {
		return digest{}, kinds.Errorf(kinds.Invalid, "%s: key: expected the 64 hex digits that attach returned", op)
	}
	return sha256.Sum256([]byte(key)), nil
}

// attach makes the connection answer. Tasks that waited for an agent of this name
// have it again.
func (d *Daemon) attach(ctx context.Context, s *session, p *client.AttachParams) (any, error) {
	if p.TakeOver && s.guest {
		return nil, kinds.Errorf(kinds.NotAuthorized, "attach: take_over: no agent takes another's name on this socket: choose another name, or show the key of this one")
	}
	a, replaced, err := d.agents.attach(s.conn, *p, s.guest, d.tasks.openNames())
	if err != nil {
		return nil, err
	}
	for _, old := range replaced {
		if old.Name != a.Name {
			d.tasks.attend(old.Name)
		}
		if old.conn != s.conn {
			old.conn.Close() // it would wait for messages in vain
		}
	}
	if err := d.tasks.pass(ctx, a.Name, a.key); err != nil {
		d.log.Warn("open delegations pass to the agent of their name in memory only", "agent", a.Name, "err", err)
	}
	d.tasks.attend(a.Name)
	d.log.Info("agent attached", "agent", a.Name, "domains", a.Domains, "kinds", a.Kinds)
	return &client.Attached{Key: a.Key}, nil
}

// speak makes the connection one of the agent that has the key: it calls as that
// agent, and answers nothing.
func (d *Daemon) speak(_ context.Context, s *session, p *client.SpeakParams) (any, error) {
	key, err := readKey("speak", p.Key)
	if err != nil {
		return nil, err
	}
	as := holder{p.Name, key}
	if err := d.agents.vouch(as); err != nil {
		return nil, err
	}
	s.speaks.Store(&as)
	return nil, nil
}

// vouch checks that a key is that of the agent that has the name now, or had it and
// left open work.
func (r *agents) vouch(as holder) error {
	known, key := r.keyOf(as.name)
	switch {
	case !known:
		return kinds.Errorf(kinds.NoAgent, "speak: no agent %q is attached: attach, or try again when it is back", as.name)
	case key != as.key:
		return kinds.Errorf(kinds.NotAuthorized, "speak: key: another agent has the name %q: show the key that its attach returned (acpctl: ACP_AGENT_KEY beside ACP_AGENT)", as.name)
	}
	return nil
}

// keyOf returns what the key comes to of the agent that has a name, if one has.
func (r *agents) keyOf(name string) (known bool, key digest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.attached {
		if a.Name == name {
			return true, a.key
		}
	}
	k, ok := r.kept[name]
	return ok && time.Since(k.since) < keptFor, k.key
}

// keep keeps the name of an agent that leaves for the holder of its key, if it has
// open work, and forgets the names that have none any more. The caller holds mu.
func (r *agents) keep(a *agent, open map[string]bool) {
	for name := range r.kept {
		if !open[name] {
			delete(r.kept, name)
		}
	}
	if open[a.Name] {
		r.kept[a.Name] = kept{a.key, time.Now()}
	}
}

// caller is as whom a session calls.
func (s *session) caller() holder {
	if a := s.daemon.agents.of(s.conn); a != nil {
		return holder{a.Name, a.key}
	}
	if as := s.speaks.Load(); as != nil && s.daemon.agents.vouch(*as) == nil {
		return *as
	}
	return holder{key: s.key}
}

// only is the holder whose own a guest may look at, nil for the daemon's owner.
func (s *session) only() *holder {
	if !s.guest {
		return nil
	}
	as := s.caller()
	return &as
}

// agent is as which agent a session calls, an error where it is none's.
func (s *session) agent(op string) (holder, error) {
	as := s.caller()
	if as.name == "" {
		return as, kinds.Errorf(kinds.NotAuthorized, "%s: only an agent has one here: attach first, or speak as an agent that is attached", op)
	}
	return as, nil
}
