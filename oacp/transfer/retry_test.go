package transfer

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/integration/statedb"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/peer"
	"github.com/acpd/acpd/wire"
)

// wasAsked returns the number of times that the side was asked to admit mail.
func (s *side) wasAsked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

// courierTo is the side's courier to another.
func (s *side) courierTo(to *side) *peerQueue {
	s.ledger.mu.Lock()
	defer s.ledger.mu.Unlock()
	return s.ledger.ensureQueue(to.key.ID())
}

// TestNoRoomThere: of many messages for a peer that has no room few are tried, ever more
// rarely; they go when there is room.
// holds: security.md#against-trusted-peers
func TestNoRoomThere(t *testing.T) {
	desk, laptop := bound(t)
	laptop.deny(kinds.Errorf(kinds.Overloaded, "no room"))
	const letters = 60
	for n := range letters {
		desk.question(fmt.Sprint(n))
	}
	desk.examined(letters)
	k := desk.courierTo(laptop)
	pause := func() time.Duration {
		desk.ledger.mu.Lock()
		defer desk.ledger.mu.Unlock()
		return k.full.pause
	}
	await.Until(t, "the desk waits for long", func() bool { return pause() >= 8*firstPause })
	// Four rounds have passed, of what can be on its way at once.
	if n := laptop.wasAsked(); n > 8*maxSending {
		t.Errorf("%d attempts", n)
	}
	laptop.deny(nil)
	desk.ledger.mu.Lock()
	k.full.until = time.Time{} // so that this test need not wait
	k.stale = true
	for _, e := range desk.ledger.bound[mailbox{"demo", "reviewer"}].entries {
		e.nextTry = time.Time{}
	}
	k.signalLoops()
	desk.ledger.mu.Unlock()
	await.Until(t, "all arrive", func() bool { return len(laptop.arrivedFiles()) == letters })
	await.Until(t, "nothing is put off", func() bool { return pause() == 0 })
}

// TestOneWithoutRoom: what a peer has no room for for its own sake alone, a seventeenth of
// one name and one that another stream brings just now, holds up nothing else.
func TestOneWithoutRoom(t *testing.T) {
	desk, laptop := bound(t)
	for n := range maxNumbered {
		letter := text1("planner", "reviewer", fmt.Sprint("there ", n))
		if r := desk.says(laptop, letterOf("demo", "reviewer", "a.yaml", letter), letter); r.Result != wire.MailStored {
			t.Fatalf("%+v", r)
		}
	}
	other := desk.begins(t, laptop, 0)
	await.Until(t, "it is under way", func() bool { return laptop.ledger.accounts.underWay.HeldBy(desk.key.ID()) == 1 })
	desk.send("reviewer", "a.yaml", text1("planner", "reviewer", "one more"))
	desk.send("reviewer", "m-0.yaml", text1("planner", "reviewer", "0"))
	for file, why := range map[string]string{"a.yaml": "16 messages of the name", "m-0.yaml": "another stream brings the same"} {
		await.Until(t, file+" waits", func() bool {
			q := desk.queued(file)
			return q.State == Waiting && strings.Contains(q.Reason, why)
		})
	}
	name, _ := desk.question("now")
	await.Until(t, "another arrives", func() bool { return slices.Contains(laptop.arrivedFiles(), name) })
	k := desk.courierTo(laptop)
	desk.ledger.mu.Lock()
	if !k.full.until.IsZero() {
		t.Errorf("all mail was put off until %v", k.full.until)
	}
	desk.ledger.mu.Unlock()
	other.Cancel()
	await.Until(t, "its place is free", func() bool { return laptop.ledger.accounts.underWay.HeldBy(desk.key.ID()) == 0 })
	os.Remove(filepath.Join(laptop.inbox("reviewer"), "a_7.yaml"))
	desk.ledger.mu.Lock()
	k.stale = true
	for _, e := range desk.ledger.bound[mailbox{"demo", "reviewer"}].entries {
		e.nextTry = time.Time{} // so that this test need not wait
	}
	k.signalLoops()
	desk.ledger.mu.Unlock()
	await.Until(t, "the two arrive", func() bool {
		got := laptop.arrivedFiles()
		return slices.Contains(got, "a_7.yaml") && slices.Contains(got, "m-0.yaml")
	})
}

