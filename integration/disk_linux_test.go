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

// TestUntrustOnAFullDisk: the peer that filled the disk is cut off at once. What could
// not be written is named, and written when there is space again.
// holds: security.md#against-trusted-peers
func TestUntrustOnAFullDisk(t *testing.T) {
	t.Parallel()
	desk, laptop := friends(t)
	trust := filepath.Join(desk.Home, "trust.yaml")
	blocked := func() bool { return strings.Contains(content(t, trust), "blocked:") }
	laptop.Serve("worker", "--", "sleep", "60")
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
		return strings.Contains(log, "trust store: on disk again") && strings.Contains(log, "all that it left is removed")
	})
	if e := desk.RunAcpctl(0, "untrust", laptop.ID.String()).Stderr.String(); e != "acpctl untrust: laptop is blocked already\n" {
		t.Errorf("all is on disk, and untrust says %q", e)
	}
	desk.KillDaemon()
	desk.StartDaemon()
	laptop.RunAcpctl(4, "ping", "desk", "-c", "1")
	desk.MustOutput("trust", laptop.ID.String(), "--yes")
	live.AwaitConnection(desk.Machine, laptop.Machine)
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
