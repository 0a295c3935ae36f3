package openintent

import (
	"context"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/internal/pace"
	"github.com/acpd/acpd/openintent/chain"
	"github.com/acpd/acpd/openintent/object"
	"github.com/acpd/acpd/store"
)

// So many events, and so many bytes of them, are read and checked at a time. That takes about a
// millisecond, for which everybody else waits if there is one processor.
const (
	verifyRows  = 64
	verifyBytes = 128 << 10
)

// VerifyEvents recomputes the intent's log.
func (e *Engine) VerifyEvents(c *Call, intentID string) (v object.ChainVerification, err error) {
	in, err := e.findIntentAndRecordUse(c, intentID, levelRead)
	if err != nil {
		return v, err
	}
	// Everything that this write sees is committed with it.
	var head int64
	var hash string
	if err := e.db.Write(c.Context(), false, func(*store.Tx) error {
		in = e.intents[in.id]
		head, hash = in.sequence, in.hash
		return nil
	}); err != nil {
		return v, err
	}
	leave, err := e.verifies.enterQueue(c.Context(), c.Caller.Home)
	if err != nil {
		return v, err
	}
	defer leave()
	v = object.ChainVerification{IntentID: in.id, Breaks: []object.ChainBreak{}}
	previous := ""
	broken := func(sequence int64, id, problem string) {
		if len(v.Breaks) < 100 {
			v.Breaks = append(v.Breaks, object.ChainBreak{Sequence: sequence, EventID: id, Problem: problem})
		}
	}
	check := func(found loggedEvent) {
		var ev chain.Event
		row := found.row
		if err := json.Unmarshal(found.text, &ev, json.RejectUnknownMembers(true)); err != nil { // which event_hash would not be of
			broken(row, "", "the event cannot be read")
			ev = chain.Event{}
		} else if problem := ev.FindChainBreak(in.id, row, previous); problem != "" {
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
		var page []loggedEvent // checked after the read, so that nobody waits for the reader
		var took time.Duration
		if err := e.readWithQuota(c.Context(), func(stx *store.Tx, l *readQuota) error {
			began := time.Now()
			defer func() { took = time.Since(began) }()
			return readLoggedEvents(stx, l, in.row, v.Last, head, func(found loggedEvent) { page = append(page, found) })
		}); err != nil {
			return v, err
		}
		if page == nil {
			break
		}
		if err := e.checkPageInTurn(c.Context(), c.Caller.Home, took, func() {
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
	return v, nil
}

// checkPageInTurn runs check on one page of a log. To verify a log costs far more than to ask for it. So for
// another daemon it waits for the turn, and then rests for as long as check took, and as reading the page
// took before. It returns the error of ctx when ctx ends. Agents here wait for nobody.
func (e *Engine) checkPageInTurn(ctx context.Context, home string, took time.Duration, check func()) error {
	if home == "" {
		check()
		return nil
	}
	if err := acquireSlot(ctx, e.turn); err != nil { // in their order, and of each home there is one
		return err
	}
	defer func() { <-e.turn }()
	began := time.Now()
	check()
	return pace.Sleep(ctx, took+time.Since(began))
}

// loggedEvent is an event in the store, with the columns by which lists find it.
type loggedEvent struct {
	row         int64
	kind, trace string
	at          chain.Time
	text        []byte
}

// readLoggedEvents calls each with the next events of a log after one sequence number and up to
// another, as many as are checked at a time.
func readLoggedEvents(stx *store.Tx, l *readQuota, intent, after, upTo int64, each func(loggedEvent)) error {
	_, err := eachRowWhile(stx, "SELECT sequence, type, trace, at, doc FROM openintent_event WHERE intent = ? AND sequence > ? AND sequence <= ? ORDER BY sequence", func(scan func(...any) error) (more bool, err error) {
		var found loggedEvent
		if err := scan(&found.row, &found.kind, &found.trace, &found.at, &found.text); err != nil {
			return false, err
		}
		each(found)
		return l.spend(1, len(found.text)) && l.rows < verifyRows && l.bytes < verifyBytes, nil
	}, intent, after, upTo)
	return err
}
