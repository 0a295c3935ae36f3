package peer

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/authority"
)

// TestAFleetComesThroughTheRelay has a member of a relay, who can show no certificate, begin handshakes
// without end. A fleet that comes over the relay at that time finds its hub all the same.
// holds: security.md#against-strangers
func TestAFleetComesThroughTheRelay(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		r, corp := newRelayNet("corp"), authority.New(t, "corp")
		hub := w.side(r.joined(nil))
		var fleet []*side
		for range 10 {
			fleet = append(fleet, w.side(r.joined(nil)))
		}
		key := newKey(t)
		hostile := r.host(t, key.ID())
		w.start()
		hub.serve().joins(corp, time.Hour, "acp:hub")
		for i, s := range fleet {
			s.serve().joins(corp, time.Hour, "acp:build-"+string(rune('a'+i)))
		}
		synctest.Wait() // until all are on the relay
		conf, err := key.ClientTLS(hub.ID(), false, identity.ALPN)
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		var flood sync.WaitGroup
		flood.Go(func() {
			for ctx.Err() == nil {
				flood.Go(func() {
					limited, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
					defer cancel()
					if qc, err := hostile.tr.Dial(limited, relayAddr{r.name, hub.ID()}, conf, &quic.Config{}); err == nil {
						<-limited.Done()
						qc.CloseWithError(0, "")
					}
				})
				time.Sleep(5 * time.Millisecond)
			}
		})
		time.Sleep(2 * time.Second)
		var calls sync.WaitGroup
		for _, s := range fleet {
			calls.Go(func() {
				if err := s.Introduce(context.Background(), hub.ID()); err != nil {
					t.Error(err)
				}
			})
		}
		calls.Wait()
		stop()
		flood.Wait()
		if n := len(hub.Peers()); n != len(fleet) {
			t.Errorf("%d are connected", n)
		}
	})
}

// While an authority is configured, an id on a link that has proved its address begins 5 handshakes a
// second, and all such ids together 200. Without one, and if they are blocked, all share 20.
// holds: security.md#against-strangers
func TestHandshakesOfIDsOnALink(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		b, link := w.side(nil), newRelayNet("corp").link(identity.ID{1})
		w.start()
		b.serve()
		limits := b.newLinkGates(link).handshakes
		begun := func(times int, id func(n int) identity.ID) (all int) {
			time.Sleep(time.Minute) // all rates have rested
			for n := range times {
				from := &quic.ClientInfo{RemoteAddr: link.Addr(id(n)), AddrVerified: true}
				if ctx, err := limits.beginHandshake(t.Context(), from); err == nil {
					limits.endHandshake(ctx)
					all++
				}
			}
			return all
		}
		one := func(int) identity.ID { return identity.ID{2} }
		many := func(n int) identity.ID { return identity.ID{3, byte(n), byte(n >> 8)} }
		if n := begun(1000, many); n != provedPerSourcePerSecond {
			t.Errorf("without an authority: %d", n)
		}
		b.joins(authority.New(t, "corp"), time.Hour, "acp:hub")
		if n := begun(1000, one); n != handshakesPerSourcePerSecond {
			t.Errorf("one id: %d", n)
		}
		if n := begun(4*maxSources, many); n != handshakesPerSecond {
			t.Errorf("many ids: %d", n)
		}
		if n := len(limits.maybePeers.sources); n > maxSources {
			t.Errorf("%d ids have a rate of their own", n)
		}
		if err := b.trust.Untrust(one(0)); err != nil {
			t.Fatal(err)
		}
		if n := begun(1000, one); n != provedPerSourcePerSecond {
			t.Errorf("a blocked id: %d", n)
		}
	})
}
