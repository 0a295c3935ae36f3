package integration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/integration/live"
)

// limitFiles stops the daemon from writing files beyond a size, as a full disk
// would; a limit of a running process can be lifted again.
func (m *machine) limitFiles(size uint64) {
	m.T.Helper()
	limit := unix.Rlimit{Cur: size, Max: unix.RLIM_INFINITY}
	if err := unix.Prlimit(m.Acpd.Cmd.Process.Pid, unix.RLIMIT_FSIZE, &limit, nil); err != nil {
		m.T.Fatal(err)
	}
}

// TestFullDisk: nothing is promised that cannot be kept, what was promised stays,
// and when there is space again the daemon goes on.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	desk, laptop := friends(t)
	stranger := strings.Repeat("1", 64)
	trust := filepath.Join(desk.Home, "trust.yaml")
	await.Until(t, "the peer's key is pinned", func() bool { return strings.Contains(content(t, trust), "pq: ") })
	before := content(t, trust)
	if said := laptop.MustOutput("notify", "desk", "before", "1"); said != "held\n" {
		t.Fatalf("notify says %q", said)
	}
	desk.limitFiles(0)
	said := laptop.RunAcpctl(7, "notify", "desk", "meanwhile", "1", "--json").Stdout.String()
	if !strings.Contains(said, `"code":"overloaded"`) || strings.Contains(said, desk.Home) {
		t.Errorf("who notifies is told %s", said)
	}
	// Reading needs no space; removing does, and takes what was read alone.
	for range 2 {
		if said := desk.MustOutput("inbox"); !strings.Contains(said, "before 1") || strings.Count(said, "\n") != 1 {
			t.Errorf("on a full disk the inbox shows %q", said)
		}
	}
	desk.RunAcpctl(1, "inbox", "--ack", "99")
	await.Until(t, "the log says why", func() bool { return strings.Contains(desk.Acpd.Stderr.String(), "state.db") })
	for _, verb := range [][]string{{"trust", stranger, "--yes"}, {"delegate", "laptop", "x"}} {
		if e := desk.RunAcpctl(1, verb...).Stderr.String(); !strings.Contains(e, "free some space") {
			t.Errorf("%s on a full disk says %q, without a remedy", verb[0], e)
		}
	}
	desk.MustOutput("whoami")
	desk.MustOutput("ping", "laptop", "-c", "1")
	if after := content(t, trust); after != before {
		t.Errorf("the trust store has changed from\n%s\nto\n%s", before, after)
	}
	desk.limitFiles(unix.RLIM_INFINITY)
	if said := laptop.MustOutput("notify", "desk", "after", "1"); said != "held\n" {
		t.Errorf("notify says %q", said)
	}
	if said := desk.MustOutput("inbox", "--ack", "99"); said != "1 removed\n" {
		t.Errorf("what was read while the disk was full: %q", said)
	}
	desk.KillDaemon()
	desk.StartDaemon()
	inbox := desk.MustOutput("inbox")
	if strings.Contains(inbox, "before 1") || !strings.Contains(inbox, "after 1") || strings.Contains(inbox, "meanwhile") {
		t.Errorf("inbox: %s", inbox)
	}
	desk.connected(laptop)
}

// TestUntrustOnAFullDisk: the peer that filled the disk is cut off at once. What could
// not be written is named, and written when there is space again.
// holds: security.md#against-trusted-peers
func TestUntrustOnAFullDisk(t *testing.T) {
	t.Parallel()
	desk, laptop := friends(t)
	trust := filepath.Join(desk.Home, "trust.yaml")
	blocked := func() bool { return strings.Contains(content(t, trust), "blocked:") }
	laptop.serve("worker", "--", "sleep", "60")
	if said := laptop.MustOutput("notify", "desk", "before", "1"); said != "held\n" {
		t.Fatalf("notify says %q", said)
	}
	desk.MustOutput("delegate", "laptop", "x")
	await.Until(t, "the peer's key is pinned", func() bool { return strings.Contains(content(t, trust), "pq: ") })

	desk.limitFiles(0)
	said := desk.RunAcpctl(0, "untrust", "laptop")
	if out := said.Stdout.String(); out != laptop.ID.String()+"\n" {
		t.Errorf("untrust says %q", out)
	}
	if e := said.Stderr.String(); !strings.Contains(e, "is cut off, but not all of it is on disk (trust, inbox, delegations)") || !strings.Contains(e, "a restart of acpd trusts laptop again") {
		t.Errorf("untrust warns %q", e)
	}
	laptop.RunAcpctl(4, "ping", "desk", "-c", "1")
	desk.RunAcpctl(5, "ping", "laptop", "-c", "1")
	if said := desk.MustOutput("peers"); !strings.Contains(said, "blocked") || strings.Contains(said, "trusted") {
		t.Errorf("peers: %s", said)
	}
	if again := desk.RunAcpctl(0, "untrust", "laptop").Stderr.String(); !strings.Contains(again, "is cut off, but not all of it is on disk") {
		t.Errorf("untrusted again: %q", again)
	}
	desk.RunAcpctl(1, "trust", laptop.ID.String(), "--yes") // first what it left has to go
	if e := desk.RunAcpctl(0, "untrust", laptop.ID.String()).Stderr.String(); !strings.Contains(e, "laptop is cut off") {
		t.Errorf("untrusted by its id: %q", e)
	}
	if blocked() {
		t.Fatal("the disk was not full")
	}

	await.Until(t, "the daemon has tried again", func() bool { return strings.Contains(desk.Acpd.Stderr.String(), "trust store: not on disk yet") })
	desk.limitFiles(unix.RLIM_INFINITY)
	await.Until(t, "the block is on disk", blocked)
	await.Until(t, "the inbox is empty", func() bool { return desk.MustOutput("inbox") == "" })
	await.Until(t, "the delegation has ended", func() bool { return strings.Contains(desk.MustOutput("tasks"), "failed") })
	await.Until(t, "the log says so", func() bool {
		log := desk.Acpd.Stderr.String()
		return strings.Contains(log, "trust store: written") && strings.Contains(log, "all that it left is removed")
	})
	if e := desk.RunAcpctl(0, "untrust", laptop.ID.String()).Stderr.String(); e != "acpctl untrust: laptop is blocked already\n" {
		t.Errorf("all is on disk, and untrust says %q", e)
	}
	desk.KillDaemon()
	desk.StartDaemon()
	laptop.RunAcpctl(4, "ping", "desk", "-c", "1")
	desk.MustOutput("trust", laptop.ID.String(), "--yes")
	desk.connected(laptop)
}

