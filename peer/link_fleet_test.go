package peer

import (
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/authority"
)

// While an authority is configured, an id on a link that has proved its address begins 5 handshakes a
// second, and all such ids together 200. Without one, and if they are blocked, all share 20.
// holds: security.md#against-strangers
func TestHandshakesOfIDsOnALink(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		b, link := w.side(nil), newRelayNet("corp").link(identity.ID{1})
		w.serve(b)
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
