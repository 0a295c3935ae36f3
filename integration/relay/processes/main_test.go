// Package processes runs daemons that reach each other over a relay alone, as their users run
// them: acpd, acpctl and nats-server as processes, with the configurations of docs/reach.md.
package processes

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/integration/live"
)

const root = "../../.." // of the repository

func TestMain(m *testing.M) {
	dir, err := buildPrograms()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Setenv(live.Built, dir)
	code := m.Run()
	live.RemovePrograms()
	os.Exit(code)
}

// buildPrograms builds acpd and acpctl in their module, and nats-server in this one.
func buildPrograms() (dir string, err error) {
	if dir, err = os.MkdirTemp("", "acpd-built"); err != nil {
		return "", err
	}
	ours := []string{"build", "-trimpath", "-o", dir + "/", "./cmd/acpd", "./cmd/acpctl"}
	if live.IsRaceEnabled() {
		ours = append([]string{"build", "-race"}, ours[1:]...)
	}
	for where, args := range map[string][]string{
		root: ours,
		".":  {"build", "-trimpath", "-o", dir + "/", "github.com/nats-io/nats-server/v2"},
	} {
		cmd := exec.Command("go", args...)
		cmd.Dir = where
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, out)
		}
	}
	return dir, os.Chmod(dir, 0o755)
}

// server is a nats-server with TLS, for 127.0.0.1.
type server struct {
	t       *testing.T
	conf    string // its file
	addr    string // host:port
	cert    string // the file of its certificate, which is its own authority
	process *live.Process
}

var confOf = map[string]*regexp.Regexp{
	"a person":  regexp.MustCompile("(?s)<!-- nats.conf of a person -->\n```\n(.*?)```"),
	"a company": regexp.MustCompile("(?s)<!-- nats.conf of a company -->\n```\n(.*?)```"),
}

// newServer writes the configuration that docs/reach.md gives to whom, with these words replaced, and
// starts nothing.
func newServer(t *testing.T, whom string, replace ...string) *server {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs/reach.md"))
	if err != nil {
		t.Fatal(err)
	}
	conf := confOf[whom].FindSubmatch(text)
	if conf == nil {
		t.Fatalf("docs/reach.md has no nats.conf of %s", whom)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := free.Addr().String()
	free.Close()
	dir := t.TempDir()
	s := &server{t: t, conf: filepath.Join(dir, "nats.conf"), addr: addr, cert: filepath.Join(dir, "cert.pem")}
	key := filepath.Join(dir, "key.pem")
	writeCert(t, s.cert, key)
	edited := strings.NewReplacer(append([]string{"0.0.0.0:4222", addr}, replace...)...).Replace(string(conf[1]))
	edited = regexp.MustCompile(`cert_file: "[^"]*"`).ReplaceAllString(edited, `cert_file: "`+s.cert+`"`)
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

// writeCert makes a certificate for 127.0.0.1 that is its own authority.
func writeCert(t *testing.T, certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "relay"}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: cert}, keyFile: {Type: "PRIVATE KEY", Bytes: der}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

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
