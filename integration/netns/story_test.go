//go:build netns

package netns

import (
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/client"
)

// Two machines, nothing configured, and what their owners type. It runs alone, for
// it measures single times.
func TestStory(t *testing.T) {
	_, h := lan(t, both, "desk", "laptop")
	desk, laptop := h[0].daemon("desk"), h[1].daemon("laptop")
	desk.start()
	laptop.start()
	for _, side := range [][2]*daemon{{desk, laptop}, {laptop, desk}} {
		d, other := side[0], side[1]
		t.Logf("%s sees %s after %s", d.Name, other.Name, d.sees(other.ID, "", laptop.Acpd.Begun, sightTime+slack))
		var listed client.Peers
		if err := json.Unmarshal([]byte(d.StartAcpctl("peers", "--json").AwaitExit(0)), &listed); err != nil {
			t.Fatal(err)
		}
		if p := listed.Peers[0]; len(listed.Peers) != 1 || p.State != client.PeerDiscovered || p.Claim != other.Name || p.Name != "" || len(p.Addrs) == 0 || p.Source != "mdns" {
			t.Errorf("peers on %s: %+v", d.Name, listed.Peers)
		}
		if said := d.StartAcpctl("peers").AwaitExit(0); !strings.Contains(said, other.Name) || !strings.Contains(said, "discovered") {
			t.Errorf("peers on %s:\n%s", d.Name, said)
		}
	}

	// Only a typed yes is one.
	laptop.StartAcpctl("trust", "desk", "--yes").AwaitExit(2)
	laptop.told("no\n", "trust", "desk").AwaitExit(1)
	for _, side := range [][2]*daemon{{laptop, desk}, {desk, laptop}} {
		d, other := side[0], side[1]
		trust := d.told("yes\n", "trust", other.Name)
		trust.AwaitExit(0)
		if asked := trust.Stderr.String(); !strings.Contains(asked, other.ID.Fingerprint()) {
			t.Errorf("%s was not shown the fingerprint:\n%s", d.Name, asked)
		}
	}
	t.Logf("connected after %s", laptop.connects(desk, time.Now(), time.Second+slack))
	laptop.StartAcpctl("ping", "desk", "-c", "3").AwaitExit(0)

	desk.Serve("reviewer", "--prompt", "--", "sed", "s/^/You asked: /")
	if said := laptop.StartAcpctl("query", "desk", "Is the parser safe?").AwaitExit(0); said != "You asked: Is the parser safe?\n" {
		t.Errorf("query: %q", said)
	}
	if said := laptop.StartAcpctl("delegate", "desk", "Review the parser.", "--wait").AwaitExit(0); !strings.Contains(said, "You asked: Review the parser.") {
		t.Errorf("delegate: %q", said)
	}
	desk.warned(0)
	laptop.warned(0)
}
