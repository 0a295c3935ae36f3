//go:build interop

package interop

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/integration/live"
)

// sshServer is OpenSSH's sshd on loopback, with a host key, a configuration and a client's key of
// its own.
type sshServer struct {
	dir, port string
	sshd      *live.Process
}

// startSSHServer starts a server into which the user of this process may log in.
func startSSHServer(t *testing.T) *sshServer {
	t.Helper()
	program, err := exec.LookPath("sshd")
	if err != nil {
		if program, err = exec.LookPath("/usr/sbin/sshd"); err != nil {
			t.Fatalf("sshd is missing: install openssh-server (%v)", err)
		}
	}
	s := &sshServer{dir: live.MakeTempDir(t)}
	for _, name := range []string{"host", "client"} {
		if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", filepath.Join(s.dir, name)).CombinedOutput(); err != nil {
			t.Fatalf("ssh-keygen: %v\n%s", err, out)
		}
	}
	_, s.port, _ = net.SplitHostPort(live.PickTCPAddr(t))
	host, err := os.ReadFile(filepath.Join(s.dir, "host.pub"))
	if err != nil {
		t.Fatal(err)
	}
	s.write(t, "known_hosts", "[127.0.0.1]:"+s.port+" "+string(host))
	s.write(t, "sshd_config", strings.Join([]string{
		"ListenAddress 127.0.0.1:" + s.port, "HostKey " + s.path("host"), "AuthorizedKeysFile " + s.path("client.pub"),
		"PidFile none", "StrictModes no", "PasswordAuthentication no", "KbdInteractiveAuthentication no", "UsePAM no",
		"PermitRootLogin prohibit-password", "Banner " + s.path("banner"),
	}, "\n")+"\n")
	s.write(t, "banner", "All use of this machine is welcome.\n")
	if os.Geteuid() == 0 { // where sshd drops its rights
		if err := os.MkdirAll("/run/sshd", 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s.sshd = live.StartProcess(t, os.Environ(), program, "-D", "-e", "-f", s.path("sshd_config"))
	await.Until(t, "sshd listens", func() bool {
		if !s.sshd.IsRunning() {
			t.Fatalf("sshd ended: %s", s.sshd.Stderr.String())
		}
		c, err := net.Dial("tcp", "127.0.0.1:"+s.port)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	return s
}

func (s *sshServer) path(name string) string { return filepath.Join(s.dir, name) }

func (s *sshServer) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(s.path(name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// command is ssh into the server, and there acpctl pipe of a machine.
func (s *sshServer) command(t *testing.T, to *live.Machine) []string {
	t.Helper()
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	return []string{
		"ssh", "-F", "none", "-p", s.port, "-i", s.path("client"), "-o", "IdentitiesOnly=yes", "-o", "UserKnownHostsFile=" + s.path("known_hosts"),
		"-l", me.Username, "127.0.0.1", to.ProgramPath("acpctl"), "--home", to.Home, "pipe",
	}
}

// writePipe has a machine reach another one by a command.
func writePipe(t *testing.T, m *live.Machine, other string, argv []string) {
	t.Helper()
	var words []string
	for _, word := range argv {
		words = append(words, strconv.Quote(word))
	}
	text := fmt.Sprintf("peers: {%s: {pipe: [%s]}}\n", other, strings.Join(words, ", "))
	if err := os.WriteFile(filepath.Join(m.Home, "config.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// findChildren returns the processes that a process has started.
func findChildren(t *testing.T, parent int) (all []int) {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		pid, _ := strconv.Atoi(e.Name())
		if of, state, err := readStat(pid); err == nil && of == parent && state != "Z" {
			all = append(all, pid)
		}
	}
	return all
}

// readStat returns the parent and the state of a process (proc_pid_stat(5)).
func readStat(pid int) (parent int, state string, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, "", err
	}
	_, after, _ := strings.Cut(string(text), ") ")
	_, err = fmt.Sscan(after, &state, &parent)
	return parent, state, err
}

func TestCallsThroughSSH(t *testing.T) {
	server := startSSHServer(t)
	desk, build := live.NewMachine(t, "desk"), live.NewMachine(t, "build")
	build.StartDaemon()
	writePipe(t, desk, "build", server.command(t, build))
	desk.StartDaemon()
	desk.Trust(build)
	build.Trust(desk)
	begun := filepath.Join(live.MakeTempDir(t), "begun")
	build.Serve("worker", "--prompt", "--", "sh", "-c", `read q; test "$q" != slow || { echo >"$1"; sleep 60; }; echo "done: $q"`, "sh", begun)
	desk.Serve("worker", "--prompt", "--", "sh", "-c", `read q; echo "seen: $q"`)
	if said := desk.MustOutput("query", "build", "tests"); said != "done: tests\n" {
		t.Errorf("query: %q", said)
	}
	if said := build.MustOutput("query", "desk", "back"); said != "seen: back\n" {
		t.Errorf("query back: %q", said)
	}
	desk.RunAcpctl(0, "notify", "build", "ci.done", "{}")
	id := strings.TrimSpace(desk.MustOutput("delegate", "build", "Tidy up."))
	if said := desk.MustOutput("wait", id); said != "done: Tidy up.\n" {
		t.Errorf("delegation: %q", said)
	}

	// acpctl pipe, which sshd has started, is killed in the middle of a call.
	call := desk.StartAcpctl("query", "build", "slow")
	await.Until(t, "the call is there", func() bool { _, err := os.Stat(begun); return err == nil })
	for _, pid := range findPipes(t, build.Home) {
		syscall.Kill(pid, syscall.SIGKILL)
	}
	if said := call.AwaitFailure(5); !strings.Contains(said, "delivered: unknown") {
		t.Errorf("the call says %q", said)
	}
	if said := desk.MustOutput("query", "build", "again"); said != "done: again\n" {
		t.Errorf("the next call says %q", said)
	}
	children := findChildren(t, desk.Acpd.Cmd.Process.Pid)
	if len(children) != 1 {
		t.Errorf("the daemon has %d children, want ssh alone", len(children))
	}
	desk.StopDaemon()
	await.Until(t, "nothing is left on build", func() bool { return len(findPipes(t, build.Home)) == 0 })
	for _, pid := range children { // whoever is the parent of orphans reaps them when it may
		if _, state, err := readStat(pid); err == nil && state != "Z" && state != "X" {
			t.Errorf("ssh (%d) has outlived the daemon", pid)
		}
	}
}

// findPipes returns the processes of acpctl pipe for a home, but for ssh that names it.
func findPipes(t *testing.T, home string) (all []int) {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		text, _ := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		words := strings.Split(strings.TrimRight(string(text), "\x00"), "\x00")
		if len(words) == 4 && words[2] == home && words[3] == "pipe" {
			pid, _ := strconv.Atoi(e.Name())
			all = append(all, pid)
		}
	}
	return all
}
