package traffic

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/acpd/acpd/kinds"
)

func TestWatchersAreBounded(t *testing.T) {
	r := newTestRecorder()
	for i := range maxWatchers {
		if err := r.Watch(i, false); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Watch("one more", false); kinds.AsError(err).Code != kinds.Overloaded || r.IsWatching("one more") {
		t.Error(err)
	}
	if err := r.Watch(7, false); err != nil {
		t.Error("one that watches:", err)
	}
	r.EndWatch(7)
	if err := r.Watch("one more", false); err != nil || !r.IsWatching("one more") || r.IsWatching(7) {
		t.Error(err)
	}
}

// readAs reads all that is there as a watcher, and returns the cursor, and how many entries came and were
// lost.
func (r *Recorder) readAs(t testing.TB, who any, after uint64) (next uint64, came, lost int) {
	t.Helper()
	for next = after; ; {
		a, err := r.Read(t.Context(), &Query{Who: who, After: next, Limit: 1000, Room: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		next, came, lost = a.Next, came+len(a.Entries), lost+int(a.Lost)
		if len(a.Entries) == 0 {
			return next, came, lost
		}
	}
}

// A watcher that has read nothing for long is forgotten when it loses entries: nothing is recorded for it
// any more, its memory is given back, and when it reads again, it is told of all that it has missed.
// holds: security.md#at-rest
func TestAStalledWatcherIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTestRecorder()
		watch := func(who string) (cursor uint64) {
			t.Helper()
			if err := r.Watch(who, false); err != nil {
				t.Fatal(err)
			}
			cursor, _, _ = r.readAs(t, who, 0)
			return cursor
		}
		sent, m := 0, passed(t, "x")
		record := func(many int) {
			for range many {
				r.Record(m)
				sent++
			}
		}
		begin := watch("stalled")
		// One that waits for news is not stalled, however long none comes.
		watch("waiting")
		go r.Read(t.Context(), &Query{Who: "waiting", After: begin, Limit: 1, Room: 1 << 20, Wait: time.Hour, Filter: Filter{Kinds: []string{kinds.KindQuery}}})
		synctest.Wait()
		time.Sleep(patience - time.Millisecond)
		record(2 * watched.Entries)
		if !r.IsWatching("stalled") {
			t.Error("it is forgotten too soon")
		}
		time.Sleep(time.Millisecond)
		record(lookEvery)
		if r.IsWatching("stalled") || !r.IsWatching("waiting") {
			t.Error("who has stalled is not forgotten, or another one is")
		}
		r.EndWatch("waiting")
		if r.IsOn() || !r.isEmpty() {
			t.Errorf("kept: %+v", r.kept)
		}
		record(100) // are counted
		if err := r.Watch("stalled", false); err != nil {
			t.Fatal(err)
		}
		record(10)
		cursor, came, lost := r.readAs(t, "stalled", begin)
		if came != 10 || came+lost != sent {
			t.Errorf("%d came and %d were lost of %d", came, lost, sent)
		}

		// One that stands still while little passes loses nothing, and so it is not forgotten.
		time.Sleep(24 * time.Hour)
		record(watched.Entries / 4)
		if _, came, lost := r.readAs(t, "stalled", cursor); !r.IsWatching("stalled") || came != watched.Entries/4 || lost != 0 {
			t.Errorf("%d came and %d were lost", came, lost)
		}
	})
}

// With a history only what is kept for a stalled watcher besides is given up.
func TestAStalledWatcherLeavesTheHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTestRecorder()
		r.SetHistory(Bounds{10, leastBytes})
		if err := r.Watch("stalled", true); err != nil {
			t.Fatal(err)
		}
		r.readAs(t, "stalled", 0)
		time.Sleep(patience)
		m := passed(t, "x")
		for range watched.Entries + lookEvery {
			r.Record(m)
		}
		texts, next, _ := r.all(t, 0)
		if r.IsWatching("stalled") || !r.IsOn() || len(texts) != 10 || next != r.next-1 {
			t.Errorf("%q", texts)
		}
		r.kept.check(t)
	})
}
