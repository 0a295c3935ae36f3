package known

import (
	"context"
	"sync"
	"time"

	"github.com/acpd/acpd/daemon/delegation"
	"github.com/acpd/acpd/daemon/registry"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/wire"
)

// openQueries holds the inbound queries on which agents work, so that messages that they
// send meanwhile can name them as parent, and runs can be reserved for them. A query that is
// repeated while it runs is there twice. Package peer bounds how many there are.
type openQueries struct {
	endedQueries *recentChains

	mu        sync.Mutex // guards what follows
	open      map[wire.MessageID]*openQuery
	followers map[wire.MessageID]map[*follower]struct{} // of open queries
}

// openQuery is what is known of an open query.
type openQuery struct {
	env   *wire.Envelope
	agent registry.KeyHash // who works on it
	until time.Time        // its deadline, or zero
	runs  int              // that were reserved for it
	next  *openQuery       // a repeat, or nil
}

// follower is a call that follows from an open query.
type follower struct{ cancel context.CancelCauseFunc }

func newOpenQueries() *openQueries {
	return &openQueries{endedQueries: newRecentChains(), open: make(map[wire.MessageID]*openQuery), followers: make(map[wire.MessageID]map[*follower]struct{})}
}

// BeginQuery adds a query, on which an agent works, to the open ones until EndQuery is called. until is
// its deadline, or zero.
func (x *openQueries) BeginQuery(env *wire.Envelope, a *registry.Agent, until time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.open[env.ID] = &openQuery{env: env, agent: a.KeyHash, until: until, next: x.open[env.ID]}
}

// EndQuery ends what BeginQuery has begun. If the query was not answered, and no repeat of it is open, the calls
// end that follow from it.
func (x *openQueries) EndQuery(env *wire.Envelope, answered bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	first := x.open[env.ID]
	at := &first
	for (*at).env != env {
		at = &(*at).next
	}
	x.endedQueries.add(env, (*at).agent, !answered)
	if *at = (*at).next; first != nil {
		x.open[env.ID] = first
	} else {
		delete(x.open, env.ID)
	}
	if first != nil && !answered {
		return
	}
	if !answered {
		for f := range x.followers[env.ID] {
			f.cancel(delegation.ErrParentEnded)
		}
	}
	delete(x.followers, env.ID)
}

// followQuery ends a call with [delegation.ErrParentEnded] when the query of an id ends without an answer. It
// returns false if the query has ended so already. The caller calls leave when its call has ended.
func (x *openQueries) followQuery(id wire.MessageID, cancel context.CancelCauseFunc) (leave func(), ok bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.open[id] == nil {
		_, query, known := x.endedQueries.find(nil, id)
		return func() {}, !known || !query.unanswered
	}
	f := &follower{cancel}
	if x.followers[id] == nil {
		x.followers[id] = make(map[*follower]struct{})
	}
	x.followers[id][f] = struct{}{}
	return func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		if delete(x.followers[id], f); len(x.followers[id]) == 0 {
			delete(x.followers, id)
		}
	}, true
}

// FindDeadline returns the deadline of the open query of an id, the latest one if several are open, or zero.
func (x *openQueries) FindDeadline(id wire.MessageID) (until time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for q := x.open[id]; q != nil; q = q.next {
		if q.until.After(until) {
			until = q.until
		}
	}
	return until
}

// findOpenQuery returns the sender and the chain of an open query on which the holder works, nil for any agent; of
// several the longest.
func (x *openQueries) findOpenQuery(by *registry.Credential, id wire.MessageID) (from identity.ID, c wire.Chain, found bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for q := x.open[id]; q != nil; q = q.next {
		if (by == nil || q.agent == by.KeyHash) && (!found || q.env.Hops > c.Hops) {
			from, c, found = q.env.From, q.env.Chain(), true
		}
	}
	return from, c, found
}

// countRun adds a headless run to an open query of a peer on which the holder works, or on which any agent works
// if by is nil. It returns how many runs there were with this one, or 0 without such a query. undo takes the run
// back.
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
