package peer

import (
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/authority"
	"github.com/acpd/acpd/wire"
)

// takingNoHello dials with a certificate that counts, says hello, and grants the node one byte for its own.
func (h *host) takingNoHello(to *side, corp *authority.Authority) *raw {
	h.t.Helper()
	c := h.dialAt(to.Addr(), to, newKey(h.t), identity.ALPN, &quic.Config{InitialStreamReceiveWindow: 1, MaxStreamReceiveWindow: 1})
	c.sendHello(func(hello *wire.Hello) { hello.Cert = corp.Sign(c.key.ID(), time.Hour, "acp:desk") })
	return c
}

// TestCertifiedPeerThatTakesNoHello has a peer by certificate grant no window for the node's hello: the
// connection ends after the time for hellos, at once if more comes than a hello takes, and at once when
// the certificate is revoked. Nothing stays of it.
// holds: security.md#fleets
func TestCertifiedPeerThatTakesNoHello(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		corp := authority.New(t, "corp")
		b, h := w.facing(nil)
		b.joins(corp, time.Hour, "acp:hub")
		within := func(what string, c *raw, want quic.ApplicationErrorCode, least, most time.Duration) {
			t.Helper()
			began := time.Now()
			select {
			case <-c.qc.Context().Done():
			case <-time.After(time.Minute):
				t.Errorf("%s: it stays", what)
				c.qc.CloseWithError(0, "")
				return
			}
			if got, took := c.closed(), time.Since(began); got != want || took < least || took > most {
				t.Errorf("%s: close code %d after %v", what, got, took)
			}
		}
		within("silent", h.takingNoHello(b, corp), closeHelloTimeout, helloTimeout-time.Second, helloTimeout+time.Second)

		c := h.takingNoHello(b, corp)
		time.Sleep(time.Second) // it is certified then
		for range 20 {
			s, err := c.qc.OpenStream()
			if err != nil {
				t.Fatal(err)
			}
			go s.Write(make([]byte, 8<<10))
		}
		within("flooding", c, closeOverloaded, 0, time.Second)

		c = h.takingNoHello(b, corp)
		time.Sleep(time.Second)
		b.revokes(corp, "desk")
		within("revoked", c, closeOverloaded, 0, time.Second)

		time.Sleep(2 * certifiedTick)
		if all := b.listStates(); len(all) != 0 {
			t.Errorf("%d states are kept", len(all))
		}
		if n := b.accounts.greeting.HeldBy(c.key.ID()); n != 0 {
			t.Errorf("%d connections still count", n)
		}
	})
}
