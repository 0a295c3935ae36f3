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
		t.Logf("%s sees %s after %s", d.name, other.name, d.sees(other.id, "", laptop.begun, sightTime))
		var listed client.Peers
		if err := json.Unmarshal([]byte(d.acpctl("", "peers", "--json").exits(0)), &listed); err != nil {
			t.Fatal(err)
		}
		if p := listed.Peers[0]; len(listed.Peers) != 1 || p.State != client.PeerDiscovered || p.Claim != other.name || p.Name != "" || len(p.Addrs) == 0 || p.Source != "mdns" {
			t.Errorf("peers on %s: %+v", d.name, listed.Peers)
		}
		if said := d.acpctl("", "peers").exits(0); !strings.Contains(said, other.name) || !strings.Contains(said, "discovered") {
			t.Errorf("peers on %s:\n%s", d.name, said)
		}
	}

	// Only a typed yes is one.
	laptop.acpctl("", "trust", "desk", "--yes").exits(2)
	laptop.acpctl("no\n", "trust", "desk").exits(1)
	for _, side := range [][2]*daemon{{laptop, desk}, {desk, laptop}} {
		d, other := side[0], side[1]
		trust := d.acpctl("yes\n", "trust", other.name)
		trust.exits(0)
		if asked := trust.stderr.String(); !strings.Contains(asked, other.id.Fingerprint()) {
			t.Errorf("%s was not shown the fingerprint:\n%s", d.name, asked)
		}
	}
	t.Logf("connected after %s", laptop.connects(desk, time.Now(), time.Second))
	laptop.acpctl("", "ping", "desk", "-c", "3").exits(0)

	desk.acpctl("", "serve", "--name", "reviewer", "--prompt", "--", "sed", "s/^/You asked: /")
	eventually(t, time.Now(), patience, "reviewer is attached", func() bool {
		s, err := desk.client.Status(t.Context())
		return err == nil && len(s.Agents) == 1
	})
	if said := laptop.acpctl("", "query", "desk", "Is the parser safe?").exits(0); said != "You asked: Is the parser safe?\n" {
		t.Errorf("query: %q", said)
	}
	if said := laptop.acpctl("", "delegate", "desk", "Review the parser.", "--wait").exits(0); !strings.Contains(said, "You asked: Review the parser.") {
		t.Errorf("delegate: %q", said)
	}
	desk.warned(0)
	laptop.warned(0)
}
