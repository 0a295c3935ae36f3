package pipe

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/acpd/acpd/integration/await"
)

// A command that ignores TERM, and its children, are killed; also those that outlive it.
// holds: security.md#against-strangers
func TestNothingIsLeft(t *testing.T) {
	for _, command := range []string{"stubborn", "leaves"} {
		t.Run(command, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "pid")
			l := startLab(t, nil, command, file)
			addr, release := l.open()
			l.WriteTo([]byte("end"), addr)
			var pid int
			await.Until(t, "the child runs", func() bool {
				text, err := os.ReadFile(file)
				pid, _ = strconv.Atoi(string(text))
				return err == nil && pid > 0
			})
			began := time.Now()
			release()
			l.stop()
			if took := time.Since(began); took > 20*time.Second {
				t.Errorf("the end took %v", took)
			}
			await.Until(t, "the child is gone", func() bool { return !isRunning(pid) })
		})
	}
}

// isRunning reports whether a process is there and no zombie.
func isRunning(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(after, "Z") && !strings.HasPrefix(after, "X")
}

// The daemon that is killed takes its commands with it, also one that reads nothing.
// holds: security.md#against-strangers
func TestKilledDaemon(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "pid")
	cmd := exec.Command(exe, fakeMark, "daemon", exe, fakeMark, "stubborn", file)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 5)
	if _, err := out.Read(line); err != nil || string(line) != "open\n" {
		t.Fatalf("%q, %v", line, err)
	}
	child := 0
	children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", cmd.Process.Pid, cmd.Process.Pid))
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		stat, _ := os.ReadFile("/proc/" + e.Name() + "/stat")
		if _, after, ok := strings.Cut(string(stat), ") "); ok && strings.Fields(after)[1] == strconv.Itoa(cmd.Process.Pid) {
			child, _ = strconv.Atoi(e.Name())
		}
	}
	if child == 0 {
		t.Fatalf("no command runs: %s", children)
	}
	await.Until(t, "the grandchild runs", func() bool { text, err := os.ReadFile(file); return err == nil && len(text) > 0 })
	cmd.Process.Kill()
	cmd.Wait()
	await.Until(t, "the command is gone", func() bool { return !isRunning(child) })
	text, _ := os.ReadFile(file)
	if pid, _ := strconv.Atoi(string(text)); pid > 0 {
		syscall.Kill(pid, syscall.SIGKILL) // which the kernel leaves: it is not the daemon's child
	}
}

// holds: security.md#against-strangers
func TestWhatCommandIsGiven(t *testing.T) {
	t.Setenv("ACP_HOME", "/elsewhere")
	t.Setenv("NOTIFY_SOCKET", "/run/notify")
	t.Setenv("SSH_ASKPASS_REQUIRE", "force")
	t.Setenv("SSH_AUTH_SOCK", "/run/agent")
	file := filepath.Join(t.TempDir(), "given")
	l := startLab(t, nil, "where", file, "$HOME;id", "*", "")
	_, release := l.open()
	defer release()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	if want := fmt.Sprint([]string{"$HOME;id", "*", ""}); lines[0] != want {
		t.Errorf("its arguments are %s, want %s", lines[0], want)
	}
	if ids := strings.Fields(lines[1]); ids[0] != ids[1] {
		t.Errorf("pid %s is in group %s", ids[0], ids[1])
	}
	if lines[2] == "<nil>" {
		t.Error("it has a terminal")
	}
	env := lines[3:]
	if !slices.Contains(env, "SSH_ASKPASS_REQUIRE=never") || !slices.Contains(env, "SSH_AUTH_SOCK=/run/agent") {
		t.Errorf("its environment: %q", env)
	}
	for _, v := range env {
		if strings.HasPrefix(v, "ACP_") || strings.HasPrefix(v, "NOTIFY_SOCKET") || v == "SSH_ASKPASS_REQUIRE=force" {
			t.Errorf("its environment has %s", v)
		}
	}
}

// lateWords is a command whose standard error is read only when it is ended.
type lateWords struct {
	process
	ended atomic.Bool
}

func (p *lateWords) end() string {
	defer p.ended.Store(true)
	return p.process.end()
}

func (p *lateWords) words() string {
	if !p.ended.Load() {
		return ""
	}
	return p.process.words()
}

// TestLastWords: what a command has said before its end is quoted, however late it is read.
func TestLastWords(t *testing.T) {
	late := func(l *Link) {
		start := l.start
		l.start = func(argv []string) (process, error) {
			p, err := start(argv)
			return &lateWords{process: p}, err
		}
	}
	startLab(t, late, "exit", "255", "no route").fails("ended with exit code 255; it says: no route$")
}
