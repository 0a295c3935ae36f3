package processes

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/integration/live"
)

const wideToken = "a-token-of-48-hex-digits"

// wide is an arrangement of servers: what a daemon at each of its two ends connects to, each server as a
// relay. All run.
type wide struct {
	desk, laptop []*server
}

// newWideServer writes a configuration with TLS and a token for daemons, and with more. It starts nothing.
func newWideServer(t *testing.T, name, more string) *server {
	t.Helper()
	dir := t.TempDir()
	cert, key := live.WriteCertificate(t, dir, "127.0.0.1")
	s := &server{t: t, conf: filepath.Join(dir, "nats.conf"), addr: live.PickTCPAddr(t), cert: cert}
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

func startAll(all ...*server) {
	for _, s := range all {
		s.start()
	}
}

// newCluster returns a cluster of three. Each daemon is at two of them, and one is common.
func newCluster(t *testing.T) wide {
	var at, routes []string
	for range 3 {
		listen := live.PickTCPAddr(t)
		at, routes = append(at, listen), append(routes, fmt.Sprintf("%q", "nats://"+listen))
	}
	var all []*server
	for i, listen := range at {
		all = append(all, newWideServer(t, fmt.Sprint("hub-", i+1), fmt.Sprintf("cluster { name: hub, listen: %q, routes: [ %s ] }", listen, strings.Join(routes, ", "))))
	}
	startAll(all...)
	return wide{desk: []*server{all[0], all[1]}, laptop: []*server{all[2], all[1]}}
}

// newWideMachine starts a daemon for which each server of an end is a relay.
func newWideMachine(t *testing.T, name string, end []*server) *live.Machine {
	t.Helper()
	roots := filepath.Join(t.TempDir(), "roots.pem")
	var certs []byte
	for _, s := range end {
		cert, err := os.ReadFile(s.cert)
		if err != nil {
			t.Fatal(err)
		}
		certs = append(certs, cert...)
	}
	if err := os.WriteFile(roots, certs, 0o600); err != nil {
		t.Fatal(err)
	}
	m := newMachine(t, name, &server{cert: roots})
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte(wideToken+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	m.StartDaemon()
	for i, s := range end {
		m.MustOutput("relay", "add", s.url(), "--name", []string{"hub", "spare"}[i], "--token-file", token)
	}
	return m
}

func awaitPing(t *testing.T, m *live.Machine) {
	t.Helper()
	to := map[string]string{"desk": "laptop", "laptop": "desk"}[m.Name]
	await.Until(t, m.Name+" has an answer", func() bool {
		_, err := m.Client.Ping(await.NewContext(t), client.PingParams{To: to})
		return err == nil
	})
}
