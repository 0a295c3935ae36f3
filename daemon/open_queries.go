package daemon

import (
	"sync"

	"github.com/acpd/acpd/wire"
)

// openQueries holds the inbound queries on which agents work, so that messages that they
// send meanwhile can name them as parent. Package peer bounds how many there are.
type openQueries struct {
	mu   sync.Mutex // guards open
	open map[wire.MessageID]parentQuery
}

// parentQuery holds the chain of a query, and how often it runs: a query that is repeated
// while it runs, runs again.
type parentQuery struct {
	chain wire.Chain
	n     int
}

func newOpenQueries() *openQueries { return &openQueries{open: make(map[wire.MessageID]parentQuery)} }

// add makes env known until remove is called as often.
func (x *openQueries) add(env *wire.Envelope) {
	x.mu.Lock()
	defer x.mu.Unlock()
	e, known := x.open[env.ID]
	if !known {
		e.chain = env.Chain()
	}
	e.n++
	e.chain.Hops = max(e.chain.Hops, env.Hops)
	x.open[env.ID] = e
}

func (x *openQueries) remove(env *wire.Envelope) {
	x.mu.Lock()
	defer x.mu.Unlock()
	e := x.open[env.ID]
	if e.n--; e.n == 0 {
		delete(x.open, env.ID)
		return
	}
	x.open[env.ID] = e
}

// findChain returns the chain of an open query.
func (x *openQueries) findChain(id wire.MessageID) (wire.Chain, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	e, ok := x.open[id]
	return e.chain, ok
}
