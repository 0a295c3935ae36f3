package daemon

import (
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/kinds"
)

// TestPaddedPing: the owner's ping carries padding, up to what a message may have; an agent's
// does not, so that a few bytes of a request make no large message.
func TestPaddedPing(t *testing.T) {
	t.Parallel()
	desk, laptop := start(t, stateDir(t), "desk"), start(t, stateDir(t), "laptop")
	befriend(t, desk, laptop)
	var arrived client.Answer
	for _, size := range []uint64{0, 1, 64 << 10, 1 << 19} {
		laptop.dial().must("ping", client.PingParams{To: "desk", Pad: size}, &arrived)
		if arrived.Kind != kinds.KindPong || len(arrived.Payload) > 1024 {
			t.Errorf("%d bytes: a %s of %d bytes comes back", size, arrived.Kind, len(arrived.Payload))
		}
	}
	for _, size := range []uint64{1 << 20, 1<<20 + 1, 1 << 63} {
		laptop.dial().refused(kinds.TooLarge, "ping", client.PingParams{To: "desk", Pad: size})
	}
	g := laptop.guest(nil)
	g.must("ping", client.PingParams{To: "desk"}, nil)
	g.refused(kinds.NotAuthorized, "ping", client.PingParams{To: "desk", Pad: 1})
}