// TestPauses: they grow to a minute, and no further.
func TestPauses(t *testing.T) {
	desk, laptop := desks(t)
	desk.start()
	desk.ledger.mu.Lock()
	defer desk.ledger.mu.Unlock()
	k := desk.ledger.ensureQueue(laptop.key.ID())
	e := &entry{}
	now := time.Now()
	for range 100 {
		k.full.until = time.Time{}
		k.full.startPause(now, longestRetry)
		k.scheduleRetry(e, "no")
	}
	if k.full.pause != time.Minute || k.full.until.Sub(now) > time.Minute || k.full.until.Sub(now) < time.Minute/2 {
		t.Errorf("without room: %v, until %v", k.full.pause, k.full.until.Sub(now))
	}
	if wait := time.Until(e.nextTry); wait > time.Minute || wait < 29*time.Second {
		t.Errorf("a message is tried after %v", wait)
	}
}

// TestManyPauses: where many messages are refused for now, each with a pause of its own,
// all that waits is looked through after a time, and not once for each of them.
func TestManyPauses(t *testing.T) {
	desk, laptop := desks(t)
	desk.start()
	desk.ledger.mu.Lock()
	k := desk.ledger.ensureQueue(laptop.key.ID())
	now := time.Now()
	at := mailbox{"demo", "reviewer"}
	entries := make(map[string]*entry)
	for n := range 100 {
		e := &entry{mailbox: at, state: sending}
		k.scheduleRetry(e, "no")
		e.nextTry = now.Add(time.Hour + time.Duration(n)*time.Millisecond)
		entries[fmt.Sprint(n)] = e
	}
	if k.stale || k.refillAt.IsZero() || time.Until(k.refillAt) > firstPause {
		t.Errorf("after refusals: stale %t, again in %v", k.stale, k.refillAt.Sub(now))
	}
	desk.ledger.bound[at] = newBoundInbox(Binding{Project: at.project, Agent: at.agent, Peer: k.peer})
	desk.ledger.bound[at].entries = entries
	desk.ledger.refillReady(k, now.Add(time.Hour+50*time.Millisecond))
	if len(k.ready) != 51 || k.refillAt.Sub(now) != time.Hour+50*time.Millisecond+refillPause {
		t.Errorf("%d are to be sent, again after %v", len(k.ready), k.refillAt.Sub(now))
	}
	delete(desk.ledger.bound, at)
	k.ready, k.refillAt = nil, time.Time{}
	desk.ledger.mu.Unlock()
}

// answerReports answers the reports of peers with what answer returns for a file, and takes all
// else that comes.
func (s *side) answerReports(answer func(file string) *wire.MailReply) {
	s.node.Handle(wire.StreamMail, "mail", func(_ context.Context, _ identity.ID, stream *peer.Stream) {
		defer stream.Close()
		m, err := wire.ReadMailRequest(bufio.NewReader(stream))
		if err != nil {
			return
		}
		reply := &wire.MailReply{Result: wire.MailOK}
		if m.Op == wire.MailConsumed {
			reply = answer(m.File)
		}
		if b, err := wire.AppendMailReply(nil, reply); err == nil {
			stream.Write(b)
		}
	})
}

// TestReportsNotTaken: a peer that does not take reports is asked ever more rarely, and
// for one at a time, not for all of them; they are told when it does.
// holds: security.md#against-trusted-peers
func TestReportsNotTaken(t *testing.T) {
	desk, laptop := bound(t)
	var asked, told atomic.Int64
	var takes atomic.Bool
	desk.answerReports(func(string) *wire.MailReply {
		asked.Add(1)
		if takes.Load() {
			told.Add(1)
			return &wire.MailReply{Result: wire.MailOK}
		}
		return &wire.MailReply{Result: wire.MailRetry, Code: string(kinds.Overloaded), Message: "later"}
	})
	const letters = 40
	for n := range letters {
		r := desk.delivers(laptop, fmt.Sprintf("m-%d", n), 0)
		if r.Result != wire.MailStored {
			t.Fatal(r)
		}
		os.Remove(filepath.Join(laptop.inbox("reviewer"), fmt.Sprintf("m-%d.yaml", n)))
	}
	await.Until(t, "all are dealt with", func() bool { return laptop.ledger.accounts.files.HeldBy(desk.key.ID()) == 0 })
	before := asked.Load()
	await.Until(t, "it is asked for more", func() bool { return asked.Load() >= before+2*maxReports })
	if n := asked.Load() - before; n > 4*maxReports {
		t.Errorf("asked %d times in two rounds", n)
	}
	takes.Store(true)
	laptop.eventuallyReported()
	if n := told.Load(); n != letters {
		t.Errorf("%d of %d are told", n, letters)
	}
}

