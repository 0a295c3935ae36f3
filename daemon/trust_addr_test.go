package daemon

import (
	"strings"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
)

// To give a peer no address also forgets where it was, unless it is there.
func TestNoAddress(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	owner := desk.dial()
	none := client.TrustParams{Peer: "laptop", Addrs: []string{}}
	owner.must("trust", none, nil)
	if got := desk.addresses.TakeDialAddrs(laptop.ID()); len(got) == 0 {
		t.Error("where it is now is forgotten")
	}
	laptop.stop()
	await.Until(t, "it is gone", func() bool { _, up := desk.node.Peer(laptop.ID()); return !up })
	owner.must("trust", none, nil)
	_, at := desk.addresses.FindLast(laptop.ID())
	if got := desk.addresses.TakeDialAddrs(laptop.ID()); len(got) != 0 || at.IsZero() {
		t.Errorf("it is still dialled at %q, and was there at %v", got, at)
	}
	await.Until(t, "no address is dialled", func() bool { // one may be dialled at this moment
		e := owner.refused(kinds.Unreachable, "ping", client.PingParams{To: "laptop"})
		return strings.Contains(e.Message, "there is no address to try")
	})
	desk.stop()
	desk = start(t, desk.dir, "desk")
	if got := desk.addresses.TakeDialAddrs(laptop.ID()); len(got) != 0 {
		t.Errorf("after a start it is dialled at %q", got)
	}
}
