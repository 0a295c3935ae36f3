package transfer

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
)

// TestSinceAndReasonStay: while a message is tried again the queue says since when it
// waits, and why; and so of one that is refused again.
func TestSinceAndReasonStay(t *testing.T) {
	desk, laptop := bound(t)
	laptop.deny(kinds.Errorf(kinds.Overloaded, "no room"))
	file, _ := desk.question("hello")
	var first Queued
	await.Until(t, "it waits for a reason", func() bool {
		first = desk.queued(file)
		return strings.Contains(first.Reason, "no room")
	})
	at := mailbox{"demo", "reviewer"}
	await.Until(t, "it is tried again", func() bool {
		if q := desk.queued(file); q != first {
			t.Fatalf("%+v, want %+v", q, first)
		}
		desk.ledger.mu.Lock()
		defer desk.ledger.mu.Unlock()
		return desk.ledger.bound[at].entries[file].tries >= 3
	})
	laptop.deny(kinds.Errorf(kinds.NotAuthorized, "not you"))
	refused := desk.becomes(file, Parked)
	asked := laptop.wasAsked()
	desk.ledger.mu.Lock()
	s := desk.ledger.bound[at]
	desk.ledger.requeueEntry(s.entries[file])
	if q := desk.ledger.describeEntry(s, s.entries[file]); q.State != Waiting || q.Reason != refused.Reason {
		t.Errorf("offered again: %+v", q)
	}
	desk.ledger.mu.Unlock()
	await.Until(t, "it is offered again", func() bool { return laptop.wasAsked() > asked })
	if q := desk.becomes(file, Parked); q != refused {
		t.Errorf("%+v, want %+v", q, refused)
	}
}

// TestSinceStaysOverARestart: of what is parked here, waits, was refused by the peer, or is
// delivered. What was refused is refused again after the restart.
func TestSinceStaysOverARestart(t *testing.T) {
	desk, laptop := bound(t)
	delivered, _ := desk.question("hello")
	desk.becomes(delivered, Delivered)
	laptop.deny(kinds.Errorf(kinds.NotAuthorized, "not you"))
	refused, _ := desk.question("may I?")
	desk.becomes(refused, Parked)
	const parked = "no name.yaml"
	desk.send("reviewer", parked, text1("planner", "reviewer", "hello"))
	desk.becomes(parked, Parked)
	laptop.deny(kinds.Errorf(kinds.Overloaded, "no room"))
	waiting, _ := desk.question("and now?")
	await.Until(t, "it waits for a reason", func() bool { return strings.Contains(desk.queued(waiting).Reason, "no room") })
	before := make(map[string]Queued)
	for _, file := range []string{delivered, refused, parked, waiting} {
		before[file] = desk.queued(file)
	}
	desk.stop()
	laptop.deny(kinds.Errorf(kinds.NotAuthorized, "not you"))
	desk.start()
	for file, state := range map[string]State{delivered: Delivered, refused: Parked, parked: Parked, waiting: Parked} {
		if q := desk.becomes(file, state); !q.Since.Equal(before[file].Since) || q.Since.IsZero() {
			t.Errorf("%s is %s since %v, and was %s since %v", file, state, q.Since, before[file].State, before[file].Since)
		}
	}
	if q := desk.queued(refused); q.Reason != before[refused].Reason {
		t.Errorf("%+v, want %+v", q, before[refused])
	}
}

// TestOneReportThatWaits: a report that the sender does not take yet delays no other, and is made
// again.
func TestOneReportThatWaits(t *testing.T) {
	desk, laptop := bound(t)
	consume := func(file string) {
		t.Helper()
		if err := os.Remove(filepath.Join(laptop.inbox("reviewer"), file)); err != nil {
			t.Fatal(err)
		}
	}
	told := func(file string) bool {
		a, err := laptop.storedArrival(file)
		return err == nil && a != nil && a.state == reported
	}
	deliver := func(body string) string {
		t.Helper()
		file, _ := desk.question(body)
		await.Until(t, "it arrives", func() bool { return slices.Contains(laptop.arrivedFiles(), file) })
		desk.becomes(file, Delivered)
		return file
	}
	held := deliver("held")
	desk.ledger.mu.Lock()
	e := desk.ledger.bound[mailbox{"demo", "reviewer"}].entries[held]
	e.state = sending // as if its delivery were not over
	desk.ledger.mu.Unlock()
	consume(held)
	await.Until(t, "it is to be reported", func() bool {
		a, err := laptop.storedArrival(held)
		return err == nil && a != nil && a.state == consumed
	})
	for _, body := range []string{"one", "two"} {
		file := deliver(body)
		consume(file)
		await.Until(t, "another is reported", func() bool { return told(file) })
	}
	if told(held) {
		t.Error("the one that waits is told")
	}
	desk.ledger.mu.Lock()
	e.state = Delivered
	desk.ledger.mu.Unlock()
	laptop.eventuallyReported()
}
