// Package processes runs daemons that reach each other over a relay alone, as their users run
// them: acpd, acpctl and nats-server as processes, with the configurations of docs/reach.md.
package processes

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/integration/live"
)

const root = "../../.." // of the repository

func TestMain(m *testing.M) {
	if err := buildPrograms(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	live.RemovePrograms()
	os.Exit(code)
}

// buildPrograms builds acpd and acpctl in their module, and beside them nats-server in this one.
func buildPrograms() error {
	live.Dir = root
	dir, err := live.Build()
	if err != nil {
		return err
	}
	out, err := exec.Command("go", "build", "-o", dir+"/", "github.com/nats-io/nats-server/v2").CombinedOutput()
	if err != nil {
		return fmt.Errorf("build nats-server: %w\n%s", err, out)
	}
	return nil
}

// server is a nats-server with TLS, for 127.0.0.1.
type server struct {
	t       *testing.T
	conf    string // its file
	addr    string // host:port
	wss     string // host:port of its WebSocket, if it has one
	cert    string // the file of its certificate, which is its own authority
	process *live.Process
}

// natsConf finds what docs/reach.md writes into a nats.conf: of whom or for what, and the text.
var natsConf = regexp.MustCompile("(?s)<!-- nats.conf (.*?) -->\n```\n(.*?)```")

// newServer writes a configuration of those parts that docs/reach.md gives, such as "of a person", with
// these words replaced. It starts nothing.
func newServer(t *testing.T, parts []string, replace ...string) *server {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs/reach.md"))
	if err != nil {
		t.Fatal(err)
	}
	given := make(map[string]string)
	for _, found := range natsConf.FindAllStringSubmatch(string(text), -1) {
		given[found[1]] = found[2]
	}
	conf := ""
	for _, part := range parts {
		if given[part] == "" {
			t.Fatalf("docs/reach.md has no nats.conf %s", part)
		}
		conf += given[part]
	}
	s := &server{t: t, addr: live.PickTCPAddr(t), wss: live.PickTCPAddr(t)}
	dir := t.TempDir()
	s.conf = filepath.Join(dir, "nats.conf")
	cert, key := live.WriteCertificate(t, dir, "127.0.0.1")
	s.cert = cert
	edited := strings.NewReplacer(append([]string{"0.0.0.0:4222", s.addr, "0.0.0.0:443", s.wss}, replace...)...).Replace(conf)
	// Unless told otherwise, a server hangs up on who has not logged in after 3 s, which a busy machine may need.
	edited = regexp.MustCompile(`cert_file: "[^"]*"`).ReplaceAllString(edited, `timeout: 60, cert_file: "`+cert+`"`)
	edited = regexp.MustCompile(`key_file: "[^"]*"`).ReplaceAllString(edited, `key_file: "`+key+`"`)
	if err := os.WriteFile(s.conf, []byte(edited), 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

// start starts the server and waits until it takes connections.
func (s *server) start() {
	s.t.Helper()
	s.process = live.StartProcess(s.t, live.NewEnviron(s.t, "/"), filepath.Join(os.Getenv(live.Built), "nats-server"), "-c", s.conf)
	await.Until(s.t, "the server listens", func() bool {
		if !s.process.IsRunning() {
			s.t.Fatal(s.process.Stderr.String())
		}
		c, err := net.Dial("tcp", s.addr)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
}

func (s *server) url() string { return "tls://" + s.addr }

// newMachine returns a machine that trusts the server's certificate. Its daemon is not started.
func newMachine(t *testing.T, name string, s *server) *live.Machine {
	t.Helper()
	m := live.NewMachine(t, name)
	m.Env = append(m.Env, "SSL_CERT_FILE="+s.cert)
	return m
}

var address = regexp.MustCompile(`addr=[^&]*&`)

// hideAddrs takes the addresses out of an invitation: the machines have no network in common.
func hideAddrs(invitation string) string {
	return address.ReplaceAllString(strings.TrimSpace(invitation), "")
}
