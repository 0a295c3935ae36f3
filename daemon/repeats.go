package daemon

import (
	"context"
	"crypto/sha256"
	"sync"
	"time"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// repeatsFor is how long inbound messages are remembered (protocol, section 5).
const repeatsFor = 10 * time.Minute

// digest is the hash of a message's content: kind, ref and payload.
type digest [sha256.Size]byte

func contentOf(env *wire.Envelope) digest {
	h := sha256.New()
	h.Write([]byte(env.Kind))
	if env.Ref != nil {
		h.Write([]byte{1})
		h.Write(env.Ref[:])
	} else {
		h.Write([]byte{0})
	}
	h.Write(env.Payload.Object())
	return digest(h.Sum(nil))
}

// usedTwice refuses a message whose id another one had.
func usedTwice(env *wire.Envelope) *kinds.Error {
	return kinds.Errorf(kinds.Invalid, "id: %s was used for another %s: a repeat has the same content, anything else needs an id of its own", env.ID, env.Kind)
}

// chain is what a message hands on to those that it leads to.
type chain struct {
	thread string
	hops   uint64
	trace  string
}

func chainOf(env *wire.Envelope) chain { return chain{env.Thread, env.Hops, env.Trace} }

// outcome is what became of a message: the ack of a delegate or cancel, or the state
// of a receipt, or an error.
type outcome struct {
	ack   wire.Payload
	state wire.ReceiptState
	err   error
}

// run is the one run of a message, however often it comes.
type run struct {
	id    wire.MessageID
	hash  digest
	chain chain
	begun time.Time

	// Under repeats.mu.
	over bool
	out  outcome
	done chan struct{} // closed when over; made by the first who waits
}

// repeats remembers inbound messages by peer and id, across connections, so that
// a repeat gets the outcome of the first run and waits for it while that lasts.
// Delegations are remembered by tasks as well, on disk and for longer.
type repeats struct {
	kept *budget.Account // never refuses: the oldest go

	mu    sync.Mutex
	peers map[identity.ID]*history
	n     int // runs in all peers
}

// history is what one peer sent, the oldest first in order.
type history struct {
	peer  identity.ID
	runs  map[wire.MessageID]*run
	order []*run
}

func newRepeats(book *budget.Book) *repeats {
	return &repeats{kept: book.Open(budget.Repeats), peers: make(map[identity.ID]*history)}
}

// begin returns the run of a message and whether it is the caller's to run, who
// then calls finish or forget. Other content under the same id is invalid.
func (r *repeats) begin(from identity.ID, env *wire.Envelope) (*run, bool, error) {
	hash, now := contentOf(env), time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.peers[from]
	if h == nil {
		h = &history{peer: from, runs: make(map[wire.MessageID]*run)}
		r.peers[from] = h
	}
	r.expire(h, now)
	if old := h.runs[env.ID]; old != nil {
		if old.hash != hash {
			return nil, false, usedTwice(env)
		}
		return old, false, nil
	}
	if int64(len(h.order)) >= budget.Repeats.Peer {
		r.drop(h, 1)
	}
	if int64(r.n) >= budget.Repeats.All {
		r.evict()
	}
	fresh := &run{id: env.ID, hash: hash, chain: chainOf(env), begun: now}
	h.runs[env.ID] = fresh
	h.order = append(h.order, fresh)
	r.n++
	r.kept.Add(from, 1)
	return fresh, true, nil
}

// wait returns the run's outcome, or ctx's error if that ends first.
func (r *repeats) wait(ctx context.Context, of *run) outcome {
	r.mu.Lock()
	if of.over {
		defer r.mu.Unlock()
		return of.out
	}
	if of.done == nil {
		of.done = make(chan struct{})
	}
	done := of.done
	r.mu.Unlock()
	select {
	case <-done:
		return of.out // written before done was closed, and not since
	case <-ctx.Done():
		return outcome{err: ended(ctx)}
	}
}

// finish records the outcome and gives it to all who wait.
func (r *repeats) finish(of *run, out outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	of.over, of.out = true, out
	if of.done != nil {
		close(of.done)
	}
}

// forget is finish for a message that was refused before anything was done: those
// who wait get the refusal, a later repeat runs anew.
func (r *repeats) forget(from identity.ID, of *run, out outcome) {
	r.finish(of, out)
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.peers[from]
	if h == nil || h.runs[of.id] != of {
		return
	}
	delete(h.runs, of.id)
	for i := len(h.order) - 1; i >= 0; i-- { // it is among the youngest
		if h.order[i] == of {
			h.order = append(h.order[:i], h.order[i+1:]...)
			r.n--
			r.kept.Give(from, 1)
			return
		}
	}
}

// purge forgets a peer.
func (r *repeats) purge(peer identity.ID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if h := r.peers[peer]; h != nil {
		r.n -= len(h.order)
		r.kept.Give(peer, int64(len(h.order)))
		delete(r.peers, peer)
	}
}

// find returns the chain of a message of any peer.
func (r *repeats) find(id wire.MessageID) (chain, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, h := range r.peers {
		if found := h.runs[id]; found != nil {
			return found.chain, true
		}
	}
	return chain{}, false
}

// expire drops what is older than ten minutes.
func (r *repeats) expire(h *history, now time.Time) {
	n := 0
	for n < len(h.order) && now.Sub(h.order[n].begun) >= repeatsFor {
		n++
	}
	r.drop(h, n)
}

// drop forgets the n oldest of a peer.
func (r *repeats) drop(h *history, n int) {
	if n == 0 {
		return
	}
	for i, old := range h.order[:n] {
		delete(h.runs, old.id)
		h.order[i] = nil
	}
	h.order = h.order[n:]
	r.n -= n
	r.kept.Give(h.peer, int64(n))
	if len(h.order) == 0 { // give back what a burst has taken
		h.order, h.runs = nil, make(map[wire.MessageID]*run)
	}
}

// evict makes room in the whole: the peer that holds the most pays.
func (r *repeats) evict() {
	var most *history
	for _, h := range r.peers {
		if most == nil || len(h.order) > len(most.order) {
			most = h
		}
	}
	r.drop(most, (len(most.order)+7)/8)
}
