package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/integration/live"
)

// newcomer is somebody with acpd, acpctl and two agent programs, on a machine without a service manager.
type newcomer struct {
	t                *testing.T
	user, home, path string
	env              []string
}

func newNewcomer(t *testing.T, name string) *newcomer {
	t.Helper()
	user := live.MakeTempDir(t)
	n := &newcomer{t: t, user: user, home: filepath.Join(user, ".acp"), path: filepath.Join(user, "bin")}
	if err := os.Mkdir(n.path, 0o755); err != nil {
		t.Fatal(err)
	}
	acpctl, err := exec.LookPath("acpctl")
	if err != nil {
		t.Fatal(err)
	}
	for file, target := range map[string]string{"acpctl": acpctl, "acpd": live.ProgramPath(t, "acpd")} {
		if err := os.Symlink(target, filepath.Join(n.path, file)); err != nil {
			t.Fatal(err)
		}
	}
	for _, program := range []string{"claude", "codex"} {
		if err := os.WriteFile(filepath.Join(n.path, program), []byte("#!/bin/sh\necho 1.2.3\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(n.home, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(n.home, "config.yaml"), []byte("name: "+name+"\nlisten: 127.0.0.1:0\ndiscovery: {mdns: off}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.run("drain", "--timeout", "1ms") })
	n.env = []string{"HOME=" + user, "PATH=" + n.path, "TERM=dumb", "GORACE=atexit_sleep_ms=0"}
	return n
}

// run runs acpctl as a script does.
func (n *newcomer) run(args ...string) string {
	cmd := exec.Command(filepath.Join(n.path, "acpctl"), args...)
	cmd.Env, cmd.Dir = n.env, n.user
	out, _ := cmd.CombinedOutput()
	return string(out)
}

// upScreen is a terminal at which acpctl up runs.
type upScreen struct {
	t     *testing.T
	cmd   *exec.Cmd
	keys  *os.File
	ended chan struct{}

	mu   sync.Mutex // guards the rest
	seen string
	read int // what was waited for ends here
}

// up runs acpctl up at a terminal of its own.
func (n *newcomer) up(args ...string) *upScreen {
	n.t.Helper()
	master, slave, err := live.OpenTerminal(50, 300)
	if err != nil {
		n.t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(n.path, "acpctl"), append([]string{"up"}, args...)...)
	cmd.Env, cmd.Dir = n.env, n.user
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	slave.Close()
	s := &upScreen{t: n.t, cmd: cmd, keys: master, ended: make(chan struct{})}
	go func() { // ends with the last who has the terminal, or when it is closed
		defer close(s.ended)
		for b := make([]byte, 4096); ; {
			count, err := master.Read(b)
			s.mu.Lock()
			s.seen += string(b[:count])
			s.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	n.t.Cleanup(func() {
		cmd.Process.Kill()
		master.Close()
		<-s.ended
	})
	return s
}

// shows waits until a pattern is shown behind what was waited for before, and returns what it matches. A space of the
// pattern may be where up breaks a line.
func (s *upScreen) shows(pattern string) (found string) {
	s.t.Helper()
	expression := regexp.MustCompile(strings.NewReplacer(" ?", `\s*`, " ", `\s+`).Replace(pattern))
	await.Until(s.t, "up shows "+pattern, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		at := expression.FindStringIndex(s.seen[s.read:])
		if at == nil {
			select {
			case <-s.ended:
				s.t.Fatalf("up has ended before it showed %s:\n%s", pattern, s.seen)
			default:
			}
			return false
		}
		found = s.seen[s.read:][at[0]:at[1]]
		s.read += at[1]
		return true
	})
	return found
}

func (s *upScreen) types(keys string) {
	s.t.Helper()
	if _, err := s.keys.WriteString(keys); err != nil {
		s.t.Fatal(err)
	}
}

// answers answers a question, once it is shown.
func (s *upScreen) answers(question, keys string) {
	s.t.Helper()
	s.shows(question)
	s.types(keys)
}

// ends waits until up has ended with that code.
func (s *upScreen) ends(code int) {
	s.t.Helper()
	await.Receive(s.t, "the end of up", s.ended)
	err := s.cmd.Wait()
	failed, _ := errors.AsType[*exec.ExitError](err)
	if got := s.cmd.ProcessState.ExitCode(); got != code || err != nil && failed == nil {
		s.t.Errorf("exit code %d, want %d: %v\n%s", got, code, err, s.seen)
	}
}

const (
	yesOrNo = `Type yes or no:`
	aPeer   = `press Enter to make one:`
	mayWake = `Type yes, ask or no:`
)

// Two people type acpctl up on two machines, and what their answers say is so afterwards: the daemons outlive the terminals,
// trust each other, the programs are connected, and one peer may wake one session. Typed again it asks for nothing.
func TestUpOnTwoMachines(t *testing.T) {
	t.Parallel()
	desk, laptop := newNewcomer(t, "desk"), newNewcomer(t, "laptop")
	d := desk.up()
	d.shows("acpd runs, and this machine is desk")
	for range 10 { // the questions of setup, of two programs
		d.answers(yesOrNo, "y\n")
	}
	d.answers(aPeer, "\n")
	line := d.shows(`acp://\S+`)
	if len(line) > 220 {
		t.Errorf("the line has %d characters", len(line))
	}
	d.shows("q leaves it")

	l := laptop.up("--yes")
	l.answers(aPeer, "acp://nonsense\n\n") // and no more of it
	l.answers(aPeer, line[:80]+"\n"+line[80:]+"\n")
	for range 20 { // what is pasted behind the line is no answer, however slowly it comes
		l.types("z\ny\n")
		time.Sleep(5 * time.Millisecond) // the pace of a paste over ssh: at once, the kernel would have all of it to discard
	}
	l.answers(`This makes desk \(claimed name\), fingerprint ([0-9a-f]{4} ?){8}, a trusted peer: its agents may send messages to yours\. Trust it\? Type yes or no:`, "y\n")
	l.shows(`May desk's questions begin a turn of your sessions\?`)
	l.answers(mayWake, "\n") // there is no default
	l.answers(mayWake, "y\n")
	l.shows(`desk answers in [0-9.]+ ms, and has no agent yet`)
	l.shows(`At desk, start a program that acpctl setup has connected, or acpctl serve\. Then: Say to Claude Code: Ask desk which branch`)
	l.ends(0)

	d.shows(`\x07\r\nlaptop \(claimed name\), fingerprint ([0-9a-f]{4} ?){8}, has joined by this line`)
	d.answers(mayWake, "a\n")
	d.shows("Its questions may begin a turn of Codex .every session. after your yes")
	d.ends(0)

	for n, want := range map[*newcomer]string{desk: "laptop\tquery\tevery session\tafter acpctl approvals\twake.yaml\n", laptop: "desk\tquery\tevery session\tat once\twake.yaml\n"} {
		if got := n.run("wake", "list"); got != want {
			t.Errorf("wake list: %q, want %q", got, want)
		}
		if got := n.run("setup"); strings.Count(got, "\tyes\t") != 2 {
			t.Errorf("setup: %s", got)
		}
		if info, err := os.Stat(filepath.Join(n.home, "acpd.log")); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the log: %v, %v", info, err)
		}
	}
	if settings, err := os.ReadFile(filepath.Join(laptop.user, ".claude/settings.json")); err != nil || strings.Contains(string(settings), "\n      \"mcp__acp__acp_query") {
		t.Errorf("--yes lets the model send unasked: %v\n%s", err, settings)
	}
	again := laptop.up()
	again.ends(0)
	if got := desk.run("drain"); !strings.Contains(got, "so has the daemon") {
		t.Errorf("drain: %s", got)
	}
	again = laptop.up()
	again.shows("desk does not answer now: acpctl ping desk says why")
	again.ends(0)
	files := func() (all string) {
		for _, path := range []string{".claude.json", ".claude/settings.json", ".claude/CLAUDE.md", ".codex/config.toml", ".acp/config.yaml", ".acp/wake.yaml", ".acp/trust.yaml"} {
			text, err := os.ReadFile(filepath.Join(desk.user, path))
			if err != nil {
				t.Error(err)
			}
			all += path + "\n" + string(text)
		}
		return all
	}
	before := files()
	again = desk.up() // it starts the daemon anew
	again.ends(0)
	if after := files(); after != before {
		t.Errorf("up changes settings that are there:\n%s\nthen\n%s", before, after)
	}
}

// Whoever interrupts up at any question loses nothing, and goes on there the next time.
func TestUpIsInterrupted(t *testing.T) {
	t.Parallel()
	n := newNewcomer(t, "desk")
	who := func() string { return regexp.MustCompile(`(?m)^id\t.*$`).FindString(n.run("whoami")) }
	interrupt := func(at string, before ...string) {
		t.Helper()
		s := n.up()
		for _, keys := range before {
			s.answers(yesOrNo, keys)
		}
		s.answers(at, "\x03")
		s.ends(130)
	}
	interrupt(yesOrNo)
	first := who()
	if first == "" {
		t.Fatal("the daemon has gone with the terminal")
	}
	interrupt(yesOrNo, "y\n", "y\n")
	if _, err := os.Stat(filepath.Join(n.user, ".claude.json")); err == nil {
		t.Error("half of setup is written")
	}
	interrupt("Codex is installed(?s:.*)"+yesOrNo, "y\n", "y\n", "n\n", "n\n", "y\n") // before the question, up discards keys
	s := n.up("--yes")
	s.shows("Claude Code is connected")
	s.answers(aPeer, "\x03")
	s.ends(130)
	s = n.up()
	s.shows("Codex is connected")
	s.answers(aPeer, "\n")
	s.answers("q leaves it", "\x03")
	s.shows(`interrupted; the line works until [0-9:]+; acpctl invite --revoke all ends it`)
	s.ends(130)
	if got := n.run("invite", "--list"); strings.Count(got, "\n") != 1 {
		t.Errorf("invite --list: %s", got)
	}
	s = n.up()
	s.answers(aPeer, "\n")
	s.answers("q leaves it", "q\n")
	s.shows(`Left out: nobody has joined yet: the line works until`)
	s.ends(0)
	s = n.up()
	s.answers(aPeer, "\x04") // the end of input
	s.ends(0)
	if now := who(); now != first {
		t.Errorf("another daemon: %s, then %s", first, now)
	}
}
