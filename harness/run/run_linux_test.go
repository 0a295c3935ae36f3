package run

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/acpd/acpd/integration/await"
)

// leftOf returns the processes that have the mark in their environment.
func leftOf(t testing.TB, mark string) (left []string) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range all {
		if env, err := os.ReadFile(dir + "/environ"); err == nil && bytes.Contains(env, []byte(mark)) {
			cmdline, _ := os.ReadFile(dir + "/cmdline")
			left = append(left, dir+" "+strings.ReplaceAll(string(cmdline), "\x00", " "))
		}
	}
	return left
}

// A run sees its folder and nothing of the user's: not in the home, not above the folder, not
// behind a symbolic link, not in the state directory, neither to read nor to write.
// holds: security.md#headless-runs
func TestCanaries(t *testing.T) {
	each(t, func(t *testing.T, c Confinement) {
		home := realDir(t)
		t.Setenv("HOME", home)
		canary := filepath.Join(home, "canary")
		state := filepath.Join(home, ".acp")
		above := filepath.Join(home, "project")
		dir := filepath.Join(above, "dir")
		for _, d := range []string{state, above, dir, filepath.Join(home, "bin")} {
			if err := os.Mkdir(d, 0o700); err != nil {
				t.Fatal(err)
			}
		}
		write := func(path, text string, mode os.FileMode) {
			t.Helper()
			if err := os.WriteFile(path, []byte(text), mode); err != nil {
				t.Fatal(err)
			}
		}
		script := filepath.Join(home, "bin", "script")
		write(canary, "canary", 0o600)
		write(filepath.Join(above, "canary"), "canary", 0o600)
		write(filepath.Join(state, "identity.key"), "canary", 0o600)
		write(filepath.Join(dir, "own"), "own", 0o600)
		write(script, "#!/bin/sh\nexit 0\n", 0o700)
		if err := os.Symlink(canary, filepath.Join(dir, "link")); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("/", filepath.Join(dir, "root")); err != nil {
			t.Fatal(err)
		}
		socket := listenUnix(t, filepath.Join(state, "acp.sock"))
		abstract := listenUnix(t, "@acpd-test-"+strconv.Itoa(os.Getpid())+string(c))
		log := listenDatagrams(t, filepath.Join(home, "log.sock"))
		abstractLog := listenDatagrams(t, "@acpd-test-log-"+strconv.Itoa(os.Getpid())+string(c))
		inherited := inherit(t, canary)
		other := exec.Command("sleep", "60")
		if err := other.Start(); err != nil {
			t.Fatal(err)
		}
		defer other.Wait()
		defer other.Process.Kill()
		pid := strconv.Itoa(other.Process.Pid)

		s, _ := spec(t, c, "try",
			"see", canary, "see", filepath.Join(dir, "link"), "see", filepath.Join(dir, "../canary"), "see", filepath.Join(dir, "root")+canary,
			"see", filepath.Join(state, "identity.key"), "list", home, "list", above, "list", state,
			"write", canary, "append", canary, "truncate", canary, "remove", canary, "rename", canary, "link", canary, "chmod", canary,
			"write", filepath.Join(home, "new"), "write", filepath.Join(dir, "link"), "run", script, "read", "/etc/shadow",
			"connect", socket, "connect", abstract, "send", log, "send raw", log, "reach", log, "send", abstractLog, "reach", abstractLog, "signal", pid, "ring", "", "keys", "", "environ", pid, "under", pid+"/root"+canary, "under", pid+"/cwd/canary",
			"under", "self/root"+canary, "read", "/dev/mem", "list", "/root", "list", "/home",
			"inherited", strconv.Itoa(inherited),
		)
		s.Dir, s.Write = dir, []string{dir}
		var out bytes.Buffer
		s.Stdout = &out
		if exit, err := Run(t.Context(), s); err != nil || exit.Code != 0 {
			t.Fatalf("%+v, %v", exit, err)
		}
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if len(lines) != (len(s.Argv)-3)/2 {
			t.Fatalf("%d lines: %s", len(lines), out.String())
		}
		yes := 0
		for _, line := range lines {
			if !strings.HasSuffix(line, ": yes") {
				continue
			}
			yes++
			changes := slices.Contains([]string{"write", "append", "truncate", "remove"}, strings.Fields(line)[0]) // looked at below
			if c.Confines() && !changes {
				t.Errorf("%s", line)
			}
		}
		if c == None && yes == 0 {
			t.Error("the test finds nothing where nothing confines")
		}
		if _, err := os.Stat(filepath.Join(home, "new")); c.Confines() && err == nil {
			t.Error("the run made a file in the home")
		}
		if text, err := os.ReadFile(canary); c.Confines() && (err != nil || string(text) != "canary") {
			t.Errorf("the canary is %q, %v", text, err)
		}
		if info, err := os.Stat(canary); c.Confines() && (err != nil || info.Mode().Perm() != 0o600) {
			t.Errorf("the canary's mode is %v, %v", info.Mode(), err)
		}
	})
}

// inherit opens a file so that the programs that this process starts have it open too, and returns
// its descriptor.
func inherit(t *testing.T, path string) int {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD, 100) // no number that the program uses itself
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}

