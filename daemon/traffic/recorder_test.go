package traffic

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/peer"
	"github.com/acpd/acpd/wire"
)

var (
	desk   = identity.ID{0xde, 0x5c}
	laptop = identity.ID{0x1a, 0x70}

	blocked = identity.ID{0xb1}
)

func newTestRecorder() *Recorder {
	return NewRecorder(func(id identity.ID) string {
		if id == laptop {
			return "laptop"
		}
		return ""
	}, func(id identity.ID) bool { return id == blocked })
}

// leastBytes is the least of Bounds.Bytes.
const leastBytes = 256 << 10

// passed returns a notify from laptop that was handed over.
func passed(t testing.TB, text string) *peer.Passing {
	t.Helper()
	return message(t, wire.NewEnvelope(laptop, desk, kinds.KindNotify, kinds.EncodePayload(map[string]string{"topic": "build.status", "data": text})))
}

func message(t testing.TB, env *wire.Envelope) *peer.Passing {
	t.Helper()
	c, err := kinds.CheckEnvelope(env)
	if err != nil {
		t.Fatal(err)
	}
	return &peer.Passing{Inbound: true, Checked: c, Began: time.Now(), Outcome: peer.Handed}
}

// all reads everything that is behind a cursor.
func (r *Recorder) all(t testing.TB, after uint64) (texts []string, next, lost uint64) {
	t.Helper()
	return r.allAs(t, nil, after)
}

