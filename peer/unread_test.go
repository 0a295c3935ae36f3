package peer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// unreading has the handler of mail read nothing.
func unreading(s *side) *side {
	s.Handle(wire.StreamMail, "mail", func(ctx context.Context, _ identity.ID, _ *Stream) { <-ctx.Done() })
	return s
}

// again is a further connection of a trusted peer's, from the same process.
func (h *host) again(to *side, key *identity.Key) *raw {
	h.t.Helper()
	c := h.dial(to, key)
	c.sendHello(func(h *wire.Hello) { h.Boot = wire.Boot{1} })
	c.readHello()
	return c
}

// drip opens streams and writes to each in turn in frames of so many bytes, and
// reports when it has done so often.
func (c *raw) drip(streams, size, rounds int, each func()) {
	var all []*quic.Stream
	for range streams {
		s, err := c.qc.OpenStream()
		if err != nil {
			break
		}
		s.Write([]byte{byte(wire.StreamMail)})
		all = append(all, s)
	}
	bytes := make([]byte, size)
	for range rounds {
		for _, s := range all {
			s.SetWriteDeadline(time.Now().Add(time.Second))
			if _, err := s.Write(bytes); err != nil {
				return
			}
		}
		time.Sleep(time.Millisecond) // so that a frame leaves before the next joins it
		each()
	}
}

// TestUnreadFramesTakeLittle has a trusted peer send what nobody reads, in frames
// of the sizes that take most: one byte, and the least that takes a packet's
// buffer. Before all of it takes 64 MiB its connection is closed.
// holds: security.md#the-budget
func TestUnreadFramesTakeLittle(t *testing.T) {
	for _, size := range []int{1, 128} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			bubble(t, nil, func(t *testing.T, w *network) {
				b, h, other := unreading(w.side(nil)), w.host(), w.host()
				w.serve(b)
				honest := other.trusted(b)
				honest.alive()
				before, most, round := liveHeap(), int64(0), 0
				look := func() {
					if round++; round%50 == 0 {
						most = max(most, liveHeap()-before)
					}
				}
				key := newKey(t)
				b.knows(key, "laptop")
				one, two := h.again(b, key), h.again(b, key)
				done := make(chan struct{})
				go func() { defer close(done); two.drip(350, size, 1000, func() {}) }()
				one.drip(350, size, 1000, look)
				<-done
				most = max(most, liveHeap()-before)
				t.Logf("%d MiB at most", most>>20)
				if most > budget.Unread.Peer {
					t.Errorf("frames of %d bytes took %d MiB", size, most>>20)
				}
				if one.qc.Context().Err() == nil && two.qc.Context().Err() == nil {
					t.Error("no connection was closed")
				}
				honest.alive()
			})
		})
	}
}

// TestTheLargestGoesFirst has peers that each stay below their bound go over that
// of all: the one that has most unread is closed, and the others are not.
// holds: security.md#the-budget
func TestTheLargestGoesFirst(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		b := unreading(w.side(nil))
		hosts := w.hosts(6)
		w.start()
		b.unread.account = b.cfg.Budget.OpenAccount(budget.Unread.WithSum(1000 * frameCost))
		b.serve()
		var peers []*raw
		for i, h := range hosts {
			key := newKey(t)
			b.knows(key, fmt.Sprint("laptop", i))
			c := h.again(b, key)
			rounds := 28 // 80 frames, 160 where packets cut them in two
			if i == 5 {
				rounds = 280
			}
			c.drip(3, 1000, rounds, func() {})
			peers = append(peers, c)
		}
		time.Sleep(time.Second)
		for i, c := range peers {
			if closed := c.qc.Context().Err() != nil; closed != (i == 5) {
				t.Errorf("peer %d: closed %v", i, closed)
			}
		}
	})
}

// TestBeforeHello has connections on which no hello comes: on each 64 KiB are
// taken, of one peer's four are kept, and the oldest gives way.
// holds: security.md#the-budget
func TestBeforeHello(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		b, h := w.facing(nil)
		key := newKey(t)
		b.knows(key, "planner")
		c := h.dial(b, key)
		for range 64 {
			s, err := c.qc.OpenStream()
			if err != nil {
				t.Fatal(err)
			}
			s.SetWriteDeadline(time.Now().Add(time.Second))
			go s.Write(make([]byte, 8<<10))
		}
		start := time.Now()
		if got := c.closed(); got != closeOverloaded || time.Since(start) > time.Second {
			t.Errorf("close code %d after %v", got, time.Since(start))
		}
		var silent []*raw
		for range 5 {
			silent = append(silent, h.dial(b, key))
			time.Sleep(10 * latency)
		}
		if got := silent[0].closed(); got != closeOverloaded {
			t.Errorf("close code %d", got)
		}
		if n := b.accounts.greeting.HeldBy(key.ID()); n != budget.Greeting.Peer {
			t.Errorf("%d connections wait for a hello", n)
		}
		for _, c := range silent[1:] {
			if got := c.closed(); got != closeHelloTimeout {
				t.Errorf("close code %d", got)
			}
		}
		c = h.again(b, key)
		c.alive()
		time.Sleep(time.Second)
		if n := b.accounts.greeting.HeldBy(key.ID()); n != 0 {
			t.Errorf("%d connections still count", n)
		}
	})
}

