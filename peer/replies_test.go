package peer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
)

// endless is a trusted peer of to that answers every exchange with size bytes and no
// FIN. Of those that find no room it counts how many were told so.
func (h *host) endless(to *side, name string, size int) (peer identity.ID, told *atomic.Int64) {
	h.t.Helper()
	key := newKey(h.t)
	to.knows(key, name)
	conf, err := key.ClientTLS(to.ID(), false, identity.ALPN)
	if err != nil {
		h.t.Fatal(err)
	}
	qc, err := h.tr.Dial(h.t.Context(), to.Addr(), conf, &quic.Config{MaxIncomingStreams: 2 * maxExchanges})
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { qc.CloseWithError(0, "") })
	c := &raw{t: h.t, key: key, to: to.ID(), qc: qc}
	c.sendHello(nil)
	c.readHello()
	go c.answerPings()
	told = new(atomic.Int64)
	answer := make([]byte, size)
	go func() {
		for {
			s, err := qc.AcceptStream(context.Background())
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
		w.start()
		a.serve()
		b.serve()
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

// TestRepliesOfManyPeers has so many such peers that the sum over all is used up: what
// is set aside for another one is there.
// holds: security.md#the-budget
func TestRepliesOfManyPeers(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		const peers, size = 6, 100 << 10
		a, b := w.side(func(c *Config) {
			c.Budget = &budget.Book{Peers: func() int { return peers + 1 }}
		}), w.side(nil)
		a.accounts.replies = a.cfg.Budget.OpenAccount(budget.Row{Name: "replies", Unit: budget.Bytes, Peer: 512 << 10, All: 2 << 20})
		var hosts []*host
		for range peers {
			hosts = append(hosts, w.host())
		}
		w.start()
		a.serve()
		b.serve()
		a.trusts(b, "reviewer")
		b.trusts(a, "desk")
		var all []*hold
		var bad []identity.ID
		for i, h := range hosts {
			id, _ := h.endless(a, fmt.Sprint("laptop", i), size)
			bad = append(bad, id)
			all = append(all, a.hold(id, 60)) // over ten times a peer's share
		}
		time.Sleep(5 * time.Second)
		row := a.accounts.replies.Row()
		var sum, most int64
		for _, id := range bad {
			n := a.accounts.replies.HeldBy(id)
			sum, most = sum+n, max(most, n)
		}
		if sum > row.All-row.All/2/(peers+1) || most > row.Peer {
			t.Errorf("they hold %d bytes, one of them %d", sum, most)
		}
		if _, _, err := a.Exchange(t.Context(), b.ID(), sized(t, kinds.KindQuery, questionOf, size)); err != nil {
			t.Errorf("another peer: %v", err)
		}
		for _, h := range all {
			h.release()
			h.calls.Wait()
			if h.overloaded.Load() == 0 {
				t.Error("of one peer everything found room")
			}
		}
		time.Sleep(time.Second)
		for _, id := range bad {
			if n := a.accounts.replies.HeldBy(id); n != 0 {
				t.Errorf("%d bytes still count", n)
			}
		}
	})
}
