package openintent

import (
	"context"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/openintent/chain"
	"github.com/acpd/acpd/store"
)

// ChainVerification is the outcome of recomputing a log (RFC-0019).
type ChainVerification struct {
	IntentID string       `json:"intent_id"`
	Valid    bool         `json:"valid"`
	Chain    bool         `json:"chain_valid"` // the same
	Count    int64        `json:"event_count"`
	First    int64        `json:"first_sequence"`
	Last     int64        `json:"last_sequence"`
	Breaks   []ChainBreak `json:"breaks"` // at most 100
}

// ChainBreak is an event that does not follow from those before it.
type ChainBreak struct {
	Sequence int64  `json:"sequence"`
	EventID  string `json:"event_id"`
	Problem  string `json:"problem"`
}

// How many events are read and checked at a time, and of how many bytes: about a
// millisecond of work, for which everybody else waits where there is one processor.
const (
	verifyRows  = 64
	verifyBytes = 128 << 10
)

// VerifyEvents recomputes the intent's log.
func (e *Engine) VerifyEvents(c *Call, intentID string) (v ChainVerification, err error) {
	in, err := e.intent(c, intentID, levelRead)
	if err != nil {
		return v, err
	}
	// What a write sees here is committed when that write is.
	var head int64
	var hash string
	if err := e.db.Write(c.Context(), false, func(*store.Tx) error {
		in = e.intents[in.id]
		head, hash = in.sequence, in.hash
		return nil
	}); err != nil {
		return v, err
	}
	leave, err := e.verifies.enter(c.Context(), c.Caller.Home)
	if err != nil {
		return v, err
	}
	defer leave()
	last := e.verifies.known(c.Caller.Home, in.id)
	v = last.v
	previous := last.hash
	if v.Last > head || v.Last == head && previous == hash { // it may have grown, and been verified, since head was read
		return v, nil
	}
	broken := func(sequence int64, id, problem string) {
		if len(v.Breaks) < 100 {
			v.Breaks = append(v.Breaks, ChainBreak{sequence, id, problem})
		}
	}
	check := func(found logged) {
		var ev chain.Event
		row := found.row
		if err := json.Unmarshal(found.text, &ev, json.RejectUnknownMembers(true)); err != nil { // which event_hash would not be of
			broken(row, "", "the event cannot be read")
			ev = chain.Event{}
		} else if problem := ev.FindBreak(in.id, row, previous); problem != "" {
			broken(row, ev.ID, problem)
		} else if ev.Type != found.kind || ev.CreatedAt != found.at || ev.Trace() != found.trace {
			broken(row, ev.ID, "lists find the event as another")
		}
		if row != v.Last+1 {
			broken(row, ev.ID, "events before this one are missing")
		}
		if v.Count++; v.Count == 1 {
			v.First = row
		}
		v.Last, previous = row, ev.Hash
	}
	for v.Last < head {
		var page []logged // looked through once nobody waits for the reader
		var took time.Duration
		if err := e.read(c.Context(), func(stx *store.Tx, l *look) error {
			began := time.Now()
			defer func() { took = time.Since(began) }()
			return eventsFrom(stx, l, in.row, v.Last, head, func(found logged) { page = append(page, found) })
		}); err != nil {
			return v, err
		}
		if page == nil {
			break
		}
		if err := e.verifies.page(c.Context(), c.Caller.Home, took, func() {
			for _, ev := range page {
				check(ev)
			}
		}); err != nil {
			return v, err
		}
	}
	if v.Last != head || previous != hash {
		broken(head, "", "the last event is missing")
	}
	v.Valid = len(v.Breaks) == 0
	v.Chain = v.Valid
	if v.Valid {
		e.verifies.keep(c.Caller.Home, verified{v, hash, last.at})
	}
	return v, nil
}

// verifies lets other daemons' agents verify logs, which costs far more than to ask for it:
// of each daemon one at a time, page by page when it is their turn, and for half of the time.
// Who is here waits for nobody. Daemons are known by their homes.
type verifies struct {
	queues
	turn chan struct{} // the engine's

	mu   sync.Mutex // guards last
	last map[string]verified
}

// verified is what the last one of a daemon was answered of a log that is as it should be.
type verified struct {
	v    ChainVerification
	hash string    // of the last event
	at   time.Time // when the first event was looked at
}

// verifiedTime is how long events are not looked at again for another daemon.
const verifiedTime = time.Minute

// page has look look through one page, when it is that home's turn, and then rests for as
// long as that took, and as it took to read the page: before, since who reads waits for
// others. It returns the error of ctx when that ends.
func (v *verifies) page(ctx context.Context, home string, took time.Duration, look func()) error {
	if home == "" {
		look()
		return nil
	}
	select {
	case v.turn <- struct{}{}: // in their order, and of each home there is one
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-v.turn }()
	began := time.Now()
	look()
	rest := time.NewTimer(took + time.Since(began))
	defer rest.Stop()
	select {
	case <-rest.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// known returns what the home was last answered, if that was about this log, or else that
// of no event yet.
func (v *verifies) known(home, intent string) verified {
	v.mu.Lock()
	defer v.mu.Unlock()
	if last, ok := v.last[home]; ok && last.v.IntentID == intent && time.Since(last.at) < verifiedTime {
		return last
	}
	return verified{v: ChainVerification{IntentID: intent, Breaks: []ChainBreak{}}, at: time.Now()}
}

func (v *verifies) keep(home string, last verified) {
	if home == "" {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.last[home] = last
}

// forget forgets what a home was answered.
func (v *verifies) forget(home string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.last, home)
}
