//go:build wide

package processes

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acpd/acpd/integration/live"
)

// oldServer is an environment variable: the path of an older nats-server, which make reach-wide sets.
const oldServer = "ACPD_OLD_NATS_SERVER"

const wideToken = "a-token-of-48-hex-digits"

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

// newWideServer writes a configuration with TLS and a token for daemons, and with more. It starts nothing.
func newWideServer(t *testing.T, name, program, more string) *server {
	t.Helper()
	dir := t.TempDir()
	cert, key := live.WriteCertificate(t, dir, "127.0.0.1")
	s := &server{t: t, conf: filepath.Join(dir, "nats.conf"), addr: live.PickTCPAddr(t), cert: cert, program: program}
	conf := fmt.Sprintf(`
server_name: %q
listen: %q
tls { timeout: 60, cert_file: %q, key_file: %q }
ping_interval: "20s"
ping_max: 2
authorization { token: %q }
%s`, name, s.addr, cert, key, wideToken, more)
	if err := os.WriteFile(s.conf, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

// wide is an arrangement of servers: what a daemon at each of its two ends connects to, each server as a
// relay. All run.
type wide struct {
	desk, laptop []*server
}

func startAll(all ...*server) {
	for _, s := range all {
		s.start()
	}
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

// newCluster returns a cluster of three. Each daemon is at two of them, and one is common.
func newCluster(t *testing.T, program string) wide {
	var at, routes []string
	for range 3 {
		listen := live.PickTCPAddr(t)
		at, routes = append(at, listen), append(routes, fmt.Sprintf("%q", "nats://"+listen))
	}
	var all []*server
	for i, listen := range at {
		all = append(all, newWideServer(t, fmt.Sprint("hub-", i+1), program, fmt.Sprintf("cluster { name: hub, listen: %q, routes: [ %s ] }", listen, strings.Join(routes, ", "))))
	}
	startAll(all...)
	return wide{desk: []*server{all[0], all[1]}, laptop: []*server{all[2], all[1]}}
}

// newSingle returns one server.
func newSingle(t *testing.T, program string) wide {
	s := newWideServer(t, "hub", program, "")
	s.start()
	return wide{desk: []*server{s}, laptop: []*server{s}}
}
