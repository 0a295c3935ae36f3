package doctor

import (
	"strings"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/config"
	"github.com/acpd/acpd/kinds"
)

// TestErrorsAreQuotedWhole: what an error or a warning says is in the finding, from beginning to end. None of it
// becomes the advice because a colon stands before it, and the advice says more than that it is there.
func TestErrorsAreQuotedWhole(t *testing.T) {
	const text = "192.0.2.2:7117: cannot send: message too long"
	unreachable, conflict := kinds.Errorf(kinds.Unreachable, text), kinds.Errorf(kinds.IdentityConflict, text)
	x := &examination{Options: &Options{Machine: Machine{Now: ThisMachine().Now}}, config: new(config.Config), status: &client.Status{Warnings: []string{text}}}
	p := &client.Peer{Name: "laptop", Addrs: []string{"192.0.2.2:7117"}}
	x.addPeer(p, &pong{err: unreachable})
	x.addPeer(p, &pong{err: conflict})
	x.addAddrs(p, []client.ProbedAddr{{Addr: "192.0.2.2:7117", Error: unreachable}, {Addr: "192.0.2.2:7117", Error: conflict}})
	x.examineDaemon()
	for _, c := range []Code{"peer.away", "peer.conflict", "address.dead", "address.wrong", "daemon.warning"} {
		if f := findCode(x.findings, c); !strings.HasSuffix(f.What, text) || f.Remedy == "" || strings.Contains(f.Remedy, "too long") || strings.HasPrefix(f.Remedy, "as it says") {
			t.Errorf("%s: %q / %q", c, f.What, f.Remedy)
		}
	}
}
