package transfer

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// The ledger is tested as what it is: states, and what moves them. No file, stream or
// goroutine is needed for that.

var (
	peerA, peerB = identity.ID{1}, identity.ID{2}
	reviewer     = mailbox{"demo", "reviewer"}
)

func testLedger() *ledger {
	return newLedger(openBudgetAccounts(new(budget.Book), newBudgetRows(0)))
}

// bindReviewer binds the reviewer to a peer.
func (l *ledger) bindReviewer(peer identity.ID) *peerQueue {
	l.addBinding(Binding{Project: reviewer.project, Agent: reviewer.agent, Peer: peer, Mode: mirror})
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ensureQueue(peer)
}

// addWaiting brings a file as far as Waiting, and returns its entry.
func (l *ledger) addWaiting(t *testing.T, peer identity.ID, file string, rank int) *entry {
	t.Helper()
	at := fileVersion{inode: 1, size: 1, mtime: 1}
	l.markFileComplete(reviewer, file)
	c, bound := l.updateEntries(reviewer, map[string]foundFile{file: {version: at}}, names{file: {}})
	if !bound || len(c.settled) != 1 {
		t.Fatalf("bound %t, settled %d", bound, len(c.settled))
	}
	l.applyFindings(reviewer, peer, []*finding{{entry: c.settled[0], file: &mailFile{version: at, hash: [32]byte{1}}, rank: rank}})
	if e := c.settled[0]; e.state == Waiting {
		return e
	}
	t.Fatalf("%s is %s", file, c.settled[0].state)
	return nil
}

func stateAfter(l *ledger, e *entry) State {
	l.mu.Lock()
	defer l.mu.Unlock()
	return e.state
}

// TestEndOfADelivery: what a delivery ended with decides the entry's state.
func TestEndOfADelivery(t *testing.T) {
	for name, c := range map[string]struct {
		reply  *wire.MailReply
		err    error
		want   State
		events int
		tries  int
		rests  bool // nothing goes to the peer for a while
	}{
		"stored":              {reply: &wire.MailReply{Result: wire.MailStored}, want: Delivered, events: 1},
		"it was there":        {reply: &wire.MailReply{Result: wire.MailDuplicate}, want: Delivered, events: 1},
		"refused":             {reply: &wire.MailReply{Result: wire.MailRefused}, want: Parked, events: 1},
		"later":               {reply: &wire.MailReply{Result: wire.MailRetry}, want: Waiting, tries: 1},
		"no room":             {reply: &wire.MailReply{Result: wire.MailRetry, Code: string(kinds.Overloaded)}, want: Waiting, tries: 1, rests: true},
		"no room for one":     {reply: &wire.MailReply{Result: wire.MailRetry, Code: string(kinds.Overloaded), Scope: wire.MailScopeMessage}, want: Waiting, tries: 1},
		"nonsense":            {reply: &wire.MailReply{Result: "?"}, want: Waiting, tries: 1},
		"unreached":           {err: &unreachableError{errors.New("it is away")}, want: Waiting, rests: true},
		"the file is written": {err: errChanging, want: settling},
		"it broke":            {err: errors.New("cut"), want: Waiting, tries: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := testLedger()
				q := l.bindReviewer(peerA)
				e := l.addWaiting(t, peerA, "a.yaml", 0)
				if next, _ := l.takeNextEntry(q); next != e || e.state != sending {
					t.Fatalf("took %+v", next)
				}
				events := l.recordDeliveryOutcome(q, e, c.reply, "why", c.err, time.Now())
				if e.state != c.want || len(events) != c.events || e.tries != c.tries || q.sending != 0 {
					t.Errorf("%s, %d events, %d tries, %d being sent; want %s, %d, %d, 0", e.state, len(events), e.tries, q.sending, c.want, c.events, c.tries)
				}
				if rests := q.unreached.until.After(time.Now()) || q.full.until.After(time.Now()); rests != c.rests {
					t.Errorf("the peer is left alone: %t", rests)
				}
			})
		})
	}
}

// TestNeverToTheOldHome: an agent that is bound to another peer takes along what is being
// delivered. Its delivery changes nothing when it ends, and the file goes to the new peer.
func TestNeverToTheOldHome(t *testing.T) {
	l := testLedger()
	old := l.bindReviewer(peerA)
	e := l.addWaiting(t, peerA, "a.yaml", 0)
	if next, _ := l.takeNextEntry(old); next != e {
		t.Fatalf("took %+v", next)
	}
	moved := l.bindReviewer(peerB)
	if events := l.recordDeliveryOutcome(old, e, &wire.MailReply{Result: wire.MailStored}, "", nil, time.Now()); len(events) != 0 || e.state != gone {
		t.Errorf("%s, events %v", e.state, events)
	}
	f := l.addWaiting(t, peerB, "a.yaml", 0)
	if next, _ := l.takeNextEntry(old); next != nil {
		t.Errorf("the old peer gets %+v", next)
	}
	if next, _ := l.takeNextEntry(moved); next != f {
		t.Errorf("the new peer gets %+v", next)
	}
	if old.hasWork() {
		t.Error("the old peer's queue is needed")
	}
}

