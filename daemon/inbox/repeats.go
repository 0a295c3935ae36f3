package inbox

import (
	"context"
	"crypto/sha256"
	"slices"
	"sync"
	"time"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/daemon/registry"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// repeatsFor is the time for which inbound messages are remembered (protocol, section 5).
const repeatsFor = 10 * time.Minute

// sweepEvery is the least time between looks at the messages of peers that have stopped sending.
const sweepEvery = time.Minute

// Digest is the SHA-256 of a message's content: kind, ref and payload.
type Digest [sha256.Size]byte

// HashMessage returns the digest of a message.
func HashMessage(env *wire.Envelope) Digest {
	h := sha256.New()
	h.Write([]byte(env.Kind))
	if env.Ref != nil {
		h.Write([]byte{1})
		h.Write(env.Ref[:])
	} else {
		h.Write([]byte{0})
	}
	h.Write(env.Payload.Object())
	return Digest(h.Sum(nil))
}

// NewReusedIDError returns the error for a message whose id another message had.
func NewReusedIDError(env *wire.Envelope) *kinds.Error {
	return kinds.Errorf(kinds.Invalid, "id: %s was used for another %s: a repeat has the same content, anything else needs an id of its own", env.ID, env.Kind)
}

// Outcome holds the ack of a delegate or cancel, or the state of a receipt, or an error.
type Outcome struct {
	Ack   wire.Payload
	State wire.ReceiptState
	Err   error

	Unhanded bool // it was refused before any agent had it
}

// Refuse returns the outcome of a message that was refused before anything was done, so no agent had it. keep is false, so
// that a repeat may run anew.
func Refuse(err error) (o Outcome, keep bool) {
	return Outcome{Err: err, Unhanded: true}, false
}

// Run is the one run of a message, however often it comes.
type Run struct {
	id      wire.MessageID
	Content Digest
	chain   wire.Chain
	begun   time.Time

	// Guarded by Repeats.mu.
	takers []registry.KeyHash // agents that were handed the message, each once
	over   bool
	out    Outcome
	done   chan struct{} // closed when over; made by the first call of WaitForOutcome
}

// Repeats remembers inbound messages by peer and id, across connections, so that
// a repeat gets the outcome of the first run and waits for it while that lasts.
// Package delegation remembers delegations as well, on disk and for longer.
type Repeats struct {
	kept *budget.Account // never refuses: the oldest are dropped

	mu    sync.Mutex               // guards what follows
	peers map[identity.ID]*history // each has at least one run
	n     int                      // runs in all peers
	swept time.Time                // when dropExpired was last called for all
}

// history holds the messages of one peer. The oldest is the first in order.
type history struct {
	peer  identity.ID
	runs  map[wire.MessageID]*Run
	order []*Run
}

// NewRepeats returns an empty memory.
func NewRepeats(book *budget.Book) *Repeats {
	return &Repeats{kept: book.OpenAccount(budget.Repeats), peers: make(map[identity.ID]*history)}
}

// BeginRun returns the run of a message. If fresh is true, the caller handles the message and
// calls FinishRun or ForgetRun. The error is invalid if other content came under the same id.
func (r *Repeats) BeginRun(from identity.ID, env *wire.Envelope) (run *Run, fresh bool, err error) {
	hash, now := HashMessage(env), time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Sub(r.swept) >= sweepEvery {
		r.swept = now
		for _, h := range r.peers {
			r.dropExpired(h, now)
		}
	}
	h := r.peers[from]
	if h == nil {
		h = &history{peer: from, runs: make(map[wire.MessageID]*Run)}
	}
	r.dropExpired(h, now)
	if old := h.runs[env.ID]; old != nil {
		if old.Content != hash {
			return nil, false, NewReusedIDError(env)
		}
		return old, false, nil
	}
	if int64(len(h.order)) >= budget.Repeats.Peer {
		r.dropOldest(h, 1)
	}
	if int64(r.n) >= budget.Repeats.All {
		r.evictOldest()
	}
	run = &Run{id: env.ID, Content: hash, chain: env.Chain(), begun: now}
	h.runs[env.ID] = run
	h.order = append(h.order, run)
	r.peers[from] = h
	r.n++
	r.kept.AddUnchecked(from, 1)
	return run, true, nil
}

// FindRun returns the run of a message of a peer, or nil if it is not remembered.
func (r *Repeats) FindRun(from identity.ID, id wire.MessageID) *Run {
	r.mu.Lock()
	defer r.mu.Unlock()
	if h := r.peers[from]; h != nil {
		return h.runs[id]
	}
	return nil
}

// WaitForOutcome returns the run's outcome; ok is false if ctx ends first.
func (r *Repeats) WaitForOutcome(ctx context.Context, of *Run) (out Outcome, ok bool) {
	r.mu.Lock()
	if of.over {
		defer r.mu.Unlock()
		return of.out, true
	}
	if of.done == nil {
		of.done = make(chan struct{})
	}
	done := of.done
	r.mu.Unlock()
	select {
	case <-done:
		return of.out, true // written before done was closed, and not since
	case <-ctx.Done():
		return Outcome{}, false
	}
}

// FinishRun records the outcome and gives it to all callers of WaitForOutcome.
func (r *Repeats) FinishRun(of *Run, out Outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	of.over, of.out = true, out
	if of.done != nil {
		close(of.done)
	}
}

// ForgetRun does what FinishRun does for a message that was refused before anything was done:
// callers of WaitForOutcome get the refusal, and a later repeat is handled anew.
func (r *Repeats) ForgetRun(from identity.ID, of *Run, out Outcome) {
	r.FinishRun(of, out)
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
			r.kept.Release(from, 1)
			r.removeIfEmpty(h)
			return
		}
	}
}

