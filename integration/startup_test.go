package integration

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/integration/live"
)

// content returns a file's type, and its bytes if it is a regular file.
func content(t *testing.T, path string) string {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	if !info.Mode().IsRegular() {
		return info.Mode().String()
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode().String() + string(text)
}

// TestLostTrust: that both files are gone is told at the start and by status, until
// somebody is trusted; a first start has nothing to tell.
// holds: security.md#at-rest
func TestLostTrust(t *testing.T) {
	t.Parallel()
	desk := running(t, "desk")
	const gone = "neither trust.yaml nor trust.copy.yaml was there"
	if said := desk.MustOutput("status"); strings.Contains(said, gone) {
		t.Errorf("after a first start: %s", said)
	}
	for range 2 { // it is told again
		desk.KillDaemon()
		for _, name := range []string{"trust.yaml", "trust.copy.yaml"} {
			if err := os.Remove(filepath.Join(desk.Home, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
		}
		desk.StartDaemon()
		if said := desk.MustOutput("status"); !strings.Contains(said, "warning\t"+gone) {
			t.Errorf("status does not say that trust is gone: %s", said)
		}
		await.Until(t, "the log tells", func() bool { return strings.Contains(desk.Acpd.Stderr.String(), gone) })
	}
	desk.MustOutput("trust", strings.Repeat("1", 64), "--name", "laptop", "--yes")
	if said := desk.MustOutput("status"); strings.Contains(said, gone) {
		t.Errorf("with a peer: %s", said)
	}
}

// TestDaemonBeginsSmall: what the packages of acpd allocate before main, which every daemon pays for
// what it may never use. A regular expression with a bounded repetition costs as many copies of what is
// repeated.
func TestDaemonBeginsSmall(t *testing.T) {
	t.Parallel()
	const most, mostOfOne = 400_000, 48 << 10 // bytes
	p := live.StartProcess(t, live.NewEnviron(t, t.TempDir(), "GODEBUG=inittrace=1"), live.ProgramPath(t, "acpd"), "--version")
	p.AwaitExit(0)
	var sum, packages int
	for line := range strings.Lines(p.Stderr.String()) {
		var name string
		var at, clock float64
		var bytes, count int
		if n, _ := fmt.Sscanf(line, "init %s @%f ms, %f ms clock, %d bytes, %d allocs", &name, &at, &clock, &bytes, &count); n != 5 {
			t.Fatalf("expected what a package allocates: %q", line)
		}
		if sum, packages = sum+bytes, packages+1; bytes > mostOfOne {
			t.Errorf("%s allocates %d bytes, of at most %d", name, bytes, mostOfOne)
		}
	}
	if packages == 0 || sum > most {
		t.Errorf("%d packages allocate %d bytes, of at most %d", packages, sum, most)
	}
}

// TestSilentDaemon: what asks only the own daemon gives up on one that stands still, and says what it saw; so does
// what asks others for as long as they like.
// and says what it saw; so does what asks others for as long as they like.
func TestSilentDaemon(t *testing.T) {
	t.Parallel()
	desk := running(t, "desk")
	id := strings.Repeat("1", 64)
	desk.MustOutput("trust", id, "--name", "laptop", "--yes")
	desk.Acpd.Signal(syscall.SIGSTOP)
	verbs := [][]string{
		{"wait", "3f2b8c1e-6f0a-4d3c-9e57-0c1d2e3f4a5b"}, {"ping", "laptop", "-c", "3"}, {"discover", "laptop"}, {"notify", "laptop", "build.status", "green"},
		{"whoami"}, {"status"}, {"peers"}, {"tasks"}, {"inbox"}, {"inbox", "--ack", "1"}, {"invite"}, {"trust", id, "--yes"}, {"untrust", id},
		{"serve", "--", "true"}, {"oacp", "queue"}, {"oacp", "bindings"}, {"channel", "list"},
	}
	for _, verb := range verbs {
		t.Run(strings.Join(verb, " "), func(t *testing.T) {
			t.Parallel()
			p := desk.StartAcpctl(verb...)
			if said := p.AwaitFailure(6); !strings.Contains(said, "has not answered for 5s") {
				t.Errorf("says %q", said)
			}
		})
	}
	for _, verb := range []string{"query", "delegate"} {
		t.Run(verb, func(t *testing.T) {
			t.Parallel()
			p := desk.StartAcpctl(verb, "laptop", "--deadline", "1s", "Still there?")
			if said := p.AwaitFailure(6); !strings.Contains(said, "has not answered for 3s") {
				t.Errorf("says %q", said)
			}
		})
	}
}
