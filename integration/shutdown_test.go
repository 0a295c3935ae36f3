package integration

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/integration/await"
)

// TestShutdownDrains: a query that is in flight when either daemon is told to end
// gets its answer, if that comes within 5 s.
func TestShutdownDrains(t *testing.T) {
	t.Parallel()
	for name, which := range map[string]int{"of the receiver": 0, "of the caller": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			desk, laptop := friends(t)
			ending := []*machine{desk, laptop}[which]
			s := newStubborn()
			desk.attach(client.AttachParams{Name: "reviewer"}, client.Handler{Query: s.query})
			asking := laptop.StartAcpctl("query", "desk", "slow")
			await.Receive(t, "query", s.began)
			status := ending.Client
			if _, err := status.Status(await.NewContext(t)); err != nil {
				t.Fatal(err)
			}
			ending.Acpd.Signal(syscall.SIGTERM)
			await.Until(t, "draining", func() bool {
				now, err := status.Status(await.NewContext(t))
				if err != nil {
					t.Fatalf("the socket does not outlive the drain: %v", err)
				}
				return now.State == "draining"
			})
			close(s.release)
			if stdout := asking.AwaitExit(0); stdout != "at last\n" {
				t.Errorf("the answer is %q", stdout)
			}
			ending.Acpd.AwaitExit(0)
		})
	}
}

// TestShutdownDoesNotWaitForEver: after 5 s the daemon ends, and whoever still
// waits is told.
func TestShutdownDoesNotWaitForEver(t *testing.T) {
	t.Parallel()
	desk, laptop := friends(t)
	s := newStubborn()
	desk.attach(client.AttachParams{Name: "reviewer"}, client.Handler{Query: s.query})
	asking := laptop.StartAcpctl("query", "desk", "slow", "--deadline", "1m")
	await.Receive(t, "query", s.began)
	begun := time.Now()
	desk.StopDaemon()
	took := time.Since(begun)
	await.CheckDuration(t, "shutdown", took, 6*time.Second+slack)
	if took < 4*time.Second {
		t.Errorf("the shutdown did not wait: %s", took)
	}
	asking.AwaitEnd()
	if code := asking.Cmd.ProcessState.ExitCode(); code != 5 && code != 7 {
		t.Errorf("who waits has exit code %d: %s", code, asking.Stderr.String())
	}
	await.CheckDuration(t, "the end of the wait", time.Since(begun), 6*time.Second+slack)
	await.Receive(t, "agent that is told", s.gaveUp)
}

// TestIdleShutdown is quick, with SIGINT as with SIGTERM, and removes the socket.
func TestIdleShutdown(t *testing.T) {
	t.Parallel()
	desk, laptop := friends(t)
	for m, signal := range map[*machine]syscall.Signal{desk: syscall.SIGTERM, laptop: syscall.SIGINT} {
		begun := time.Now()
		m.Acpd.Signal(signal)
		m.Acpd.AwaitExit(0)
		await.CheckDuration(t, "shutdown", time.Since(begun), 2*time.Second+slack)
		if _, err := os.Lstat(m.SocketPath()); err == nil {
			t.Errorf("%s leaves its socket", m.Name)
		}
	}
}

// TestPolicyAndReload: a rule that forbids is named to who is refused; an invalid
// configuration leaves the old one in force and says so in the log.
func TestPolicyAndReload(t *testing.T) {
	t.Parallel()
	desk, laptop := friends(t)
	desk.attach(client.AttachParams{Name: "reviewer"}, says("here"))
	configure := func(text, logged string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(desk.Home, "config.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		before := strings.Count(desk.Acpd.Stderr.String(), logged)
		desk.Acpd.Signal(syscall.SIGHUP)
		await.Until(t, "the log says "+logged, func() bool { return strings.Count(desk.Acpd.Stderr.String(), logged) > before })
	}
	refused := func(want string) {
		t.Helper()
		p := laptop.RunAcpctl(4, "query", "desk", "x", "--json")
		if said := p.Stdout.String(); !strings.Contains(said, `"code":"not_authorized"`) || !strings.Contains(said, want) {
			t.Errorf("the peer is told %s, want %s", said, want)
		}
	}
	configure("policy:\n  laptop: {kinds: [ping, notify]}\n", "configuration reloaded")
	refused("policy.laptop: kinds [ping, notify]")
	laptop.MustOutput("ping", "desk", "-c", "1")
	laptop.MustOutput("notify", "desk", "x", "1")
	configure("policy:\n  laptop: {kinds: [everything]}\n", "the old configuration stays")
	if said := desk.Acpd.Stderr.String(); !strings.Contains(said, "config.yaml:2") || !strings.Contains(said, "everything") {
		t.Errorf("the log does not say what is wrong: %s", said)
	}
	refused("policy.laptop")
	configure("policy:\n  \"*\": {domains: [code]}\n", "configuration reloaded")
	refused("names none")
	if said := laptop.MustOutput("query", "desk", "x", "--domain", "code.review"); said != "here\n" {
		t.Errorf("got %q", said)
	}
	configure("limits: {rate: [{kind: query, per_second: 0.001, burst: 1}]}\n", "configuration reloaded")
	laptop.MustOutput("query", "desk", "x")
	if said := laptop.RunAcpctl(7, "query", "desk", "x", "--json").Stdout.String(); !strings.Contains(said, `"code":"overloaded"`) || !strings.Contains(said, "retry_after_ms") {
		t.Errorf("over the rate: %s", said)
	}
	configure("", "configuration reloaded")
	laptop.MustOutput("query", "desk", "x")
}
