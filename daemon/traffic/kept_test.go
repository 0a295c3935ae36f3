package traffic

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/peer"
	"github.com/acpd/acpd/wire"
)

// isEmpty reports whether nothing is kept.
func (r *Recorder) isEmpty() bool {
	return len(r.kept.rings) == 0 && len(r.kept.byPeer) == 0 && r.kept.entries == 0 && r.kept.bytes == 0
}

// check reports sums that are wrong, lists out of order, and what is beyond the bounds.
func (k *kept) check(t testing.TB) {
	t.Helper()
	entries, bytes := 0, 0
	for at, r := range k.rings {
		var is ring
		for _, isPing := range []bool{true, false} {
			last := uint64(0)
			for _, e := range *r.listOf(isPing) {
				if e.Seq <= last || e.Peer != r.peer || e.isPing != isPing {
					t.Fatalf("number %d follows on %d: %+v", e.Seq, last, e)
				}
				last = e.Seq
				is.entries++
				is.bytes += e.cost()
			}
		}
		if r.at != at || k.byPeer[r.peer] != r || is.entries == 0 || is.entries != r.entries || is.bytes != r.bytes {
			t.Fatalf("%d entries of %d bytes, counted are %d of %d", is.entries, is.bytes, r.entries, r.bytes)
		}
		entries += r.entries
		bytes += r.bytes
	}
	if len(k.byPeer) != len(k.rings) || entries != k.entries || bytes != k.bytes || entries > k.bounds.Entries || bytes > k.bounds.Bytes {
		t.Fatalf("%d entries of %d bytes, counted are %d of %d, the bounds are %v", entries, bytes, k.entries, k.bytes, k.bounds)
	}
}

// said returns what a peer says.
func said(t testing.TB, peer identity.ID, text string) *peer.Passing {
	t.Helper()
	return message(t, wire.NewEnvelope(peer, desk, kinds.KindNotify, kinds.EncodePayload(map[string]string{"topic": "build.status", "data": text})))
}

// pinged returns a ping of a peer, or a discover, with some bytes that say nothing.
func pinged(t testing.TB, peer identity.ID, kind string, size int) *peer.Passing {
	t.Helper()
	return message(t, wire.NewEnvelope(peer, desk, kind, kinds.EncodePayload(map[string]string{"filler": strings.Repeat("x", size)})))
}

