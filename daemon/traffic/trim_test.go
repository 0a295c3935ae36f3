package traffic

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/acpd/acpd/identity"
)

// lower sets bounds as SetHistory does, but for what is done piece by piece.
func (r *Recorder) lower(b Bounds) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.history = b
	r.adjust()
}

// However much is beyond the bounds, and whatever passes meanwhile, nobody has the lock for longer than some
// entries take: they go, and the rest is moved, a piece at a time.
func TestWhatIsBeyondGoesByThePiece(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	r := newTestRecorder()
	r.SetHistory(Bounds{1500, 8 << 20})
	begin, sent := r.next-1, 0
	say := func() {
		r.Record(said(t, identity.ID{1 + byte(random.ExpFloat64()*3)}, fmt.Sprint(sent, " ", strings.Repeat("x", random.IntN(3000)))))
		sent++
	}
	for range 1500 {
		say()
	}
	for round, b := range []Bounds{{700, 1 << 20}, {200, 8 << 20}, {2000, leastBytes}, {40, leastBytes}} {
		before, pieces, moves := r.kept.order.entries(), 0, 0
		r.lower(b)
		if n := r.kept.order.entries(); n != before {
			t.Fatalf("%d entries of %d went at once", before-n, before)
		}
		for due := true; due; pieces++ {
			entries, moved := r.kept.order.entries(), r.kept.moved
			due = r.trimPiece()
			if n := r.kept.order.entries(); n < entries-trimmedEntries {
				t.Fatalf("%d entries go at a time", entries-n)
			}
			if r.kept.arena.isMoving() {
				moves++
				many, size := 0, 0
				for i := r.kept.order.search(moved); i < r.kept.order.count && r.kept.order.at(i).number <= r.kept.moved; i++ {
					if p := r.kept.order.at(i); p.first != 0 {
						many++
						size += len(r.kept.arena.appendTo(nil, p.first))
					}
				}
				if many > trimmedEntries || size > trimmedBytes+leastBytes {
					t.Fatalf("%d entries of %d bytes are moved at a time", many, size)
				}
			}
			r.kept.checkLists(t)
			if pieces == 5 {
				r.ForgetPeer(identity.ID{2}) // also while entries are moved
				r.kept.checkLists(t)
			}
			if due && pieces%3 == round%3 { // and others record meanwhile, for which no more goes than they need
				before, used := r.kept.order.entries(), r.kept.bytes
				say()
				if n := before + 1 - r.kept.order.entries(); n > 20 || r.kept.bytes > max(used, b.Bytes) {
					t.Fatalf("for one entry %d go, and %d bytes become %d", n, used, r.kept.bytes)
				}
				r.kept.checkLists(t)
			}
		}
		r.kept.check(t)
		if n := r.kept.memory(); pieces < 3 || moves == 0 || n > b.Bytes || r.kept.arena.isMoving() {
			t.Errorf("bounds %v: %d bytes of memory after %d pieces, of which %d moved entries", b, n, pieces, moves)
		}
		texts, _, lost := r.all(t, begin)
		if last := strings.Fields(texts[len(texts)-1])[0]; len(texts)+int(lost) != sent || last != strconv.Itoa(sent-1) {
			t.Errorf("bounds %v: %d entries, the last is %s, %d lost of %d", b, len(texts), last, lost, sent)
		}
	}
}

// Bounds go down and up while others record and read: each reader knows of each message.
func TestBoundsChangeBesideWriters(t *testing.T) {
	r := newTestRecorder()
	r.SetHistory(Bounds{2000, 8 << 20})
	begin := r.next - 1
	const writers, each = 3, 1000
	var writing sync.WaitGroup
	for i := range writers {
		m := said(t, identity.ID{1 + byte(i)}, strings.Repeat("x", 700*i))
		writing.Go(func() {
			for range each {
				r.Record(m)
			}
		})
	}
	for range 3 {
		writing.Go(func() {
			for i := range 30 {
				r.SetHistory(Bounds{20 + 500*(i%4), leastBytes << (i % 3)})
			}
		})
	}
	writing.Wait()
	r.SetHistory(Bounds{50, leastBytes})
	r.kept.check(t)
	if texts, _, lost := r.all(t, begin); len(texts)+int(lost) != writers*each || len(texts) == 0 || r.kept.memory() > leastBytes {
		t.Errorf("%d entries, %d lost of %d; %d bytes of memory", len(texts), lost, writers*each, r.kept.memory())
	}
}
