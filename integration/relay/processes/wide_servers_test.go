//go:build wide

package processes

import (
	"fmt"
	"os"
	"testing"

	"github.com/acpd/acpd/integration/live"
)

// oldServer is an environment variable: the path of an older nats-server, which make reach-wide sets.
const oldServer = "ACPD_OLD_NATS_SERVER"

// findOldServer returns the path of an older nats-server.
func findOldServer(t *testing.T) string {
	t.Helper()
	path := os.Getenv(oldServer)
	if path == "" {
		t.Fatalf("%s is not set: run make reach-wide, which fetches Debian's package nats-server", oldServer)
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%s: %v: run make reach-wide, which fetches Debian's package nats-server", oldServer, err)
	}
	return path
}

// newGateways returns two clusters of one server each, which gateways join.
func newGateways(t *testing.T, deskProgram, laptopProgram string) wide {
	east, west := live.PickTCPAddr(t), live.PickTCPAddr(t)
	gateway := func(name, listen string) string {
		return fmt.Sprintf(`gateway { name: %s, listen: %q, gateways: [ { name: east, url: "nats://%s" }, { name: west, url: "nats://%s" } ] }`, name, listen, east, west)
	}
	a, b := newWideServer(t, "east-1", deskProgram, gateway("east", east)), newWideServer(t, "west-1", laptopProgram, gateway("west", west))
	startAll(a, b)
	return wide{desk: []*server{a}, laptop: []*server{b}}
}

// newLeaf returns a hub, and a leaf node of it.
func newLeaf(t *testing.T, hubProgram, leafProgram string) wide {
	at := live.PickTCPAddr(t)
	hub := newWideServer(t, "hub", hubProgram, fmt.Sprintf(`leafnodes { listen: %q, authorization { user: leaf, password: "a-password" } }`, at))
	leaf := newWideServer(t, "leaf", leafProgram, fmt.Sprintf(`leafnodes { remotes: [ { url: "nats-leaf://leaf:a-password@%s" } ] }`, at))
	startAll(hub, leaf)
	return wide{desk: []*server{hub}, laptop: []*server{leaf}}
}

// newSingle returns one server.
func newSingle(t *testing.T, program string) wide {
	s := newWideServer(t, "hub", program, "")
	s.start()
	return wide{desk: []*server{s}, laptop: []*server{s}}
}
