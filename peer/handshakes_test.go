package peer

import (
	"context"
	"net"
	"testing"
	"testing/synctest"

	"github.com/quic-go/quic-go"

	"github.com/acpd/acpd/identity"
)

// TestHalfOpenHandshakesOfManySources has many sources fill the room for half-open
// handshakes: a known peer still comes in, at the address where it proved its key.
// holds: security.md#against-strangers
func TestHalfOpenHandshakesOfManySources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var proved provedAddrs
		h := newHandshakeLimits(newHandshakeSource, proved.knownPeer)
		from := func(n int, proved bool) *quic.ClientInfo {
			return &quic.ClientInfo{RemoteAddr: &net.UDPAddr{IP: net.IPv4(10, 0, byte(n>>8), byte(n)), Port: 7117}, AddrVerified: proved}
		}
		known := from(9999, true)
		proved.replace(identity.ID{1}, toAddrPort(nil), toAddrPort(known.RemoteAddr))
		var all []context.CancelFunc
		begun := func(i *quic.ClientInfo) bool {
			ctx, cancel := context.WithCancel(t.Context())
			if _, err := h.beginHandshake(ctx, i); err != nil {
				cancel()
				return false
			}
			all = append(all, cancel)
			return true
		}
		for n := range maxHalfOpen / 2 {
			if h.mustProveAddr(from(n, false).RemoteAddr) || !begun(from(n, false)) {
				t.Fatalf("the source %d was not let in", n)
			}
		}
		if !h.mustProveAddr(from(5000, false).RemoteAddr) {
			t.Error("addresses need not be proved though many handshakes are half open")
		}
		proven := 0
		for range 3 * provedPerSourcePerSecond {
			if begun(from(5001, true)) {
				proven++
			}
		}
		if proven != provedPerSourcePerSecond {
			t.Errorf("a source that has proved its address begins %d handshakes at once", proven)
		}
		for n := range 10 * maxHalfOpen {
			begun(from(6000+n, true))
		}
		if n := h.open.Load(); n != maxHalfOpen {
			t.Errorf("%d half open, want %d", n, maxHalfOpen)
		}
		if begun(from(1, true)) || !begun(known) {
			t.Error("a known peer was not let in, or another was")
		}
		for range 10 * maxHalfOpen {
			begun(known)
		}
		if n := h.open.Load(); n > maxHalfOpen+provedPerSourcePerSecond+1 {
			t.Errorf("a known peer that floods: %d half open", n)
		}
		if proved.replace(identity.ID{1}, toAddrPort(known.RemoteAddr), toAddrPort(nil)); begun(known) {
			t.Error("an address is known though its peer is not trusted any more")
		}
		for _, end := range all {
			end()
		}
	})
}
