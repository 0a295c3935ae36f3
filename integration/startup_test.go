package integration

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/integration/live"
)

// TestFirstStart prints the id, the address and the one next command; later ones
// print nothing. What is made is for the owner alone.
func TestFirstStart(t *testing.T) {
	t.Parallel()
	desk := running(t, "desk")
	want := fmt.Sprintf("New identity %s\nListening on %s\nConnect another machine: ACP_HOME=%s acpctl up\n", desk.ID, desk.Addr, desk.Home)
	await.Until(t, "it prints "+want, func() bool { return desk.Acpd.Stdout.String() == want })
	// The next command works as it was printed.
	_, next, _ := strings.Cut(want, "machine: ")
	p := live.StartProcess(t, live.NewEnviron(t, "/"), "sh", "-c", next)
	if said := p.AwaitExit(0); !strings.HasPrefix(said, "This machine is desk.\n") {
		t.Errorf("%s prints %q", next, said)
	}
	err := filepath.WalkDir(desk.Home, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %s", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	desk.StopDaemon()
	desk.StartDaemon()
	desk.StopDaemon()
	if got := desk.Acpd.Stdout.String(); got != "" {
		t.Errorf("the second start prints %q", got)
	}
}

// TestSecondDaemon on a directory is refused with the first one's pid, and the
// first does not notice.
func TestSecondDaemon(t *testing.T) {
	t.Parallel()
	desk := running(t, "desk")
	stderr := live.StartProcess(t, live.NewEnviron(t, desk.Home), desk.DaemonCommand()...).AwaitFailure(1)
	if want := fmt.Sprintf("the daemon with pid %d runs on %s", desk.Acpd.Cmd.Process.Pid, desk.Home); !strings.Contains(stderr, want) {
		t.Errorf("the second says %q, want %q", stderr, want)
	}
	if said := desk.MustOutput("whoami"); !strings.Contains(said, desk.ID.String()) {
		t.Errorf("the first says %q", said)
	}
	// Of many that start at the same time one wins.
	desk.KillDaemon()
	var many []*live.Process
	for range 8 {
		many = append(many, live.StartProcess(t, live.NewEnviron(t, desk.Home), desk.DaemonCommand()...))
	}
	await.Until(t, "all but one have ended", func() bool {
		n := 0
		for _, p := range many {
			if p.IsRunning() {
				n++
			}
		}
		return n == 1
	})
	desk.MustOutput("status", "--wait", "10s")
}

// TestBadStart: what stands in the way is named with its remedy, and nothing is
// lost or replaced.
func TestBadStart(t *testing.T) {
	t.Parallel()
	taken, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { taken.Close() }) // the subtests outlive this function
	_, port, _ := net.SplitHostPort(taken.LocalAddr().String())

	write := func(name, text string) func(*testing.T, string) {
		return func(t *testing.T, home string) {
			if err := os.WriteFile(filepath.Join(home, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	config := func(text string) func(*testing.T, string) { return write("config.yaml", text) }
	do := func(f func(home string) error) func(*testing.T, string) {
		return func(t *testing.T, home string) {
			if err := f(home); err != nil {
				t.Fatal(err)
			}
		}
	}
	key := func(home string) string { return filepath.Join(home, "identity.key") }

	for name, c := range map[string]struct {
		spoil func(*testing.T, string)
		flags []string
		exit  int
		want  []string
	}{
		"corrupt key":            {spoil: write("identity.key", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"), exit: 1, want: []string{"identity.key is corrupt", "backup"}},
		"empty key":              {spoil: write("identity.key", ""), exit: 1, want: []string{"identity.key is corrupt"}},
		"open key":               {spoil: do(func(h string) error { return os.Chmod(key(h), 0o644) }), exit: 1, want: []string{"mode 0644", "chmod 600"}},
		"key is a link":          {spoil: do(func(h string) error { os.Rename(key(h), h+"/key"); return os.Symlink(h+"/key", key(h)) }), exit: 1, want: []string{"is a symbolic link"}},
		"key is a fifo":          {spoil: do(func(h string) error { os.Rename(key(h), h+"/key"); return syscall.Mkfifo(key(h), 0o600) }), exit: 1, want: []string{"is not a regular file"}},
		"unknown setting":        {spoil: config("name: desk\nlistn: \":7117\"\n"), exit: 1, want: []string{"config.yaml:2:", "listn", "listen"}},
		"bad setting":            {spoil: config("log: {level: loud}\n"), exit: 1, want: []string{"config.yaml:1:", "loud", "debug"}},
		"not YAML":               {spoil: config("name: [desk\n"), exit: 1, want: []string{"config.yaml:"}},
		"taken port, configured": {spoil: config("listen: 127.0.0.1:" + port + "\n"), flags: []string{"--no-mdns"}, exit: 1, want: []string{"port " + port + " is taken", "listen"}},
		"taken port, flag":       {flags: []string{"--listen", "127.0.0.1:" + port}, exit: 1, want: []string{"port " + port + " is taken", "--listen"}},
		"socket is a file":       {spoil: write("acp.sock", "mine"), exit: 1, want: []string{"acp.sock is there and is no socket"}},
		"lock is a link":         {spoil: do(func(h string) error { os.Remove(h + "/lock"); return os.Symlink("/etc/passwd", h+"/lock") }), exit: 1, want: []string{"lock"}},
		"open directory":         {spoil: do(func(h string) error { return os.Chmod(h, 0o755) }), exit: 1, want: []string{"is open to others", "chmod 700"}},
		"damaged state":          {spoil: write("state.db", strings.Repeat("not a database ", 1000)), exit: 1, want: []string{"state.db"}},
		"long path":              {flags: []string{"--home", "/tmp/" + strings.Repeat("x", 120)}, exit: 1, want: []string{"bytes", "shorter", "--home"}},
		"home is a file":         {flags: []string{"--home", "/dev/null"}, exit: 1, want: []string{"/dev/null"}},
		"home in a file":         {flags: []string{"--home", "/dev/null/home"}, exit: 1, want: []string{"/dev/null", "--home"}},
		"bad name":               {flags: []string{"--name", "Desk"}, exit: 2, want: []string{"--name", "lower-case"}},
		"bad address":            {flags: []string{"--listen", "7117"}, exit: 2, want: []string{"--listen", "host:port"}},
		"bad port":               {flags: []string{"--listen", "127.0.0.1:port"}, exit: 2, want: []string{"--listen"}},
		"unknown flag":           {flags: []string{"--hom", "x"}, exit: 2, want: []string{"--hom"}},
		"argument":               {flags: []string{"start"}, exit: 2, want: []string{"start"}},
		"loud and quiet":         {flags: []string{"-v", "-q"}, exit: 2, want: []string{"verbose", "quiet"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := running(t, "desk")
			m.StopDaemon()
			if c.spoil != nil {
				c.spoil(t, m.Home)
			}
			before := content(t, key(m.Home))
			argv := append([]string{live.ProgramPath(t, "acpd"), "--home", m.Home}, c.flags...)
			if c.flags == nil {
				argv = append(argv, "--no-mdns", "--listen", "127.0.0.1:0")
			}
			p := live.StartProcess(t, live.NewEnviron(t, m.Home), argv...)
			stderr := p.AwaitFailure(c.exit)
			await.CheckDuration(t, "refusal", p.Took, 5*time.Second+slack)
			for _, want := range c.want {
				if !strings.Contains(stderr, want) {
					t.Errorf("says %q, want %q in it", stderr, want)
				}
			}
			if lines := strings.Count(stderr, "\n"); lines > 3 || !strings.HasPrefix(stderr, "acpd: ") {
				t.Errorf("says in %d lines: %q", lines, stderr)
			}
			if after := content(t, key(m.Home)); after != before {
				t.Errorf("the key has changed")
			}
		})
	}
}

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

// TestDamagedTrust: one damaged file is made good by the other; with both gone
// nobody is trusted, and the files are kept for a person to look at.
func TestDamagedTrust(t *testing.T) {
	t.Parallel()
	desk := running(t, "desk")
	laptop := strings.Repeat("1", 64)
	desk.MustOutput("trust", laptop, "--name", "laptop", "--yes")
	for _, name := range []string{"trust.yaml", "trust.copy.yaml"} {
		desk.KillDaemon()
		if err := os.WriteFile(filepath.Join(desk.Home, name), []byte("peers: [damaged"), 0o600); err != nil {
			t.Fatal(err)
		}
		desk.StartDaemon()
		if said := desk.MustOutput("peers"); !strings.HasPrefix(said, "laptop\t") {
			t.Errorf("with a damaged %s: %s", name, said)
		}
		await.Until(t, "the log tells of "+name, func() bool { return strings.Contains(desk.Acpd.Stderr.String(), name) })
	}
	desk.KillDaemon()
	for _, name := range []string{"trust.yaml", "trust.copy.yaml"} {
		if err := os.WriteFile(filepath.Join(desk.Home, name), []byte("peers: [damaged"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	desk.StartDaemon()
	if said := desk.MustOutput("peers"); said != "" {
		t.Errorf("with both damaged: %s", said)
	}
	kept, err := filepath.Glob(filepath.Join(desk.Home, "trust*"))
	if err != nil || len(kept) < 4 {
		t.Errorf("the damaged files are not kept: %v, %v", kept, err)
	}
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

// TestNoDaemon: acpctl says how to start one, in a form that works.
func TestNoDaemon(t *testing.T) {
	t.Parallel()
	m := newMachine(t, "desk")
	for _, verb := range [][]string{{"whoami"}, {"status"}, {"query", "desk", "x"}, {"serve", "--", "cat"}, {"ping", "desk", "-c", "1"}} {
		stderr := m.StartAcpctl(verb...).AwaitFailure(6)
		if want := "start one with: acpctl up --home " + m.Home; !strings.Contains(stderr, want) {
			t.Errorf("%s says %q, want %q", verb[0], stderr, want)
		}
	}
	if said := m.RunAcpctl(6, "whoami", "--json").Stdout.String(); !strings.Contains(said, `{"error":{"code":"daemon_unavailable"`) || !strings.Contains(said, `"delivered":"no"`) {
		t.Errorf("as JSON: %s", said)
	}
	// A killed daemon leaves its socket.
	m.StartDaemon()
	m.KillDaemon()
	if stderr := m.StartAcpctl("whoami").AwaitFailure(6); !strings.Contains(stderr, "start one with: acpctl up") {
		t.Errorf("after a kill: %q", stderr)
	}
	long := "/tmp/" + strings.Repeat("x", 120)
	if stderr := m.StartAcpctl("whoami", "--home", long).AwaitFailure(6); !strings.Contains(stderr, "shorter") {
		t.Errorf("a path that is too long: %q", stderr)
	}
}

// TestForbiddenSocket: a sandbox, or a permission, is named as such and not taken
// for a daemon that is not there.
func TestForbiddenSocket(t *testing.T) {
	t.Parallel()
	desk := running(t, "desk")
	forbid(t, desk.SocketPath())
	p := live.PrepareProcess(t, live.NewEnviron(t, "/"), live.ProgramPath(t, "acpctl"), "--home", desk.Home, "whoami")
	asNobody(p)
	p.Start()
	if stderr := p.AwaitFailure(6); !strings.Contains(stderr, "sandbox or file permission forbids") || strings.Contains(stderr, "start one") {
		t.Errorf("says %q", stderr)
	}
}

// TestForeignHome: a directory that is another's, or cannot be used, is refused.
func TestForeignHome(t *testing.T) {
	t.Parallel()
	m := newMachine(t, "desk")
	forbid(t, m.Home)
	p := live.PrepareProcess(t, live.NewEnviron(t, "/"), m.DaemonCommand()...)
	asNobody(p)
	p.Start()
	if stderr := p.AwaitFailure(1); !strings.Contains(stderr, m.Home) || !strings.Contains(stderr, "permission denied") && !strings.Contains(stderr, "belongs to user") {
		t.Errorf("says %q", stderr)
	}
	if err := os.Chmod(m.Home, 0o700); err != nil {
		t.Fatal(err)
	}
	if files, err := os.ReadDir(m.Home); err != nil || len(files) > 0 {
		t.Errorf("left behind: %v, %v", files, err)
	}
}

// forbid takes all permissions from a file, until the test ends.
func forbid(t *testing.T, path string) {
	t.Helper()
	if err := os.Chmod(path, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Chmod(path, 0o700) })
}

// asNobody makes a process one of a user whom permissions concern. They do not
// concern root.
func asNobody(p *live.Process) {
	if os.Geteuid() == 0 {
		p.Cmd.SysProcAttr.Credential = &syscall.Credential{Uid: 65534, Gid: 65534}
	}
}

// TestNameOfAnAgentIsTaken: a second one is refused and the first one stays.
func TestNameOfAnAgentIsTaken(t *testing.T) {
	t.Parallel()
	desk := running(t, "desk")
	desk.attach(client.AttachParams{Name: "reviewer"}, says("first"))
	p := desk.StartAcpctl("serve", "--name", "reviewer", "--", "cat")
	if stderr := p.AwaitFailure(1); !strings.Contains(stderr, "reviewer is attached already") || !strings.Contains(stderr, "--name") {
		t.Errorf("a second agent of the name: %q", stderr)
	}
	if desk.agent("reviewer") == nil {
		t.Error("the first one is gone")
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
