package transfer

import (
	"context"
	"sync"
	"time"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/oacp/message"
	"github.com/acpd/acpd/store"
)

// shares are the rows of the budget that mail takes from.
type shares struct {
	underWay *budget.Account // deliveries; each has a temporary file and its bytes in memory
	opened   *budget.Account // descriptors of those
	files    *budget.Account // stored and unread
	bytes    *budget.Account // of those, and of deliveries under way
	ledger   *budget.Account // what a repeated message is known by
}

// rows are those that the shares count.
type rows struct{ underWay, opened, files, bytes, ledger budget.Row }

// daemonRows are those of the budget; descriptors is the sum of what peers may cause to be
// open, 0 for none.
func daemonRows(descriptors int64) rows {
	return rows{budget.MailUnderWay, budget.Descriptors.Within(descriptors), budget.MailFiles, budget.MailBytes, budget.MailLedger}
}

func openShares(b *budget.Book, r rows) shares {
	return shares{b.Open(r.underWay), b.Open(r.opened), b.Open(r.files), b.Open(r.bytes), b.Open(r.ledger)}
}

// exceeded is what a peer hears that is over its share; it is to come again in a while.
func exceeded(err error, remedy string) error {
	return kinds.Errorf(kinds.Overloaded, "%v: %s", err, remedy)
}

const (
	remedyUnderWay = "send the next when one is stored"
	openedByEach   = 2 // descriptors of a delivery: the inbox and a file in it
	remedyUnread   = "its mail there waits to be read"
	remedyLedger   = "the oldest are forgotten after 30 days"
)

// reserveRoom takes room for a message that is about to come. release gives it back.
func (m *Mailer) reserveRoom(a *arrival) error {
	who := a.key.peer
	if err := m.shares.files.Take(who, 1); err != nil {
		return exceeded(err, remedyUnread)
	}
	if err := m.shares.bytes.Take(who, a.size); err != nil {
		m.shares.files.Give(who, 1)
		return exceeded(err, remedyUnread)
	}
	a.counted = true
	return nil
}

// countRoom counts a message that lies in an inbox, whatever the bounds say. The caller holds
// m.mu or is Open.
func (m *Mailer) countRoom(a *arrival) {
	if !a.counted {
		a.counted = true
		m.shares.files.Add(a.key.peer, 1)
		m.shares.bytes.Add(a.key.peer, a.size)
	}
}

// releaseRoom gives back the room of a message that lies in no inbox. The caller holds m.mu,
// or nobody else has the arrival.
func (m *Mailer) releaseRoom(a *arrival) {
	if a.counted {
		a.counted = false
		m.shares.files.Give(a.key.peer, 1)
		m.shares.bytes.Give(a.key.peer, a.size)
	}
}

// releaseInbox gives back the room of what lay in an inbox that is not there.
func (m *Mailer) releaseInbox(p mailbox) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, all := range m.arrivals[p] {
		for _, a := range all {
			m.releaseRoom(a)
		}
	}
}

// reserveRow takes a row of the ledger. Where there is none left, old rows of the same peer
// make room: no sender repeats those.
func (m *Mailer) reserveRow(ctx context.Context, who identity.ID) error {
	err := m.shares.ledger.Take(who, 1)
	if err == nil {
		return nil
	}
	if n := m.forgetReported(ctx, who, time.Now().Add(-shortRetention)); n == 0 {
		return exceeded(err, remedyLedger)
	}
	if err := m.shares.ledger.Take(who, 1); err != nil {
		return exceeded(err, remedyLedger)
	}
	return nil
}

// pruneLoop forgets what has been over for long, until ctx ends.
func (m *Mailer) pruneLoop(ctx context.Context) {
	for ctx.Err() == nil {
		m.prune(ctx)
		waitFor(ctx, nil, pruneEvery)
	}
}

// prune forgets what has been over for long, by and by.
func (m *Mailer) prune(ctx context.Context) {
	before := time.Now().Add(-retention)
	for _, u := range m.cfg.Budget.Usage() {
		for u.Row.Name == budget.MailLedger.Name && ctx.Err() == nil && m.forgetReported(ctx, u.Peer, before) == pruneSlice {
		}
	}
	for ctx.Err() == nil {
		n := 0
		err := m.writeStore(ctx, func(tx *store.Tx) (err error) {
			n, err = sqlPruneDelivered(tx, before, pruneSlice)
			return err
		})
		if err != nil || n < pruneSlice {
			return
		}
	}
}

// pruneSlice is how many rows one write removes: the daemon has one writer.
const pruneSlice = 64

// forgetReported removes from the ledger up to pruneSlice messages of a peer that have been
// over since before, and returns how many.
func (m *Mailer) forgetReported(ctx context.Context, who identity.ID, before time.Time) (n int) {
	err := m.writeStore(ctx, func(tx *store.Tx) (err error) {
		n, err = sqlForgetReported(tx, who, before, pruneSlice)
		return err
	})
	if err != nil {
		return 0
	}
	m.shares.ledger.Give(who, int64(n))
	return n
}

// parseSlots lets in as many as there are places, and of each peer one at a time, in the order
// in which they come.
type parseSlots struct {
	places int

	mu      sync.Mutex // guards what follows
	busy    map[identity.ID]bool
	waiting []*slotRequest
}

type slotRequest struct {
	peer    identity.ID
	granted chan struct{} // closed when it is let in
}

// enter waits to be let in; leave must be called then. The error is that of ctx.
func (g *parseSlots) enter(ctx context.Context, who identity.ID) (leave func(), err error) {
	v := &slotRequest{who, make(chan struct{})}
	g.mu.Lock()
	g.waiting = append(g.waiting, v)
	g.letIn()
	g.mu.Unlock()
	leave = func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.busy, who)
		g.letIn()
	}
	select {
	case <-v.granted:
		return leave, nil
	case <-ctx.Done():
	}
	g.mu.Lock()
	for i, w := range g.waiting {
		if w == v {
			g.waiting = append(g.waiting[:i:i], g.waiting[i+1:]...)
			g.mu.Unlock()
			return nil, ctx.Err()
		}
	}
	g.mu.Unlock()
	leave()
	return nil, ctx.Err()
}

// letIn lets in who may be. The caller holds g.mu.
func (g *parseSlots) letIn() {
	if g.busy == nil {
		g.busy = make(map[identity.ID]bool)
	}
	rest := g.waiting[:0]
	for _, v := range g.waiting {
		if len(g.busy) < g.places && !g.busy[v.peer] {
			g.busy[v.peer] = true
			close(v.granted)
		} else {
			rest = append(rest, v)
		}
	}
	clear(g.waiting[len(rest):])
	g.waiting = rest
}

// parseArrived reads a message that has come. A file that is made for that takes up to 40 MiB of
// memory and half a second to read, so few are read at a time.
func (m *Mailer) parseArrived(ctx context.Context, from identity.ID, data []byte) (message.Message, error) {
	leave, err := m.parsing.enter(ctx, from)
	if err != nil {
		return message.Message{}, kinds.Errorf(kinds.Cancelled, "the daemon is stopping, or the connection broke: %v", err)
	}
	defer leave()
	msg, err := message.Carriable(data)
	if err != nil {
		return msg, kinds.Errorf(kinds.Invalid, "message: %v", err)
	}
	return msg, nil
}
