package peer

import (
	"syscall"
	"testing"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
)

// TestListenEarly: a node listens on an address that this machine does not have. Whoever calls from there hears
// that, whether the system sends such packets, as of IPv6, or does not.
func TestListenEarly(t *testing.T) {
	a := newSide(t, func(c *Config) { c.Listen = "192.0.2.1:0" })
	defer a.Close()
	peer := newKey(t).ID()
	a.trust.Trust(identity.Peer{ID: peer, Name: "reviewer"})
	want := a.Addr().String() + " is not an address of this machine now, and this daemon sends only from that one; start what brings it"
	for _, no := range []syscall.Errno{syscall.EINVAL, syscall.ENETUNREACH} {
		says(t, a.toDialError(peer, "192.0.2.7:7117", newUnsentError(no)), kinds.Unreachable, "reviewer: "+want)
	}
	s := a.udp.noteSilence("192.0.2.7:7117")
	s.add(a.udp.noteSilence("192.0.2.8:7117"))
	says(t, a.newSilenceError(peer, s), kinds.Unreachable, "reviewer: "+want)
}
