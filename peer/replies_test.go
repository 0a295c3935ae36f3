package peer

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// endless is a trusted peer of to that answers every exchange with size bytes and no
// FIN. Of those that find no room it counts how many were told so.
func (h *host) endless(to *side, name string, size int) (peer identity.ID, told *atomic.Int64) {
	h.t.Helper()
	key := newKey(h.t)
	to.knows(key, name)
	c := h.dialAt(to.Addr(), to, key, identity.ALPN, &quic.Config{MaxIncomingStreams: 2 * maxExchanges}).greet()
	go c.answerPings()
	told = new(atomic.Int64)
	answer := make([]byte, size)
	go func() {
		for {
			s, err := c.qc.AcceptStream(context.Background())
			if err != nil {
				return
			}
			go func() {
				io.ReadAll(s)
				_, err := s.Write(answer)
				if err == nil {
					<-s.Context().Done() // until the caller gives up
					err = context.Cause(s.Context())
				}
				if se, ok := errors.AsType[*quic.StreamError](err); ok && se.ErrorCode == streamOverloaded {
					told.Add(1)
				}
			}()
		}
	}()
	return key.ID(), told
}

// hold has calls to a peer wait for the rest of their replies; release gives them up.
type hold struct {
	calls      sync.WaitGroup
	release    context.CancelFunc
	overloaded atomic.Int64
}

func (s *side) hold(to identity.ID, calls int) *hold {
	ctx, release := context.WithCancel(s.t.Context())
	h := &hold{release: release}
	for range calls {
		h.calls.Go(func() {
			_, _, err := s.Exchange(ctx, to, query("?"))
			switch e := kinds.AsError(err); {
			case e.Code == kinds.Cancelled && e.Delivered() == kinds.DeliveredUnknown:
			case e.Code == kinds.Overloaded && e.Delivered() == kinds.DeliveredUnknown && e.RetryAfterMS > 0 && e.From == "":
				h.overloaded.Add(1)
			default:
				s.t.Errorf("a call: %v, delivered %q", err, e.Delivered())
			}
		})
	}
	return h
}

// TestRepliesWithoutEnd has a peer answer as many calls as there can be, each with
// almost the largest reply, which it never ends: sixteen times its share.
// holds: security.md#the-budget
func TestRepliesWithoutEnd(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		a, b, h := w.side(nil), w.side(nil), w.host()
		w.serve(a, b)
		a.trusts(b, "reviewer")
		b.trusts(a, "desk")
		size := a.cfg.MaxMessage - 1<<10
		bad, told := h.endless(a, "laptop", size)
		row := a.accounts.replies.Row()
		if int64(size)*maxExchanges < 10*row.Peer {
			t.Fatalf("%d calls of %d bytes are not ten times %d", maxExchanges, size, row.Peer)
		}
		before := liveHeap()
		held := a.hold(bad, maxExchanges)
		time.Sleep(5 * time.Second)
		// How much less is chance: calls that grow side by side are refused together.
		if n := a.accounts.replies.HeldBy(bad); n > row.Peer {
			t.Errorf("%d bytes are held, of %d", n, row.Peer)
		}
		if n := held.overloaded.Load(); n < maxExchanges-row.Peer/int64(size)-1 || n != told.Load() {
			t.Errorf("%d calls found no room, the peer was told of %d", n, told.Load())
		}
		if grown := liveHeap() - before; grown > 4*row.Peer {
			t.Errorf("the heap has grown by %d MiB", grown>>20)
		}
		for range 3 { // another peer notices nothing
			if _, _, err := a.Exchange(t.Context(), b.ID(), sized(t, kinds.KindQuery, questionOf, size)); err != nil {
				t.Error(err)
			}
		}
		held.release()
		held.calls.Wait()
		time.Sleep(time.Second)
		if n := a.accounts.replies.HeldBy(bad); n != 0 {
			t.Errorf("%d bytes still count", n)
		}
	})
}

// TestReplyOverTheLimit: the peer may have done what it was asked.
func TestReplyOverTheLimit(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		a, h := w.facing(func(c *Config) { c.MaxMessage = wire.MinMaxMessage })
		bad, _ := h.endless(a, "laptop", wire.MinMaxMessage+1)
		a.call(bad, query("?")).want(t, kinds.TooLarge, kinds.DeliveredUnknown, 0, time.Second)
	})
}