// TestABindingChangesDuringAScan: what was found out of a file for one peer says nothing
// of it for another.
func TestABindingChangesDuringAScan(t *testing.T) {
	l := testLedger()
	l.bindReviewer(peerA)
	at := fileVersion{inode: 1, size: 1, mtime: 1}
	l.markFileComplete(reviewer, "a.yaml")
	c, _ := l.updateEntries(reviewer, map[string]foundFile{"a.yaml": {version: at}}, nil)
	l.bindReviewer(peerB)
	l.applyFindings(reviewer, peerA, []*finding{{entry: c.settled[0], file: &mailFile{version: at}}})
	if s := stateAfter(l, c.settled[0]); s != gone {
		t.Errorf("it is %s", s)
	}
	l.removeBinding(reviewer)
	if _, bound := l.updateEntries(reviewer, map[string]foundFile{"a.yaml": {version: at}}, nil); bound {
		t.Error("an agent that is bound to nobody has entries")
	}
}

// TestRankedDeliveries: entries of one rank are sent at a time, as many as there is room
// for; one of another waits for their end, and the most urgent goes first.
func TestRankedDeliveries(t *testing.T) {
	l := testLedger()
	q := l.bindReviewer(peerA)
	low := l.addWaiting(t, peerA, "low.yaml", 3)
	first := l.addWaiting(t, peerA, "b.yaml", 1)
	second := l.addWaiting(t, peerA, "c.yaml", 1)
	for _, want := range []*entry{first, second, nil} {
		if next, _ := l.takeNextEntry(q); next != want {
			t.Fatalf("took %+v, want %+v", next, want)
		}
	}
	for _, e := range []*entry{first, second} {
		l.recordDeliveryOutcome(q, e, &wire.MailReply{Result: wire.MailStored}, "", nil, time.Now())
	}
	if next, _ := l.takeNextEntry(q); next != low {
		t.Errorf("took %+v", next)
	}
}

// TestReason: the queue says that a file may still be being written only of one that
// was not renamed into place.
func TestReason(t *testing.T) {
	l := testLedger()
	l.bindReviewer(peerA)
	now := fileVersion{inode: 1, size: 1, mtime: time.Now().UnixNano()}
	l.markFileComplete(reviewer, "renamed.yaml")
	c, _ := l.updateEntries(reviewer, map[string]foundFile{"renamed.yaml": {version: now}, "written.yaml": {version: now}}, nil)
	if len(c.settled) != 1 || c.settled[0].file != "renamed.yaml" || c.settled[0].reason != "" {
		t.Errorf("settled: %+v", c.settled)
	}
	if e := l.bound[reviewer].entries["written.yaml"]; e.state != settling || e.reason != beingWritten || c.unsettled.files == nil {
		t.Errorf("written: %+v", e)
	}
}

// TestArrivals: a stored arrival has its room until it is consumed, when it is to be
// reported; one whose folder went is neither.
func TestArrivals(t *testing.T) {
	l := testLedger()
	key := arrivalKey{peer: peerA, mailbox: reviewer, file: "a.yaml"}
	leave, err := l.beginArrival(key)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.beginArrival(key); kinds.AsError(err).Code != kinds.Overloaded {
		t.Errorf("the same message twice: %v", err)
	}
	a := &arrival{key: key, name: "a.yaml", size: 10, folder: 1}
	if err := l.reserveRoom(a); err != nil {
		t.Fatal(err)
	}
	l.markArrivalStored(a)
	l.releaseRoomUnlessStored(a)
	leave()
	held := func(files, bytes int64) {
		t.Helper()
		if f, b := l.accounts.files.HeldBy(peerA), l.accounts.bytes.HeldBy(peerA); f != files || b != bytes || l.accounts.underWay.HeldBy(peerA) != 0 {
			t.Errorf("%d files and %d bytes are held", f, b)
		}
	}
	held(1, 10)
	if missing, moved := l.matchArrivalsWithFiles(reviewer, 2, nil, nil); len(missing)+len(moved) != 0 {
		t.Errorf("of another folder: %v missing, %v moved", missing, moved)
	}
	held(0, 0)
	if _, moved := l.matchArrivalsWithFiles(reviewer, 2, map[string]foundFile{"a.yaml": {}}, nil); len(moved) != 1 {
		t.Errorf("moved: %v", moved)
	}
	held(1, 10)
	missing, _ := l.matchArrivalsWithFiles(reviewer, 2, nil, nil)
	if len(missing) != 1 {
		t.Fatalf("missing: %v", missing)
	}
	a.state = consumed
	l.refileArrivals(missing...)
	held(0, 0)
	q := l.queues[peerA]
	if due, _ := l.beginReports(q); !due || !q.hasWork() {
		t.Error("it is not to be reported")
	}
	if l.endReports(q, false); q.hasWork() {
		t.Error("something is left to report")
	}
}
