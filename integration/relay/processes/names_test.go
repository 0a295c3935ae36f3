package processes

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/integration/live"
	"github.com/acpd/acpd/kinds"
)

// company is an authority and the server of its daemons, which have no network in common.
type company struct {
	t      *testing.T
	server *server
	key    string // the file of the authority's key
	public string
}

func newCompany(t *testing.T) *company {
	t.Helper()
	if _, err := exec.LookPath("ssh-keygen"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("ssh-keygen (Debian: openssh-client) is not installed: nothing is left out here")
		}
		t.Skip("ssh-keygen (Debian: openssh-client) is not installed")
	}
	c := &company{t: t, server: newServer(t, []string{"of a company"}), key: filepath.Join(t.TempDir(), "corp")}
	c.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "corp", "-f", c.key)
	line, err := os.ReadFile(c.key + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	c.public = strings.TrimSpace(string(line))
	return c
}

func (c *company) run(argv ...string) {
	c.t.Helper()
	if out, err := exec.CommandContext(c.t.Context(), argv[0], argv[1:]...).CombinedOutput(); err != nil {
		c.t.Fatalf("%q: %v: %s", argv, err, out)
	}
}

// permit has the server let these machines in: each by its nkey, with its own subjects and that of its name, as
// docs/reach.md gives a line for each.
func (c *company) permit(machines ...*live.Machine) {
	c.t.Helper()
	text, err := os.ReadFile(c.server.conf)
	if err != nil {
		c.t.Fatal(err)
	}
	row := regexp.MustCompile(`(?m)^.*UDESK.*\n`).FindString(string(text))
	var rows strings.Builder
	for _, m := range machines {
		nkey := strings.TrimSpace(m.MustOutput("relay", "nkey"))
		rows.WriteString(strings.NewReplacer("UDESK", nkey, "IDDESK", m.ID.String(), "acp1.name.desk", "acp1.name."+m.Name).Replace(row))
	}
	edited := regexp.MustCompile(`(?m)^.*ULAPTOP.*\n`).ReplaceAllString(strings.Replace(string(text), row, rows.String(), 1), "")
	if err := os.WriteFile(c.server.conf, []byte(edited), 0o600); err != nil {
		c.t.Fatal(err)
	}
}

// sign gives a machine a certificate for a name, and has it use the relay.
func (c *company) sign(m *live.Machine, name string) {
	c.t.Helper()
	request := filepath.Join(m.Home, "acpd.pub")
	write(c.t, request, m.MustOutput("cert", "request"))
	c.run("ssh-keygen", "-q", "-s", c.key, "-h", "-I", m.Name, "-n", "acp:"+name, "-V", "-1m:+7d", request)
	if _, err := os.Stat(filepath.Join(m.Home, "revoked.txt")); err != nil {
		write(c.t, filepath.Join(m.Home, "revoked.txt"), "")
	}
	write(c.t, filepath.Join(m.Home, "config.yaml"), fmt.Sprintf(`reach: {relays: [{name: hub, url: %q}]}
organisation:
  certificate: acpd-cert.pub
  authorities:
    corp: {key: %q, revoked: revoked.txt, allow: [ping, discover, query]}
`, c.server.url(), c.public))
	m.MustOutput("reload")
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// pingFails returns the error of a ping.
func pingFails(m *live.Machine, name string) (e *kinds.Error) {
	m.T.Helper()
	p := m.StartAcpctl("ping", name, "-c", "1", "--json")
	p.AwaitEnd()
	var answer struct {
		Error *kinds.Error `json:"error"`
	}
	for line := range strings.Lines(p.Stdout.String()) {
		if json.Unmarshal([]byte(line), &answer) == nil && answer.Error != nil {
			return answer.Error
		}
	}
	m.T.Fatalf("ping %s: %s%s", name, p.Stdout.String(), p.Stderr.String())
	return nil
}

// TestNamesOnARelay: three daemons with certificates of one authority, none of which is trusted by hand, call each
// other by name. One is revoked.
func TestNamesOnARelay(t *testing.T) {
	t.Parallel()
	c := newCompany(t)
	desk, laptop, build := newMachine(t, "desk", c.server), newMachine(t, "laptop", c.server), newMachine(t, "build", c.server)
	all := []*live.Machine{desk, laptop, build}
	for _, m := range all {
		m.StartDaemon()
	}
	c.permit(all...)
	c.server.start()
	for _, m := range all {
		c.sign(m, m.Name)
		awaitRelay(t, m, "up")
	}

	doctor := laptop.StartAcpctl("doctor", "build.corp")
	if doctor.AwaitEnd(); !strings.Contains(doctor.Stdout.String(), "(peer.ok)") {
		t.Errorf("doctor says %s%s", doctor.Stdout.String(), doctor.Stderr.String())
	}
	if e := laptop.RunAcpctl(kinds.Unreachable.Info().Exit, "doctor", "web.corp").Stderr.String(); !strings.Contains(e, "nobody on the relay has that name") {
		t.Errorf("doctor says %s", e)
	}
	began := time.Now()
	desk.MustOutput("ping", "build.corp", "-c", "1")
	t.Logf("the first ping by a name took %s, with acpctl", time.Since(began))
	build.StartAcpctl("serve", "--name", "echo", "--", "sed", "s/question/summary/")
	await.Until(t, "echo is attached", func() bool {
		s, err := build.Client.Status(await.NewContext(t))
		return err == nil && len(s.Agents) == 1
	})
	if a := laptop.MustOutput("query", "build.corp", "Ready?"); !strings.Contains(a, "Ready?") {
		t.Errorf("build answers %q", a)
	}
	build.MustOutput("ping", "laptop.corp", "-c", "1")
	if r := relayOf(t, desk); r.Error != "" {
		t.Errorf("the relay says %s", r.Error)
	}

	// Nobody has the name, or it is one's own.
	began = time.Now()
	if e := pingFails(desk, "web.corp"); e.Code != kinds.Unreachable || e.Delivered() != kinds.DeliveredNo || !strings.Contains(e.Message, "relay hub: nobody on the relay has that name") {
		t.Errorf("%+v", e)
	}
	t.Logf("that nobody has a name is known after %s, with acpctl", time.Since(began))
	if e := pingFails(desk, "desk.corp"); e.Code != kinds.Invalid || !strings.Contains(e.Message, "this daemon itself") {
		t.Errorf("%+v", e)
	}

	// Revoked.
	write(t, filepath.Join(desk.Home, "revoked.txt"), "name build\n")
	desk.MustOutput("reload")
	if e := pingFails(desk, "build.corp"); e.Code != kinds.Unreachable || !strings.Contains(e.Message, "corp has revoked it") {
		t.Errorf("%+v", e)
	}
	write(t, filepath.Join(desk.Home, "revoked.txt"), "")
	desk.MustOutput("reload")
	await.Until(t, "build is back", func() bool {
		p := desk.StartAcpctl("ping", "build.corp", "-c", "1")
		p.AwaitEnd()
		return p.Cmd.ProcessState.ExitCode() == 0
	})
}