func listenDatagrams(t *testing.T, path string) string {
	t.Helper()
	c, err := net.ListenPacket("unixgram", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return path
}

func listenUnix(t *testing.T, path string) string {
	t.Helper()
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	return path
}

// What a run needs it has: its folders as they were given, programs of the system, temporary
// files, the network, pairs of sockets.
func TestWhatARunMayDo(t *testing.T) {
	each(t, func(t *testing.T, c Confinement) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		read := realDir(t)
		file := filepath.Join(read, "file")
		if err := os.WriteFile(file, []byte("text"), 0o600); err != nil {
			t.Fatal(err)
		}
		s, _ := spec(t, c, "try", "read", file, "list", read, "write", "new", "read", "new", "truncate", "new", "rename", "new", "remove", "new.moved",
			"run", "/bin/true", "read", "/etc/passwd", "read", "/dev/urandom0", "read", "/dev/null", "write", "/dev/null", "read", "/proc/self/stat", "read", "/proc/meminfo",
			"tcp", l.Addr().String(), "udp", l.Addr().String(), "pair", "of streams", "list", "/usr/bin")
		s.Read, s.Ports = append(s.Read, read, "/missing"), []uint16{portOf(l)}
		var out bytes.Buffer
		s.Stdout = &out
		if exit, err := Run(t.Context(), s); err != nil || exit.Code != 0 {
			t.Fatalf("%+v, %v", exit, err)
		}
		for line := range strings.Lines(out.String()) {
			if wanted := !strings.Contains(line, "urandom0"); strings.HasSuffix(line, ": yes\n") != wanted {
				t.Errorf("%s", line)
			}
		}
		s.Argv = append(s.Argv[:3:3], "write", file, "append", file, "truncate", file, "write", filepath.Join(read, "new"), "remove", file)
		out.Reset()
		if exit, err := Run(t.Context(), s); err != nil || exit.Code != 0 {
			t.Fatalf("%+v, %v", exit, err)
		}
		if c.Confines() && strings.Contains(out.String(), "yes") {
			t.Errorf("what may be read is written: %s", out.String())
		}
	})
}

// A run may be given the sockets of a folder, and has no other then.
// holds: security.md#headless-runs
func TestGivenSockets(t *testing.T) {
	each(t, func(t *testing.T, c Confinement) {
		dir := realDir(t)
		folder := filepath.Join(dir, "agent")
		if err := os.Mkdir(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		given, other := listenUnix(t, filepath.Join(folder, "given.sock")), listenUnix(t, filepath.Join(dir, "other.sock"))
		abstract := listenUnix(t, "@acpd-test-given-"+strconv.Itoa(os.Getpid())+string(c))
		s, _ := spec(t, c, "try", "connect", given, "connect", other, "connect", abstract)
		s.Sockets = folder
		var out bytes.Buffer
		s.Stdout = &out
		_, err := Run(t.Context(), s)
		if !c.HasSockets() {
			if err == nil || !strings.Contains(err.Error(), "bubblewrap") {
				t.Errorf("err = %v", err)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf("connect %s: yes\n", given)
		if got := out.String(); !strings.HasPrefix(got, want) || c.Confines() && strings.Contains(got[len(want):], "yes") {
			t.Errorf("got %s", got)
		}
	})
}

// A run is given some unix sockets only where the kernel keeps all others from it.
// holds: security.md#headless-runs
func TestWhereSocketsAreGiven(t *testing.T) {
	for _, c := range []struct {
		under  Confinement
		first  int // version of Landlock
		remedy string
	}{{Bubblewrap, landlockScope, "Linux 6.12"}, {Landlock, landlockSockets, "bubblewrap"}} {
		if err := c.under.checkSocketsAt(c.first - 1); err == nil || !strings.Contains(err.Error(), c.remedy) {
			t.Errorf("%s: err = %v", c.under, err)
		}
		if err := c.under.checkSocketsAt(c.first); err != nil {
			t.Errorf("%s: %v", c.under, err)
		}
	}
	for _, c := range []Confinement{Outside, None} {
		if err := c.checkSocketsAt(0); err != nil {
			t.Errorf("%s: %v", c, err)
		}
	}
}

// The run ends with the process that began it, also if that is killed.
// holds: security.md#headless-runs
func TestTheCallerDies(t *testing.T) {
	each(t, func(t *testing.T, c Confinement) {
		s, mark := spec(t, c, "fork", "stay")
		cmd := exec.Command(s.Argv[0], fakeMark, "caller", string(c), mark)
		cmd.Dir = s.Dir
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		line := make([]byte, 6)
		if _, err := out.Read(line); err != nil {
			t.Fatalf("%v", err)
		}
		if left := leftOf(t, mark); len(left) < 2 {
			t.Errorf("it does not run: %v", left)
		}
		cmd.Process.Signal(syscall.SIGKILL)
		cmd.Wait()
		await.Until(t, "nothing left", func() bool { return len(leftOf(t, mark)) == 0 })
	})
}

// A process outside the run that holds the output open, silent or not, does not hold up Run.
func TestAForeignHolder(t *testing.T) {
	for _, floods := range []bool{false, true} {
		s, _ := spec(t, None, "pid")
		var holder *os.File
		flooded := make(chan struct{})
		s.Stdout = writerFunc(func(p []byte) (int, error) {
			if holder != nil {
				return len(p), nil
			}
			pid, err := strconv.Atoi(string(p))
			if err == nil {
				holder, err = os.OpenFile("/proc/"+string(p)+"/fd/1", os.O_WRONLY, 0)
			}
			if err != nil {
				return 0, err
			}
			go func() {
				defer close(flooded)
				for floods {
					if _, err := holder.WriteString("x"); err != nil {
						return
					}
				}
			}()
			return len(p), syscall.Kill(pid, syscall.SIGTERM)
		})
		ended := make(chan error, 1)
		go func() {
			exit, err := Run(t.Context(), s)
			if err == nil && exit.Code != 128+15 {
				err = fmt.Errorf("%+v", exit)
			}
			ended <- err
		}()
		if err := await.Receive(t, "the end", ended); err != nil {
			t.Errorf("floods %v: %v", floods, err)
		}
		holder.Close()
		<-flooded
	}
}
