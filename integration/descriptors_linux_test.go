package integration

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/integration/await"
)

// limitDescriptors lets the running daemon open no more than n files and sockets.
func (m *machine) limitDescriptors(n uint64) {
	m.T.Helper()
	pid, limit := m.Acpd.Cmd.Process.Pid, unix.Rlimit{}
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &limit); err != nil {
		m.T.Fatal(err)
	}
	limit.Cur = n
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, &limit, nil); err != nil {
		m.T.Fatal(err)
	}
}

// descriptors returns how many files and sockets the daemon has open.
func (m *machine) descriptors() int {
	m.T.Helper()
	open, err := os.ReadDir(filepath.Join("/proc", strconv.Itoa(m.Acpd.Cmd.Process.Pid), "fd"))
	if err != nil {
		m.T.Fatal(err)
	}
	return len(open)
}

// TestFewDescriptors: with 64 of them, 200 local connections and an agent, the daemon
// serves its user, its agent and its peers, and ends when it is told to.
// holds: security.md#on-this-machine
func TestFewDescriptors(t *testing.T) {
	t.Parallel()
	desk, laptop := newMachine(t, "desk"), running(t, "laptop")
	desk.Acpd = desk.StartProcess(append([]string{"sh", "-c", `ulimit -n 64; exec "$@"`, "sh"}, desk.DaemonCommand()...)...)
	desk.AwaitReady()
	befriend(t, desk, laptop)
	desk.attach(client.AttachParams{Name: "reviewer"}, says("fine"))
	open := make([]*socket, 200)
	for i := range open {
		open[i] = desk.dial()
	}
	for range 3 {
		desk.MustOutput("whoami")
		desk.MustOutput("inbox")
		if said := laptop.MustOutput("query", "desk", "still there?"); said != "fine\n" {
			t.Errorf("query says %q", said)
		}
		if said := laptop.MustOutput("notify", "desk", "topic", "1"); said != "held\n" {
			t.Errorf("notify says %q", said)
		}
	}
	if n := desk.descriptors(); n > 60 {
		t.Errorf("%d descriptors are open", n)
	}
	desk.StopDaemon()
}

// TestNoDescriptors: while there are none the daemon goes on with what is connected,
// and who comes is told what was seen. When there are some again it takes them in.
// holds: security.md#on-this-machine
func TestNoDescriptors(t *testing.T) {
	t.Parallel()
	desk, laptop := friends(t)
	desk.attach(client.AttachParams{Name: "reviewer"}, says("fine"))
	desk.limitDescriptors(3)
	asking := time.Now()
	none := desk.RunAcpctl(6, "whoami").Stderr.String()
	await.CheckDuration(t, "whoami", time.Since(asking), 5*time.Second+slack)
	if !strings.Contains(none, "connected to "+desk.SocketPath()) || !strings.Contains(none, "has not answered for 5s") {
		t.Errorf("whoami says %q", none)
	}
	if said := laptop.MustOutput("query", "desk", "still there?"); said != "fine\n" {
		t.Errorf("query says %q", said)
	}
	desk.limitDescriptors(1024)
	desk.MustOutput("whoami")
	desk.limitDescriptors(3)
	desk.Acpd.Signal(unix.SIGTERM)
	desk.Acpd.AwaitEnd()
}

// TestSilentDaemon: what asks the own daemon alone gives up on one that stands still,
// and says what it saw; so does what asks others for as long as they like.
func TestSilentDaemon(t *testing.T) {
	t.Parallel()
	desk := running(t, "desk")
	id := strings.Repeat("1", 64)
	desk.MustOutput("trust", id, "--name", "laptop", "--yes")
	desk.Acpd.Signal(unix.SIGSTOP)
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