// allAs is all, read by who.
func (r *Recorder) allAs(t testing.TB, who any, after uint64) (texts []string, next, lost uint64) {
	t.Helper()
	for next = after; ; {
		a, err := r.Read(t.Context(), &Query{Who: who, After: next, Limit: 1000, Room: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		for i, e := range a.Entries {
			if i > 0 && (e.Seq <= a.Entries[i-1].Seq || a.Lost == 0 && after != 0 && e.Seq != a.Entries[i-1].Seq+1) {
				t.Errorf("number %d follows on %d", e.Seq, a.Entries[i-1].Seq)
			}
			texts = append(texts, e.Text)
		}
		lost += a.Lost
		if next = a.Next; len(a.Entries) == 0 {
			return texts, next, lost
		}
	}
}

func TestNothingIsKeptForNobody(t *testing.T) {
	r := newTestRecorder()
	for range 3 {
		r.Record(passed(t, "unseen"))
	}
	if r.IsOn() || !r.isEmpty() {
		t.Errorf("kept: %+v", r)
	}
	p := new(peer.Passing)
	if n := testing.AllocsPerRun(100, func() { r.Record(p) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if err := r.Watch("a"); err != nil {
		t.Fatal(err)
	}
	_, begin, _ := r.all(t, 0)
	r.Record(passed(t, "seen"))
	if texts, next, lost := r.all(t, begin); !slices.Equal(texts, []string{"seen"}) || next != begin+1 || lost != 0 {
		t.Error(texts, next, lost)
	}
	if err := r.Watch("a"); err != nil { // again
		t.Fatal(err)
	}
	r.EndWatch("a")
	r.EndWatch("a")
	r.Record(passed(t, "unseen"))
	if r.IsOn() || !r.isEmpty() {
		t.Errorf("kept: %+v", r)
	}
	// Its cursor counts on: what it has not read is gone, and what passed since is counted.
	if texts, next, lost := r.all(t, begin); texts != nil || next != begin+2 || lost != 2 {
		t.Error(texts, next, lost)
	}
	if err := r.Watch("b"); err != nil {
		t.Fatal(err)
	}
	r.Record(passed(t, "seen"))
	if texts, next, lost := r.all(t, begin); !slices.Equal(texts, []string{"seen"}) || next != begin+3 || lost != 2 {
		t.Error(texts, next, lost)
	}
}

// A reader whose connection breaks again and again, as that of one that stands still does, is told of
// each message that it has not read, while others record.
// holds: security.md#at-rest
func TestAConnectionThatBreaks(t *testing.T) {
	r := newTestRecorder()
	if err := r.Watch(0); err != nil {
		t.Fatal(err)
	}
	q, got := &Query{Limit: 1000, Room: 1 << 20}, uint64(0)
	read := func() (entries int) {
		a, err := r.Read(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		q.After = a.Next
		got += uint64(len(a.Entries)) + a.Lost
		return len(a.Entries)
	}
	read()
	const writers, each = 4, 1000
	var writing sync.WaitGroup
	for range writers {
		m := passed(t, "x")
		writing.Go(func() {
			for range each {
				r.Record(m)
			}
		})
	}
	done := make(chan struct{})
	go func() { writing.Wait(); close(done) }()
	for i, ended := 0, false; !ended; i++ {
		select {
		case <-done:
			ended = true
		default:
		}
		read()
		r.EndWatch(i)
		if err := r.Watch(i + 1); err != nil {
			t.Fatal(err)
		}
	}
	for read() > 0 {
	}
	if got != writers*each {
		t.Errorf("%d of %d are known of", got, writers*each)
	}
}

func TestWhatIsOverwrittenIsCounted(t *testing.T) {
	r := newTestRecorder()
	r.SetHistory(Bounds{5, 1 << 20})
	begin := r.next - 1
	for i := range 12 {
		r.Record(passed(t, fmt.Sprint(i)))
		if n := r.kept.entries; n > 5 {
			t.Fatalf("%d entries", n)
		}
	}
	last := []string{"7", "8", "9", "10", "11"}
	for _, c := range []struct {
		after uint64
		want  []string
		lost  uint64
	}{
		{0, last, 0}, // the oldest that is kept
		{begin, last, 7},
		{begin + 3, last, 4},
		{begin + 7, last, 0},
		{begin + 10, last[3:], 0},
		{begin + 12, nil, 0},
		{begin + 13, last, 0}, // of another process
		{1, last, 7},          // of an earlier one
	} {
		texts, next, lost := r.all(t, c.after)
		if !slices.Equal(texts, c.want) || lost != c.lost || next != begin+12 {
			t.Errorf("after %d: %q, next %d, lost %d; want %q, lost %d", int64(c.after-begin), texts, next-begin, lost, c.want, c.lost)
		}
	}
	r.SetHistory(Bounds{2, 1 << 20})
	if texts, _, lost := r.all(t, begin+7); !slices.Equal(texts, last[3:]) || lost != 3 {
		t.Error(texts, lost)
	}
	r.SetHistory(Bounds{})
	if texts, _, lost := r.all(t, begin+7); texts != nil || lost != 5 || !r.isEmpty() {
		t.Error(texts, lost)
	}
}

func TestReadersWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTestRecorder()
		if err := r.Watch("a"); err != nil {
			t.Fatal(err)
		}
		_, begin, _ := r.all(t, 0)
		read := func(ctx context.Context, after uint64, wait time.Duration, f Filter) (*client.TrafficAnswer, time.Duration, error) {
			began := time.Now()
			a, err := r.Read(ctx, &Query{After: after, Limit: 1000, Room: 1 << 20, Wait: wait, Filter: f})
			return a, time.Since(began), err
		}
		if a, took, err := read(t.Context(), begin, 7*time.Second, Filter{}); err != nil || len(a.Entries) != 0 || took != 7*time.Second {
			t.Error(a, took, err)
		}
		go func() {
			time.Sleep(5 * time.Second)
			for i := range 3 {
				r.Record(passed(t, fmt.Sprint(i)))
				time.Sleep(4 * time.Millisecond)
			}
		}()
		// It is woken once for what comes together.
		a, took, err := read(t.Context(), begin, 30*time.Second, Filter{})
		if err != nil || len(a.Entries) != 3 || took != 5*time.Second+gatherTime {
			t.Error(a, took, err)
		}
		if a, took, err := read(t.Context(), begin, 30*time.Second, Filter{}); err != nil || len(a.Entries) != 3 || took > gatherTime {
			t.Error("what is there:", a, took, err)
		}
		// Nothing that it wants comes.
		go func() {
			time.Sleep(time.Second)
			r.Record(passed(t, "other"))
		}()
		a, took, err = read(t.Context(), a.Next, 3*time.Second, Filter{Kinds: []string{kinds.KindQuery}})
		if err != nil || len(a.Entries) != 0 || took != 3*time.Second || a.Next != r.next-1 {
			t.Error(a, took, err)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		gone := errors.New("gone")
		time.AfterFunc(time.Second, func() { cancel(gone) })
		if a, took, err := read(ctx, r.next-1, 30*time.Second, Filter{}); !errors.Is(err, gone) || took != time.Second {
			t.Error(a, took, err)
		}
	})
}

func TestWatchersAreBounded(t *testing.T) {
	r := newTestRecorder()
	for i := range maxWatchers {
		if err := r.Watch(i); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Watch("one more"); kinds.AsError(err).Code != kinds.Overloaded || r.IsWatching("one more") {
		t.Error(err)
	}
	if err := r.Watch(7); err != nil {
		t.Error("one that watches:", err)
	}
	r.EndWatch(7)
	if err := r.Watch("one more"); err != nil || !r.IsWatching("one more") || r.IsWatching(7) {
		t.Error(err)
	}
}
