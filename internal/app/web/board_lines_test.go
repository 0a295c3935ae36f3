package web

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
)

// lines returns messages of a peer.
func lines(peer identity.ID, n int, text string) (all []*line) {
	for range n {
		all = append(all, newMessageLine(&client.TrafficEntry{Peer: peer, Direction: client.In, Kind: kinds.KindNotify, Text: text, Answer: text}))
	}
	return all
}

// countOf returns how many lines of an update are of a peer. They must be in their order.
func countOf(t *testing.T, u *update, peer identity.ID) (n int) {
	t.Helper()
	last := uint64(0)
	for _, text := range u.Lines {
		var l line
		if err := json.Unmarshal(text, &l); err != nil {
			t.Fatal(err)
		}
		if l.N <= last {
			t.Errorf("%d after %d", l.N, last)
		}
		if last = l.N; l.ID == peer.String() {
			n++
		}
	}
	return n
}

// TestNobodyTakesAnothersLines: however much a peer sends, what another one has sent is kept, and goes to
// pages, to those that are there and to new ones.
// holds: security.md#the-page-of-acpctl-web
func TestNobodyTakesAnothersLines(t *testing.T) {
	for _, size := range []int{1, maxShown} { // what bounds them is their number, or their bytes
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			b := newBoard()
			r := b.addReader()
			b.next(r)
			addLines(b, lines(deskID, 20, "hello"))
			for range 30 {
				addLines(b, lines(buildID, 100, strings.Repeat(`"`, size))) // which JSON writes as two characters
			}
			for name, c := range map[string]struct {
				u    *update
				want int
			}{"a page that is there": {b.next(r), b.lines.n}, "a new page": {b.next(b.addReader()), b.lines.n}} {
				if n := countOf(t, c.u, deskID); n != 20 || len(c.u.Lines) != c.want || c.u.Skipped != uint64(3020-c.want) {
					t.Errorf("%s: %d lines of the other peer, of %d; %d are skipped", name, n, len(c.u.Lines), c.u.Skipped)
				}
			}
			if isFull := size > 1; isFull != (b.lines.n < maxLines) || b.lines.n > maxLines || b.lines.bytes > maxLineBytes {
				t.Errorf("%d lines of %d bytes", b.lines.n, b.lines.bytes)
			}
		})
	}
}

// TestStrangersShareLines: any number of strangers takes no more room than one peer.
// holds: security.md#the-page-of-acpctl-web
func TestStrangersShareLines(t *testing.T) {
	b := newBoard()
	addLines(b, lines(deskID, 20, "hello"))
	for i := range 3 * maxLines {
		addLines(b, []*line{newEventLine(&client.Event{Type: client.EventPending, Peer: identity.ID{byte(i), byte(i >> 8), 31: 1}})})
	}
	if n := len(b.lines.byPeer); n != 2 || len(b.lines.byPeer[deskID.String()]) != 20 {
		t.Errorf("%d have lines, the peer %d", n, len(b.lines.byPeer[deskID.String()]))
	}
	if l := newEventLine(&client.Event{Type: client.EventUp, Peer: deskID, Name: "desk"}); l.owner() != deskID.String() {
		t.Errorf("an event of a peer is of %q", l.owner())
	}
}

// TestForgottenPeersLeaveNoLines: the lines of a peer that is blocked are removed, from pages that have them too.
func TestForgottenPeersLeaveNoLines(t *testing.T) {
	b := newBoard()
	r := b.addReader()
	addLines(b, lines(deskID, 2, "hello"))
	addLines(b, lines(buildID, 3, "hello"))
	if u := b.next(r); countOf(t, u, deskID) != 2 || !u.Reset {
		t.Errorf("%+v", u)
	}
	b.forgetPeers([]string{identity.ID{9}.String()})
	if u := b.next(r); u != nil {
		t.Errorf("nothing is removed: %+v", u)
	}
	b.forgetPeers([]string{deskID.String()})
	if u := b.next(r); u == nil || !u.Reset || u.Proof == "" || countOf(t, u, deskID) != 0 || countOf(t, u, buildID) != 3 {
		t.Errorf("%+v", u)
	}
}
