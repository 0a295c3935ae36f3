package peer

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// TestFloodThroughTheRelay has very many strangers begin handshakes, say hello and join with wrong
// tokens on a relay, under ever new ids and under that of a trusted peer. On UDP strangers become
// pending, a guest joins, and a peer dials, as if nothing were; and the peer comes over the relay.
// holds: security.md#against-strangers
func TestFloodThroughTheRelay(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		r := newRelayNet("corp")
		b := w.side(r.joined(nil))
		stranger, guest, friend, relayed := w.side(nil), w.side(nil), w.side(nil), w.side(r.joined(nil))
		stranger.trusts(b, "reviewer")
		friend.trusts(b, "reviewer")
		b.trusts(friend, "planner")
		relayed.knows(b.cfg.Key, "reviewer")
		b.knows(relayed.cfg.Key, "laptop")
		var hosts []*host
		for range 20 {
			hosts = append(hosts, r.host(t, newKey(t).ID()))
		}
		forger := r.host(t, identity.ID{1})
		forger.tr.Conn.(*relayLink).as = relayed.ID()
		w.serve(b, stranger, guest, friend, relayed)
		inv := b.invite(0, "")
		at := relayAddr{r.name, b.ID()}

		ctx, stop := context.WithCancel(t.Context())
		var flood sync.WaitGroup
		attack := func(h *host, key *identity.Key, alpn string) {
			conf, err := key.ClientTLS(b.ID(), false, alpn)
			if err != nil {
				t.Error(err)
				return
			}
			limited, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
			defer cancel()
			if qc, err := h.tr.Dial(limited, at, conf, &quic.Config{}); err == nil {
				if s, err := qc.OpenUniStream(); err == nil {
					s.Write([]byte{byte(wire.StreamControl)}) // it holds its place, and says no more
				}
				<-limited.Done()
				qc.CloseWithError(0, "")
			}
		}
		for i, h := range append(hosts, forger) {
			key := newKey(t)
			flood.Go(func() {
				for ctx.Err() == nil {
					var burst sync.WaitGroup
					for range 5 {
						burst.Go(func() { attack(h, key, []string{identity.ALPN, identity.ALPNJoin}[i%2]) })
						time.Sleep(5 * time.Millisecond)
					}
					burst.Wait()
				}
			})
		}
		time.Sleep(2 * time.Second)
		corp := b.links.find("relay:corp")
		if n := corp.gates.handshakes.open.Load(); n > maxHalfOpenOnLink {
			t.Errorf("%d handshakes are half open on the relay", n)
		}
		unproved := corp.gates.handshakes.unproved
		unproved.mu.Lock()
		if n := len(unproved.sources); n > 2 { // that of the peer, and one for all others
			t.Errorf("%d sources have a rate of their own", n)
		}
		unproved.mu.Unlock()
		if n := b.udp.gates.handshakes.open.Load(); n > 0 {
			t.Errorf("%d handshakes are half open on UDP", n)
		}

		quick := func(what string, most time.Duration, f func() error) {
			t.Helper()
			start := time.Now()
			if err := f(); err != nil {
				t.Errorf("%s: %v", what, err)
			}
			if took := time.Since(start); took > most {
				t.Errorf("%s took %v", what, took)
			}
		}
		quick("a call of a peer on UDP", 20*latency, func() error { return friend.tryAsk(b, "?") })
		quick("joining on UDP", 20*latency, func() error { _, err := guest.Join(t.Context(), inv); return err })
		quick("a stranger on UDP", 20*latency, func() error {
			if err := stranger.tryAsk(b, "?"); code(err) != kinds.NotTrusted {
				return err
			}
			return nil
		})
		if !slices.ContainsFunc(b.Pending(), func(p Pending) bool { return p.ID == stranger.ID() && p.Path == Direct }) {
			t.Errorf("the stranger on UDP is not pending among %d", len(b.Pending()))
		}
		b.mu.Lock()
		if !slices.ContainsFunc(b.events, func(e Event) bool { return e.Type == EventPending && e.Peer == stranger.ID() }) {
			t.Error("strangers on the relay have taken the events of those on UDP")
		}
		b.mu.Unlock()
		quick("a call of a peer on the relay", time.Second, func() error { return relayed.tryAsk(b, "?") })
		stop()
		flood.Wait()
	})
}

// TestClaimOnARelayMustBeProved: whoever comes in by the claim to be another, which a relay lets pass,
// gets nothing of what a stranger gets.
func TestClaimOnARelayMustBeProved(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		r := newRelayNet("corp")
		b := w.side(r.joined(nil))
		friend := newKey(t)
		b.knows(friend, "planner")
		h := r.host(t, friend.ID())
		w.serve(b)
		synctest.Wait()
		for _, alpn := range []string{identity.ALPN, identity.ALPNJoin} {
			if alpn == identity.ALPNJoin {
				b.invite(0, "")
			}
			c := h.dialAt(relayAddr{r.name, b.ID()}, b, newKey(t), alpn, nil)
			if alpn == identity.ALPN {
				c.sendHello(nil)
			}
			if got := c.closed(); got != closeNotTrusted {
				t.Errorf("%s: close code %d", alpn, got)
			}
		}
		if len(b.Pending()) != 0 || b.saw(EventPending) != 0 {
			t.Errorf("pending %+v", b.Pending())
		}
	})
}
