package daemon

import (
	"sync"

	"github.com/acpd/acpd/daemon/registry"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/wire"
)

// openQueries holds the inbound queries on which agents work, so that messages that they
// send meanwhile can name them as parent, and runs can be reserved for them. A query that is
// repeated while it runs is there twice. Package peer bounds how many there are.
type openQueries struct {
	mu   sync.Mutex // guards open
	open map[wire.MessageID]*openQuery
}

// openQuery is what is known of an open query.
type openQuery struct {
	env   *wire.Envelope
	agent registry.KeyHash // who works on it
	runs  int              // that were reserved for it
	next  *openQuery       // a repeat; nil: none
}

func newOpenQueries() *openQueries {
	return &openQueries{open: make(map[wire.MessageID]*openQuery)}
}

// add makes env, on which an agent works, known until remove is called.
func (x *openQueries) add(env *wire.Envelope, a *registry.Agent) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.open[env.ID] = &openQuery{env: env, agent: a.KeyHash, next: x.open[env.ID]}
}

func (x *openQueries) remove(env *wire.Envelope) {
	x.mu.Lock()
	defer x.mu.Unlock()
	first := x.open[env.ID]
	at := &first
	for (*at).env != env {
		at = &(*at).next
	}
	if *at = (*at).next; first != nil {
		x.open[env.ID] = first
	} else {
		delete(x.open, env.ID)
	}
}

// find returns the sender and the chain of an open query, of several the longest.
func (x *openQueries) find(id wire.MessageID) (from identity.ID, c wire.Chain, found bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for q := x.open[id]; q != nil; q = q.next {
		if !found || q.env.Hops > c.Hops {
			from, c, found = q.env.From, q.env.Chain(), true
		}
	}
	return from, c, found
}

// countRun counts a headless run for an open query of a peer on which the holder works, nil for
// any agent. It returns how many there were with this one, 0 if there is no such query. undo takes
// the run back.
func (x *openQueries) countRun(by *registry.Credential, peer identity.ID, id wire.MessageID) (n int, undo func()) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for q := x.open[id]; q != nil; q = q.next {
		if q.env.From == peer && (by == nil || q.agent == by.KeyHash) {
			q.runs++
			return q.runs, func() {
				x.mu.Lock()
				defer x.mu.Unlock()
				q.runs--
			}
		}
	}
	return 0, func() {}
}