// Pings and discovers of a peer go before all else of it, whenever they came, and before nothing of another peer.
// holds: security.md#at-rest
func TestPingsGoFirst(t *testing.T) {
	kindOf := map[byte]string{'p': kinds.KindPing, 'd': kinds.KindDiscover}
	for _, c := range []struct{ said, kept string }{ // peer, kind (m: a notify) and number, of which 4 are kept
		{"am1 am2 am3 am4 am5", "am2 am3 am4 am5"},
		{"ap1 ap2 ap3 ap4 ap5 ap6", "ap3 ap4 ap5 ap6"},
		{"ap1 am2 ap3 am4 am5 am6", "am2 am4 am5 am6"},
		{"am1 ap2 am3 ad4 am5", "am1 am3 ad4 am5"},
		{"am1 am2 am3 am4 ap5 ap6 ad7 ap8", "am2 am3 am4 ap8"},
		{"am1 am2 am3 am4 ap5 am6 ap7 am8", "am3 am4 am6 am8"},
		{"am1 am2 am3 am4 bp5 bp6 bp7", "am3 am4 bp6 bp7"},
		{"bp1 am2 am3 ap4 am5 am6", "bp1 am3 am5 am6"},
		{"bp1 bp2 am3 am4 bm5 bm6 am7", "am4 bm5 bm6 am7"},
	} {
		r := newTestRecorder()
		r.SetHistory(Bounds{4, leastBytes})
		begin := r.next - 1
		var all []string
		for entry := range strings.FieldsSeq(c.said) {
			peer, m := identity.ID{entry[0]}, (*peer.Passing)(nil)
			if kind := kindOf[entry[1]]; kind != "" {
				m = pinged(t, peer, kind, 0)
			} else {
				m = said(t, peer, entry)
			}
			r.Record(m)
			all = append(all, entry)
			r.kept.check(t)
		}
		a, err := r.Read(t.Context(), &Query{After: begin, Limit: 1000, Room: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		var kept []string
		for _, e := range a.Entries {
			kept = append(kept, all[e.Seq-begin-1])
		}
		if got := strings.Join(kept, " "); got != c.kept || int(a.Lost) != len(all)-len(kept) {
			t.Errorf("of %s are kept %s, %d lost; want %s", c.said, got, a.Lost, c.kept)
		}
	}
}

// A peer that floods pushes out its own messages, and none of the others: by their number, by their size,
// and both at a time.
// holds: security.md#at-rest
func TestAFloodPushesOutItsOwn(t *testing.T) {
	quiet, small, large := identity.ID{1}, identity.ID{2}, identity.ID{3}
	for _, flood := range []map[identity.ID]int{{small: 10}, {large: 60_000}, {small: 10, large: 60_000}} {
		r := newTestRecorder()
		r.SetHistory(Bounds{300, 1 << 20})
		begin := r.next - 1
		for i := range 40 {
			r.Record(said(t, quiet, fmt.Sprint("quiet ", i)))
		}
		var all []*peer.Passing
		for peer, size := range flood {
			all = append(all, said(t, peer, strings.Repeat("x", size)))
		}
		for range 1000 {
			for _, m := range all {
				r.Record(m)
			}
		}
		r.kept.check(t)
		texts, next, lost := r.all(t, begin)
		heard := slices.DeleteFunc(slices.Clone(texts), func(text string) bool { return !strings.HasPrefix(text, "quiet ") })
		if len(heard) != 40 || heard[0] != "quiet 0" || len(texts)+int(lost) != 40+1000*len(flood) || next != r.next-1 {
			t.Errorf("%d of the quiet one's, %d in all, %d lost", len(heard), len(texts), lost)
		}
		for peer := range flood {
			one := r.kept.byPeer[peer]
			if one == nil || len(flood) == 2 && 3*one.entries < r.history.Entries && 3*one.bytes < r.history.Bytes {
				t.Errorf("of %v are kept %+v", peer, one)
			}
		}
		// Nobody who begins now is told that it has lost what was gone before.
		if all, _, lost := r.all(t, 0); lost != 0 || len(all) != len(texts) {
			t.Errorf("%d entries for one who begins, %d lost", len(all), lost)
		}
	}
}

// listNumbers returns the numbers of a ring's entries, of pings or of all else.
func (r *ring) listNumbers(isPing bool) (numbers []uint64) {
	for _, e := range *r.listOf(isPing) {
		numbers = append(numbers, e.Seq)
	}
	return numbers
}

// Whatever is kept, whoever says it, and however the bounds change: all lists agree, the memory is bounded,
// each reader knows of each message, and nothing else of a peer goes before its pings.
func TestWhatIsKeptAgrees(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(1, 2))
		r := newTestRecorder()
		r.SetHistory(Bounds{50, leastBytes})
		begin, sent, cursor, known := r.next-1, 0, r.next-1, 0
		for i := range 1000 {
			size := []int{0, 10, 200, 1000, 5000, 40_000}[random.IntN(6)]
			peer, m := identity.ID{1 + byte(random.ExpFloat64()*4)}, (*peer.Passing)(nil)
			switch random.IntN(4) {
			case 0:
				m = pinged(t, peer, kinds.KindPing, size)
			case 1:
				m = pinged(t, peer, kinds.KindDiscover, size)
			default:
				m = said(t, peer, strings.Repeat("x", size))
			}
			if random.IntN(2) == 0 {
				m.Reply = wire.NewReply(m.Envelope, kinds.KindResponse, m.Payload)
			}
			others := make(map[identity.ID][]uint64) // of each peer that had more than pings
			for _, one := range r.kept.rings {
				others[one.peer] = one.listNumbers(false)
			}
			r.Record(m)
			sent++
			switch random.IntN(70) {
			case 4:
				r.ForgetPeer(peer)
				if of := r.kept.byPeer[peer]; of != nil {
					t.Fatalf("%d entries of a peer are left", of.entries)
				}
				r.kept.check(t)
			case 0:
				r.SetHistory(Bounds{1 + random.IntN(500), leastBytes << random.IntN(4)})
			case 1:
				if err := r.Watch("a"); err != nil {
					t.Fatal(err)
				}
			case 2:
				r.EndWatch("a")
			case 3:
				texts, next, lost := r.all(t, cursor)
				known += len(texts) + int(lost)
				cursor = next
			}
			for _, one := range r.kept.rings {
				was, is := others[one.peer], one.listNumbers(false)
				wentFirst := len(was) > 0 && !slices.Contains(is, was[0])
				if pings := one.listNumbers(true); wentFirst && len(pings) > 0 && pings[0] != r.next-1 {
					t.Fatalf("%d of a peer went, and its pings %d did not", was[0], pings)
				}
			}
			if i%10 == 0 {
				r.kept.check(t)
			}
		}
		texts, _, lost := r.all(t, cursor)
		if known += len(texts) + int(lost); known != sent || cursor <= begin {
			t.Errorf("%d of %d are known of", known, sent)
		}
	})
}

// What was kept for those who watched is dropped when they are gone, but for the history.
func TestWhatWasWatchedIsDropped(t *testing.T) {
	r := newTestRecorder()
	r.SetHistory(Bounds{10, leastBytes})
	if err := r.Watch("a"); err != nil {
		t.Fatal(err)
	}
	for i := range 4500 {
		r.Record(said(t, identity.ID{1 + byte(i%3)}, fmt.Sprint(i, strings.Repeat(" x", 500))))
	}
	if r.kept.bytes < watched.Bytes/2 {
		t.Errorf("%d bytes", r.kept.bytes)
	}
	r.EndWatch("a")
	r.kept.check(t)
	if texts, _, _ := r.all(t, 0); len(texts) != 10 || !strings.HasPrefix(texts[9], "4499 ") {
		t.Errorf("%q", texts)
	}
	r.SetHistory(Bounds{})
	if !r.isEmpty() {
		t.Errorf("%+v", r.kept)
	}
}

// What is counted for an entry is not less than the memory that it takes.
func TestTheCostOfAnEntry(t *testing.T) {
	const many = 2000
	for _, size := range []int{0, 100, 1000, 20_000} {
		var all [many]*entry
		m := said(t, laptop, strings.Repeat("x", size))
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		for i := range all {
			all[i] = newEntry(m)
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		if takes, cost := int(after.HeapAlloc-before.HeapAlloc)/many, all[0].cost(); takes > cost+cost/8 { // sizes are rounded up
			t.Errorf("%d bytes of payload: an entry takes %d, counted are %d", size, takes, cost)
		}
		runtime.KeepAlive(&all)
	}
}

// Nothing is kept of a peer that is blocked; whoever reads is told that entries are missing.
func TestABlockedPeerLeavesNothing(t *testing.T) {
	r := newTestRecorder()
	r.SetHistory(History)
	begin := r.next - 1
	for _, peer := range []identity.ID{laptop, blocked, laptop} {
		r.Record(said(t, peer, "hello"))
	}
	if texts, _, lost := r.all(t, begin); len(texts) != 2 || lost != 1 {
		t.Errorf("%q, %d lost", texts, lost)
	}
}