// ForgetPeer forgets what a peer sent.
func (r *Repeats) ForgetPeer(peer identity.ID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if h := r.peers[peer]; h != nil {
		r.n -= len(h.order)
		r.kept.Release(peer, int64(len(h.order)))
		delete(r.peers, peer)
	}
}

// AddTaker records that an agent is handed a message, if that message is remembered.
func (r *Repeats) AddTaker(from identity.ID, id wire.MessageID, agent registry.KeyHash) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.peers[from]
	if h == nil {
		return
	}
	if run := h.runs[id]; run != nil && !slices.Contains(run.takers, agent) {
		run.takers = append(run.takers, agent)
	}
}

// Find returns the sender and the chain of a message that the holder was handed, nil for any agent.
func (r *Repeats) Find(by *registry.Credential, id wire.MessageID) (identity.ID, wire.Chain, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, h := range r.peers {
		if found := h.runs[id]; found != nil && time.Since(found.begun) < repeatsFor && (by == nil || slices.Contains(found.takers, by.KeyHash)) {
			return h.peer, found.chain, true
		}
	}
	return identity.ID{}, wire.Chain{}, false
}

// dropExpired drops what is older than ten minutes.
func (r *Repeats) dropExpired(h *history, now time.Time) {
	n := 0
	for n < len(h.order) && now.Sub(h.order[n].begun) >= repeatsFor {
		n++
	}
	r.dropOldest(h, n)
}

// dropOldest forgets the n oldest of a peer.
func (r *Repeats) dropOldest(h *history, n int) {
	if n == 0 {
		return
	}
	for i, old := range h.order[:n] {
		delete(h.runs, old.id)
		h.order[i] = nil
	}
	h.order = h.order[n:]
	r.n -= n
	r.kept.Release(h.peer, int64(n))
	r.removeIfEmpty(h)
}

// removeIfEmpty removes a peer without remembered messages, and frees the memory that a burst has taken.
func (r *Repeats) removeIfEmpty(h *history) {
	if len(h.order) == 0 {
		h.order, h.runs = nil, make(map[wire.MessageID]*Run)
		delete(r.peers, h.peer)
	}
}

// evictOldest forgets an eighth of what the peer with the most messages sent, the oldest.
func (r *Repeats) evictOldest() {
	var most *history
	for _, h := range r.peers {
		if most == nil || len(h.order) > len(most.order) {
			most = h
		}
	}
	r.dropOldest(most, (len(most.order)+7)/8)
}