// TestJoinersAreWatched has whoever may join, which is anybody while an invitation
// is open, send more than joining takes.
// holds: security.md#against-strangers
func TestJoinersAreWatched(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		b, h := w.facing(nil)
		if _, _, err := b.Invitations().Issue(0, "", 1); err != nil {
			t.Fatal(err)
		}
		c := h.joining(b)
		one, err := c.qc.OpenStream()
		if err != nil {
			t.Fatal(err)
		}
		one.Write([]byte{byte(wire.StreamJoin)})
		go func() {
			for range 100 {
				s, err := c.qc.OpenUniStream()
				if err != nil {
					return
				}
				go s.Write(make([]byte, 16<<10))
			}
		}()
		start := time.Now()
		if got := c.closed(); got != closeOverloaded || time.Since(start) > time.Second {
			t.Errorf("many bytes: close code %d after %v", got, time.Since(start))
		}
		c = h.joining(b)
		for range 2 {
			c.openBidi(byte(wire.StreamJoin))
		}
		if got := c.closed(); got != closeProtocolError {
			t.Errorf("two streams: close code %d", got)
		}
	})
}

// TestConnectionsOfAPeer opens ten times as many connections as a peer may have.
// holds: security.md#the-budget
func TestConnectionsOfAPeer(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		b, h := w.facing(nil)
		key := newKey(t)
		b.knows(key, "planner")
		var all []*raw
		for range 10 * budget.Connections.Peer {
			all = append(all, h.again(b, key))
			time.Sleep(10 * latency)
		}
		if n := b.accounts.connections.HeldBy(key.ID()); n > budget.Connections.Peer {
			t.Errorf("%d connections", n)
		}
		if got := all[0].closed(); got != closeReplaced {
			t.Errorf("close code %d", got)
		}
		all[len(all)-1].alive()
		for _, c := range all {
			c.qc.CloseWithError(0, "")
		}
		time.Sleep(time.Second)
		if n := b.accounts.connections.HeldBy(key.ID()); n != 0 {
			t.Errorf("%d connections still count", n)
		}
	})
}

// TestStreamsOverAllConnections opens on four connections all the streams that QUIC
// allows: of them one peer's share is served, the others are refused at once, and
// another peer notices nothing.
// holds: security.md#the-budget
func TestStreamsOverAllConnections(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		release := make(chan struct{})
		b, h, other := w.side(until(release)), w.host(), w.host()
		w.serve(b)
		key := newKey(t)
		b.knows(key, "laptop")
		honest := other.trusted(b)
		var ends sync.WaitGroup
		var served, refused atomic.Int64
		var c *raw
		for range 4 {
			c = h.again(b, key)
			for range maxIncomingExchanges {
				s := c.openBidi(append([]byte{byte(wire.StreamExchange)}, c.envelope(kinds.KindQuery, `{"question":"wait"}`, nil)...)...)
				s.Close()
				ends.Go(func() {
					if _, err := io.ReadAll(s); err == nil {
						served.Add(1)
					} else if se, ok := errors.AsType[*quic.StreamError](err); ok && se.ErrorCode == streamOverloaded {
						refused.Add(1)
					} else {
						t.Error(err)
					}
				})
			}
		}
		time.Sleep(time.Second)
		if got := b.accounts.streams.HeldBy(key.ID()); got != budget.Streams.Peer {
			t.Errorf("%d streams are served, want %d", got, budget.Streams.Peer)
		}
		if n := refused.Load(); n != 4*maxIncomingExchanges-budget.Streams.Peer {
			t.Errorf("%d were refused at once", n)
		}
		if r := c.message(c.envelope(kinds.KindNotify, `{"topic":"a.b"}`, nil)); r.State != wire.Refused || kinds.Code(r.Code) != kinds.Overloaded || !strings.Contains(r.Message, "streams") {
			t.Errorf("a message: %+v", r)
		}
		honest.alive()
		close(release)
		ends.Wait()
		time.Sleep(time.Second)
		if got := b.accounts.streams.HeldBy(key.ID()); got != 0 || b.accounts.envelopes.HeldBy(key.ID()) != 0 {
			t.Errorf("%d streams still count", got)
		}
	})
}
