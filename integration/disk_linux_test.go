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
	if said := laptop.Must("notify", "desk", "before", "1"); said != "held\n" {
		t.Fatalf("notify says %q", said)
	}
	desk.limitFiles(0)
	said := laptop.Run(7, "notify", "desk", "meanwhile", "1", "--json").Stdout.String()
	if !strings.Contains(said, `"code":"internal"`) || strings.Contains(said, desk.Home) {
		t.Errorf("who notifies is told %s", said)
	}
	// Reading needs no space; removing does, and takes what was read alone.
	for range 2 {
		if said := desk.Must("inbox"); !strings.Contains(said, "before 1") || strings.Count(said, "\n") != 1 {
			t.Errorf("on a full disk the inbox shows %q", said)
		}
	}
	desk.Run(1, "inbox", "--ack", "99")
	await.Until(t, "the log says why", func() bool { return strings.Contains(desk.Acpd.Stderr.String(), "state.db") })
	for _, verb := range [][]string{{"trust", stranger, "--yes"}, {"untrust", "laptop"}, {"delegate", "laptop", "x"}} {
		desk.Run(1, verb...)
	}
	desk.Must("whoami")
	desk.Must("ping", "laptop", "-c", "1")
	if after := content(t, trust); after != before {
		t.Errorf("the trust store has changed from\n%s\nto\n%s", before, after)
	}
	desk.limitFiles(unix.RLIM_INFINITY)
	if said := laptop.Must("notify", "desk", "after", "1"); said != "held\n" {
		t.Errorf("notify says %q", said)
	}
	if said := desk.Must("inbox", "--ack", "99"); said != "1 removed\n" {
		t.Errorf("what was read while the disk was full: %q", said)
	}
	desk.Kill()
	desk.Start()
	inbox := desk.Must("inbox")
	if strings.Contains(inbox, "before 1") || !strings.Contains(inbox, "after 1") || strings.Contains(inbox, "meanwhile") {
		t.Errorf("inbox: %s", inbox)
	}
	desk.connected(laptop)
}

// TestFirstStartOnAFullDisk fails, wherever the space ends, and leaves nothing that
// keeps the next start from success.
func TestFirstStartOnAFullDisk(t *testing.T) {
	t.Parallel()
	m := newMachine(t, "desk")
	for _, blocks := range []string{"0", "1", "8", "16"} {
		argv := append([]string{"sh", "-c", `ulimit -f "$1"; shift; exec "$@"`, "sh", blocks}, m.Command()...)
		if stderr := live.Begin(t, live.Environ(t, m.Home), argv...).Fails(1); !strings.HasPrefix(stderr, "acpd: ") || !strings.Contains(stderr, m.Home) || !strings.Contains(stderr, unix.EFBIG.Error()) {
			t.Errorf("with space for %s blocks: %q", blocks, stderr)
		}
	}
	key, err := os.ReadFile(filepath.Join(m.Home, "identity.key"))
	if err != nil {
		t.Fatalf("no start came so far as to make a key: %v", err)
	}
	m.Start()
	if after, err := os.ReadFile(filepath.Join(m.Home, "identity.key")); err != nil || string(after) != string(key) {
		t.Errorf("the key has changed: %v", err)
	}
}