// TestStartOnAFullDisk: a daemon that has run before starts, shows what it holds and
// answers, and goes on as ever when there is space.
// holds: security.md#on-this-machine
func TestStartOnAFullDisk(t *testing.T) {
	t.Parallel()
	desk, laptop := friends(t)
	if said := laptop.MustOutput("notify", "desk", "before", "1"); said != "held\n" {
		t.Fatalf("notify says %q", said)
	}
	for _, end := range []func(){func() { desk.StopDaemon() }, func() { desk.KillDaemon() }} {
		end()
		desk.Acpd = desk.StartProcess(append([]string{"sh", "-c", `ulimit -S -f 0; exec "$@"`, "sh"}, desk.DaemonCommand()...)...)
		desk.AwaitReady()
		desk.connected(laptop)
		for _, verb := range [][]string{{"peers"}, {"tasks"}, {"ping", "laptop", "-c", "1"}, {"channel", "list"}, {"oacp", "queue"}} {
			desk.MustOutput(verb...)
		}
		if said := desk.MustOutput("inbox"); !strings.Contains(said, "before 1") {
			t.Errorf("inbox shows %q", said)
		}
		serving := desk.serve("reviewer", "--prompt", "--", "cat")
		if said := laptop.MustOutput("query", "desk", "there?"); said != "there?\n" {
			t.Errorf("query says %q", said)
		}
		serving.Stop()
		laptop.RunAcpctl(7, "notify", "desk", "meanwhile", "1")
		desk.limitFiles(unix.RLIM_INFINITY)
		if said := laptop.MustOutput("notify", "desk", "after", "1"); said != "held\n" {
			t.Errorf("with space again, notify says %q", said)
		}
		desk.StopDaemon()
		desk.StartDaemon()
		if said := desk.MustOutput("inbox"); !strings.Contains(said, "before 1") || !strings.Contains(said, "after 1") || strings.Contains(said, "meanwhile") {
			t.Errorf("after another start the inbox shows %q", said)
		}
		desk.connected(laptop)
	}
}

// TestFirstStartOnAFullDisk fails, wherever the space ends, and leaves nothing that
// keeps the next start from success.
func TestFirstStartOnAFullDisk(t *testing.T) {
	t.Parallel()
	m := newMachine(t, "desk")
	for _, blocks := range []string{"0", "1", "8", "16"} {
		argv := append([]string{"sh", "-c", `ulimit -f "$1"; shift; exec "$@"`, "sh", blocks}, m.DaemonCommand()...)
		if stderr := live.StartProcess(t, live.NewEnviron(t, m.Home), argv...).AwaitFailure(1); !strings.HasPrefix(stderr, "acpd: ") || !strings.Contains(stderr, m.Home) || !strings.Contains(stderr, unix.EFBIG.Error()) {
			t.Errorf("with space for %s blocks: %q", blocks, stderr)
		}
	}
	key, err := os.ReadFile(filepath.Join(m.Home, "identity.key"))
	if err != nil {
		t.Fatalf("no start came so far as to make a key: %v", err)
	}
	m.StartDaemon()
	if after, err := os.ReadFile(filepath.Join(m.Home, "identity.key")); err != nil || string(after) != string(key) {
		t.Errorf("the key has changed: %v", err)
	}
}
