package traffic

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"unsafe"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/peer"
	"github.com/acpd/acpd/wire"
)

// isEmpty reports whether no memory is taken.
func (r *Recorder) isEmpty() bool { return r.kept.memory() == 0 && r.kept.bytes == 0 }

// memory returns how many bytes the entries take, free ones included: but for the unused end of the last
// chunk, the places that an empty list has, and maps.
func (k *kept) memory() int {
	places := len(k.order.places)
	if places == leastPlaces {
		places = 0
	}
	return k.arena.countMade()*blockBytes + places*int(unsafe.Sizeof(place{})) + cap(k.shares.all)*int(unsafe.Sizeof(sized{})) + len(k.shares.all)*int(unsafe.Sizeof(share{}))
}

// check reports what does not agree, or is beyond the bounds.
func (k *kept) check(t testing.TB) {
	t.Helper()
	k.checkLists(t)
	if k.order.entries() > k.bounds.Entries || k.bytes > k.bounds.Bytes {
		t.Fatalf("%d entries of %d bytes, the bounds are %v", k.order.entries(), k.bytes, k.bounds)
	}
}

// checkLists reports what does not agree.
func (k *kept) checkLists(t testing.TB) {
	t.Helper()
	var blocks, entries, last = 0, 0, uint64(0)
	chain := func(first uint32) (blocks int) {
		for n := first; n != 0; n = k.arena.at(n).next {
			blocks++
		}
		return blocks
	}
	type in struct {
		peer   identity.ID
		isPing bool
	}
	lists, peers := make(map[in][]uint64), make(map[identity.ID]bool)
	for i := range k.order.count {
		p := k.order.at(i)
		if p.number <= last {
			t.Fatalf("number %d follows on %d", p.number, last)
		}
		if last = p.number; p.first == 0 {
			continue
		}
		e := readEntry(k.arena.appendTo(nil, p.first))
		if e.Seq != p.number {
			t.Fatalf("number %d is at %d", e.Seq, p.number)
		}
		l := in{e.Peer, e.Kind == kinds.KindPing || e.Kind == kinds.KindDiscover}
		lists[l], peers[e.Peer] = append(lists[l], e.Seq), true
		blocks += chain(p.first)
		entries++
	}
	if made, free := k.arena.countMade(), chain(k.arena.halves[0].free)+chain(k.arena.halves[1].free); made != blocks+free {
		t.Fatalf("%d blocks, of which %d are used and %d free", made, blocks, free)
	}
	if want := blocks*blockBytes + entries*entryCost + len(peers)*shareCost; entries != k.order.entries() || k.bytes != want || len(peers) != len(k.shares.all) || len(peers) != len(k.shares.byPeer) {
		t.Fatalf("%d entries, %d are said; %d bytes of %d; %d peers of %d", entries, k.order.entries(), k.bytes, want, len(k.shares.all), len(peers))
	}
	for i, one := range k.shares.all {
		entries := 0
		for _, isPing := range []bool{true, false} {
			numbers := k.listNumbers(one.share, isPing)
			if want := lists[in{one.peer, isPing}]; !slices.Equal(numbers, want) {
				t.Fatalf("peer %d, pings %v: %d, want %d", i, isPing, numbers, want)
			}
			entries += len(numbers)
		}
		if one.entries != entries || one.at != i || k.shares.byPeer[one.peer] != one.share || one.size != k.shares.measure(one.share) || one.size > k.shares.all[max(i-1, 0)/branches].size {
			t.Fatalf("peer %d of %d: %d entries, want %d, %+v", i, len(k.shares.all), one.entries, entries, one)
		}
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
			if one := r.kept.shares.byPeer[peer]; one == nil || len(flood) == 2 && 3*r.kept.shares.measure(one) < uint64(r.history.Entries)*uint64(r.history.Bytes) {
				t.Errorf("of %v are kept %+v", peer, one)
			}
		}
		// Nobody who begins now is told that it has lost what was gone before.
		if all, _, lost := r.all(t, 0); lost != 0 || len(all) != len(texts) {
			t.Errorf("%d entries for one who begins, %d lost", len(all), lost)
		}
	}
}

// listNumbers returns the numbers of a peer's entries, of pings or of all else.
func (k *kept) listNumbers(one *share, isPing bool) (numbers []uint64) {
	for n := one.listOf(isPing).oldest; n != 0; n = k.arena.at(n).newer {
		numbers = append(numbers, k.arena.numberOf(n))
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
			for _, one := range r.kept.shares.all {
				others[one.peer] = r.kept.listNumbers(one.share, false)
			}
			r.Record(m)
			sent++
			switch random.IntN(70) {
			case 4:
				r.ForgetPeer(peer)
				if of := r.kept.shares.byPeer[peer]; of != nil {
					t.Fatalf("%d entries of a peer are left", of.entries)
				}
				r.kept.check(t)
			case 0:
				r.SetHistory(Bounds{1 + random.IntN(500), leastBytes << random.IntN(4)})
			case 1:
				if err := r.Watch("a", true); err != nil {
					t.Fatal(err)
				}
			case 2:
				r.EndWatch("a")
			case 3:
				texts, next, lost := r.all(t, cursor)
				known += len(texts) + int(lost)
				cursor = next
			}
			if r.kept.memory() > r.kept.bounds.Bytes {
				t.Fatalf("%d bytes of memory, bounds %v", r.kept.memory(), r.kept.bounds)
			}
			for _, one := range r.kept.shares.all {
				was, is := others[one.peer], r.kept.listNumbers(one.share, false)
				wentFirst := len(was) > 0 && !slices.Contains(is, was[0])
				if pings := r.kept.listNumbers(one.share, true); wentFirst && len(pings) > 0 && pings[0] != r.next-1 {
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

// What was taken for those who watched is given back when they are gone.
func TestMemoryIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTestRecorder()
		r.SetHistory(Bounds{10, leastBytes})
		r.Watch("a", true)
		for i := range 4500 {
			r.Record(said(t, identity.ID{1 + byte(i%3)}, fmt.Sprint(i, strings.Repeat(" x", 500))))
		}
		if n := r.kept.memory(); n < watched.Bytes/2 {
			t.Errorf("%d bytes", n)
		}
		r.EndWatch("a")
		r.kept.check(t)
		texts, _, _ := r.all(t, 0)
		if n := (len(r.kept.arena.halves[0].chunks) + len(r.kept.arena.halves[1].chunks)) * chunkBlocks * blockBytes; n > leastBytes || len(texts) != 10 || !strings.HasPrefix(texts[9], "4499 ") {
			t.Errorf("%d bytes for %q", n, texts)
		}
		r.SetHistory(Bounds{})
		if !r.isEmpty() {
			t.Errorf("%+v", r.kept)
		}
	})
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

// When there is no room left, an entry takes the place of one that goes: it costs no memory.
func TestAnEntryAllocatesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTestRecorder()
		r.Watch("a", false)
		var all []*peer.Passing
		for i := range 5 {
			all = append(all, said(t, identity.ID{1 + byte(i)}, strings.Repeat("x", 300*i)))
		}
		record := func() {
			for _, m := range all {
				r.Record(m)
			}
		}
		for range 2000 {
			record()
		}
		if n := testing.AllocsPerRun(1000, record); n != 0 {
			t.Errorf("%v allocations for %d entries", n, len(all))
		}
	})
}