// TestPostponedReports: a report that the peer does not take yet has a pause that grows, however
// many others the peer takes meanwhile.
func TestPostponedReports(t *testing.T) {
	desk, laptop := bound(t)
	const held = "held.yaml"
	var asked atomic.Int64
	desk.answerReports(func(file string) *wire.MailReply {
		if file != held {
			return &wire.MailReply{Result: wire.MailOK}
		}
		asked.Add(1)
		return &wire.MailReply{Result: wire.MailRetry, Code: string(kinds.Overloaded), Scope: wire.MailScopeMessage}
	})
	began := time.Now()
	consume := func(name string) {
		t.Helper()
		if r := desk.delivers(laptop, name, 0); r.Result != wire.MailStored {
			t.Fatal(r)
		}
		os.Remove(filepath.Join(laptop.inbox("reviewer"), name+".yaml"))
	}
	consume("held")
	await.Until(t, "it is not taken", func() bool { return asked.Load() > 0 })
	for n := range 20 {
		name := fmt.Sprintf("m-%d", n)
		consume(name)
		await.Until(t, "another is reported", func() bool {
			a, err := laptop.storedArrival(name + ".yaml")
			return err == nil && a != nil && a.state == reported
		})
	}
	most := int64(1)
	for pause := firstPause / 2; pause < time.Since(began); pause *= 2 { // the least that the pauses add up to
		most++
	}
	if n := asked.Load(); n > most {
		t.Errorf("it was reported %d times in %v, want at most %d", n, time.Since(began), most)
	}
}

// TestPausesOfReports: a bounded number of reports have pauses of their own, which grow and are
// forgotten with the reports.
func TestPausesOfReports(t *testing.T) {
	l := newLedger(accounts{})
	q := l.ensureQueue(identity.ID{1})
	var all []*arrival
	for n := range reportBatch {
		a := &arrival{key: arrivalKey{file: fmt.Sprint(n)}}
		if put := l.postponeReport(q, a.key); put != (n < maxPostponed) {
			t.Fatalf("report %d is postponed: %t", n, put)
		}
		all = append(all, a)
	}
	if due := l.dropPostponedReports(q, slices.Clone(all)); len(due) != reportBatch-maxPostponed {
		t.Errorf("%d are due", len(due))
	}
	if wait := l.endReports(q, false); wait <= 0 || wait > firstPause || !q.hasWork() {
		t.Errorf("the next in %v, has work %t", wait, q.hasWork())
	}
	first := q.postponed[all[0].key]
	first.until = time.Time{} // so that this test need not wait
	if due := l.dropPostponedReports(q, all[:1]); len(due) != 1 || len(q.postponed) != 1 {
		t.Errorf("%d are due, %d are kept", len(due), len(q.postponed))
	}
	if l.postponeReport(q, all[0].key); first.pause != 2*firstPause {
		t.Errorf("the second pause is %v", first.pause)
	}
	if l.dropPostponedReports(q, nil); l.endReports(q, false) != 0 {
		t.Error("pauses of reports that are gone are kept")
	}
}

// TestManyReports: reports are read from the store, several times if there are many, also after a
// restart.
func TestManyReports(t *testing.T) {
	desk, laptop := bound(t)
	const letters = reportBatch + 5
	for n := range letters {
		if r := desk.delivers(laptop, fmt.Sprintf("m-%d", n), 0); r.Result != wire.MailStored {
			t.Fatal(r)
		}
	}
	desk.stop()
	for n := range letters {
		os.Remove(filepath.Join(laptop.inbox("reviewer"), fmt.Sprintf("m-%d.yaml", n)))
	}
	await.Until(t, "all are dealt with", func() bool { return laptop.ledger.accounts.files.HeldBy(desk.key.ID()) == 0 })
	laptop.stop()
	laptop.start()
	desk.start()
	laptop.eventuallyReported()
}

// TestPresenceAsReason: a peer that gives reasons without end is offered what it has
// refused once, and the log has each file once.
// holds: security.md#against-trusted-peers
func TestPresenceAsReason(t *testing.T) {
	desk, laptop := bound(t)
	const letters = 5
	laptop.deny(kinds.Errorf(kinds.NotAuthorized, "policy says no"))
	for n := range letters {
		file, _ := desk.question(fmt.Sprint(n))
		desk.becomes(file, Parked)
	}
	k := desk.courierTo(laptop)
	await.Until(t, "they are connected", func() bool { // which is a reason too
		desk.ledger.mu.Lock()
		defer desk.ledger.mu.Unlock()
		k.retriedAt = time.Time{}
		return desk.ledger.connected[laptop.key.ID()]
	})
	before := laptop.wasAsked()
	for range 100 {
		r := laptop.says(desk, &wire.MailRequest{Op: wire.MailPresence, Project: "demo", Agent: "reviewer", Status: "busy"}, "")
		if r.Result != wire.MailOK {
			t.Fatal(r)
		}
	}
	await.Until(t, "they are offered again and refused", func() bool {
		for _, q := range desk.ListQueue("demo") {
			if q.State != Parked {
				return false
			}
		}
		return laptop.wasAsked() >= before+letters
	})
	if n := laptop.wasAsked() - before; n > 2*letters {
		t.Errorf("%d messages were offered %d times", letters, n)
	}
	for range 10 {
		desk.SetConnected(laptop.key.ID(), false)
		desk.SetConnected(laptop.key.ID(), true)
	}
	if n := laptop.wasAsked() - before; n > 2*letters {
		t.Errorf("by connections that come and go: %d times", n)
	}
	if said := desk.logged("mail " + string(Parked)); len(said) != letters {
		t.Errorf("%d lines of the log: %s", len(said), strings.Join(said, ""))
	}
	// What it has given a reason for is offered in the next minute.
	desk.ledger.mu.Lock()
	if !k.retryPending {
		t.Error("its reason is forgotten")
	}
	k.retriedAt = time.Now().Add(-retryRefusedEvery)
	desk.ledger.mu.Unlock()
	laptop.deny(nil)
	await.Until(t, "all arrive", func() bool { return len(laptop.arrivedFiles()) == letters })
}

