//go:build netns

package netns

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/integration/live"
)

// natsServerPath is an environment variable: the NATS server that buildNATSServer has built.
const natsServerPath = "ACPD_NATS_SERVER"

// buildNATSServer builds the NATS server that the module integration/relay names, in a directory
// that the caller removes.
func buildNATSServer() (dir string, _ error) {
	dir, err := os.MkdirTemp("", "acpd-nats")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "nats-server")
	cmd := exec.Command("go", "build", "-o", path, "github.com/nats-io/nats-server/v2")
	cmd.Dir = "../relay"
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		os.RemoveAll(dir)
		return "", fmt.Errorf("build the NATS server: %w\n%s", err, out)
	}
	return dir, os.Setenv(natsServerPath, path)
}

// natsServer is a NATS server on the hub, which takes one token, at two addresses: over TLS, and
// over WebSocket on TLS.
type natsServer struct {
	host      *host
	dir       string
	authority string // a file: who signs the server's certificate
	token     string // a file
	tls, wss  string // URLs
	process   *live.Process
}

// natsConf gives who logs in the time that a busy machine may need.
const natsConf = `
listen: "%[1]s:4222"
tls { timeout: 60, cert_file: "%[2]s/cert.pem", key_file: "%[2]s/key.pem" }
websocket {
  listen: "%[1]s:443"
  handshake_timeout: "60s"
  tls { timeout: 60, cert_file: "%[2]s/cert.pem", key_file: "%[2]s/key.pem" }
}
authorization { timeout: 60, token: "5d0f8a3c71be4926" }
ping_interval: "20s"
ping_max: 2
`

// nats starts a NATS server at an address of a host, or with more at all of its addresses, for which its
// certificate is then.
func (h *host) nats(addr string, more ...string) *natsServer {
	t := h.l.t
	t.Helper()
	dir := live.MakeTempDir(t)
	s := &natsServer{
		host: h, dir: dir, authority: filepath.Join(dir, "cert.pem"), token: filepath.Join(dir, "token"),
		tls: "tls://" + addr + ":4222", wss: "wss://" + addr + ":443",
	}
	live.WriteCertificate(t, dir, append(more, addr)...)
	listen := addr
	if len(more) > 0 {
		listen = "[::]"
	}
	for name, text := range map[string]string{"nats.conf": fmt.Sprintf(natsConf, listen, dir), "token": "5d0f8a3c71be4926\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s.start()
	return s
}

// start starts the server, and returns when it takes connections.
func (s *natsServer) start() {
	t := s.host.l.t
	t.Helper()
	s.process = s.host.begin(nil, os.Getenv(natsServerPath), "-c", filepath.Join(s.dir, "nats.conf"))
	await.Until(t, "the NATS server takes connections", func() bool {
		if !s.process.IsRunning() {
			t.Fatalf("the NATS server has ended: %s", s.process.Stderr.String())
		}
		return s.host.in(func() error {
			conn, err := net.Dial("tcp4", s.tls[len("tls://"):])
			if err == nil {
				conn.Close()
			}
			return err
		}) == nil
	})
}

// relayed starts a daemon that knows the authority of a server, and no other way to find anybody.
// config is its config.yaml; "": none.
func (h *host) relayed(name string, s *natsServer, config string) *daemon {
	h.l.t.Helper()
	d := h.daemon(name)
	d.Flags, d.Env = []string{"--no-mdns"}, []string{"SSL_CERT_FILE=" + s.authority}
	if config != "" {
		if err := os.WriteFile(filepath.Join(d.Home, "config.yaml"), []byte(config), 0o600); err != nil {
			h.l.t.Fatal(err)
		}
	}
	d.start()
	return d
}

// joinOverRelay lets one daemon use a relay and invite the other one, which takes the relay over
// with the invitation. It returns when both are connected.
func joinOverRelay(desk, laptop *daemon, s *natsServer, url string) {
	desk.T.Helper()
	laptop.takeInvitation(desk.inviteOverRelay(s, url), desk)
}

// inviteOverRelay lets the daemon use a relay, and returns an invitation that names it.
func (d *daemon) inviteOverRelay(s *natsServer, url string) string {
	d.T.Helper()
	d.MustOutput("relay", "add", url, "--name", "hub", "--token-file", s.token, "--share")
	return d.MustOutput("invite", "--with-credential")
}

// takeInvitation joins who has invited, and returns when both are connected.
func (d *daemon) takeInvitation(line string, of *daemon) {
	d.T.Helper()
	d.told(line, "join", "--keep-relay").AwaitExit(0)
	live.AwaitConnection(d.Machine, of.Machine)
}

// findPath returns how packets travel to a peer.
func (d *daemon) findPath(to *daemon) client.Path {
	d.T.Helper()
	return d.FindPeer(to.ID).Path
}