// TestSlowFolders: a full scan of a folder that takes long is not repeated for fifty times as long;
// single files that change are scanned meanwhile. A scan of few names is repeated every time, however
// busy the machine is.
func TestSlowFolders(t *testing.T) {
	desk, _ := bound(t)
	p := mailbox{"demo", "reviewer"}
	desk.stop() // so that nothing looks
	now := time.Now()
	looked := func() bool {
		clear(desk.ledger.dirty)
		desk.ledger.markAllDirty()
		which, is := desk.ledger.dirty[p]
		if !is {
			t.Error("the status is not updated")
		}
		return which == nil
	}
	const many = 100_000
	desk.ledger.delayNextScan(p, many, rescanEvery/scanShare, now)
	if !looked() {
		t.Error("a folder that takes its share is not looked through")
	}
	desk.ledger.delayNextScan(p, 100, time.Hour, now)
	if !looked() {
		t.Error("a folder of few names is not looked through")
	}
	desk.ledger.delayNextScan(p, many, time.Second, now)
	if wait := desk.ledger.scanAfter[p].Sub(now); wait != scanShare*time.Second || looked() {
		t.Errorf("one that takes a second is looked through before %v", wait)
	}
	desk.ledger.markFilesDirtyLocked(p, names{"a.yaml": {}})
	if which := desk.ledger.dirty[p]; len(which) != 1 {
		t.Errorf("what is heard of: %v", which)
	}
	desk.ledger.scanAfter[p] = now.Add(-time.Second)
	if !looked() {
		t.Error("its turn has come")
	}
	if len(desk.ledger.scanAfter) != 0 {
		t.Errorf("left: %v", desk.ledger.scanAfter)
	}
}

// TestStatusWrites: a peer that says without end how its agent is has few files written,
// and the last word counts.
func TestStatusWrites(t *testing.T) {
	desk, laptop := bound(t)
	desk.node.Connect(laptop.key.ID())
	await.Until(t, "they are connected", func() bool {
		desk.ledger.mu.Lock()
		defer desk.ledger.mu.Unlock()
		return desk.ledger.connected[laptop.key.ID()]
	})
	path := filepath.Join(desk.folder("demo", "reviewer"), statusFile)
	p := mailbox{"demo", "reviewer"}
	files := make(map[int64]bool)
	begun := time.Now()
	for n := range 1000 {
		desk.ledger.recordPresence(laptop.key.ID(), p, []string{busy, available}[n%2])
		desk.updateStatusFile(p)
		if info, err := os.Stat(path); err == nil {
			files[info.ModTime().UnixNano()] = true
		}
	}
	if most := 3 + int(time.Since(begun)/statusPause); len(files) > most {
		t.Errorf("%d files were written, expected %d at most", len(files), most)
	}
	await.Until(t, "the last word is written", func() bool {
		desk.ledger.recordPresence(laptop.key.ID(), p, busy) // the laptop says that it is available, once
		text, _ := os.ReadFile(path)
		return strings.Contains(string(text), "\nstatus: busy\n")
	})
}

// TestReportsOfALedgerThatCannotBeRead: where the ledger does not say what is to be
// told, it is asked again after a pause that grows, as long as it lasts.
func TestReportsOfALedgerThatCannotBeRead(t *testing.T) {
	db := statedb.New(t)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		c := &Mailer{ledger: newLedger(accounts{}), failures: failureLog{seen: make(map[failure]struct{})}, cfg: Config{DB: db, Log: slog.New(slog.DiscardHandler)}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		k := &peerQueue{unreported: true, reportSignal: make(chan struct{}, 1)}
		c.reportLoop(ctx, k) // without pauses the hour would not pass
		if !k.unreported {
			t.Error("what is to be told was given up")
		}
	})
}
