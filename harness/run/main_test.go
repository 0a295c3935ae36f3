package run

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"golang.org/x/sys/unix"
)

// This binary is also the helper, and the program that is run.
func TestMain(m *testing.M) {
	ServeHelper()
	if len(os.Args) > 2 && os.Args[1] == fakeMark {
		fake(os.Args[2], os.Args[3:])
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// quickEnd keeps the race detector from waiting for a second at the end of every process.
const quickEnd = "GORACE=atexit_sleep_ms=0"

const fakeMark = "fake-program"

// seen is what the program "record" prints.
type seen struct {
	Argv  []string `json:"argv"`
	Env   []string `json:"env"`
	Dir   string   `json:"dir"`
	Stdin string   `json:"stdin"`
}

// fake is a program of each kind that a run must stand.
func fake(what string, args []string) {
	switch what {
	case "record":
		stdin, _ := io.ReadAll(os.Stdin)
		dir, _ := os.Getwd()
		text, _ := json.Marshal(&seen{os.Args[3:], os.Environ(), dir, string(stdin)})
		os.Stdout.Write(text)
	case "exit":
		code, _ := strconv.Atoi(args[0])
		fmt.Fprintln(os.Stderr, "the last words")
		os.Exit(code)
	case "hang":
		fmt.Println("ready")
		time.Sleep(time.Hour)
	case "pid":
		fmt.Print(os.Getpid())
		time.Sleep(time.Hour)
	case "session": // in which it is
		id, _ := unix.Getsid(0)
		fmt.Print(id)
	case "print": // as much as a pipe holds
		os.Stdout.Write([]byte(strings.Repeat("x", 1<<16)))
	case "stubborn": // also against what a terminal sends
		signal.Ignore(syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT, syscall.SIGPIPE)
		fmt.Println("ready")
		time.Sleep(time.Hour)
	case "fork": // children of their own sessions, which ignore TERM and hold the output open
		for range 3 {
			again("orphan", "2")
		}
		if args[0] == "stay" {
			signal.Ignore(syscall.SIGTERM)
			fmt.Println("ready")
			time.Sleep(time.Hour)
		}
		fmt.Println("ready")
	case "orphan":
		signal.Ignore(syscall.SIGTERM, syscall.SIGHUP)
		if n, _ := strconv.Atoi(args[0]); n > 0 {
			again("orphan", strconv.Itoa(n-1))
			again("orphan", "0")
		}
		time.Sleep(time.Hour)
	case "mutiny": // kills the helper, and leaves a process that holds the output open
		cmd := exec.Command("/bin/sleep", "3600")
		cmd.Stdin, cmd.Stdout, cmd.SysProcAttr = os.Stdin, os.Stdout, &syscall.SysProcAttr{Setsid: true}
		cmd.Env = []string{} // without the mark
		cmd.Start()
		fmt.Print(cmd.Process.Pid)
		syscall.Kill(os.Getppid(), syscall.SIGKILL)
		time.Sleep(time.Hour)
	case "multiply": // goes on starting
		fmt.Println("ready")
		for range 200 {
			again("orphan", "0")
		}
		time.Sleep(time.Hour)
	case "flood":
		line := []byte(strings.Repeat("x", 1<<16))
		for {
			if _, err := os.Stdout.Write(line); err != nil {
				time.Sleep(time.Hour)
			}
		}
	case "shout":
		for range 1 << 10 {
			fmt.Fprintln(os.Stderr, strings.Repeat("y", 1<<10))
		}
		fmt.Fprintln(os.Stderr, "the end")
	case "caller": // runs "fork" and waits
		exe, _ := os.Executable()
		dir, _ := os.Getwd()
		Run(context.Background(), Spec{
			Argv: []string{exe, fakeMark, "fork", "stay"}, Env: []string{args[1], quickEnd}, Dir: dir, Read: []string{exe}, Write: []string{dir},
			Confinement: Confinement(args[0]), Stdout: os.Stdout, Grace: 100 * time.Millisecond,
		})
	case "try": // each word with a path; says what came of it
		for i := 0; i+1 < len(args); i += 2 {
			if err := try(args[i], args[i+1]); err != nil {
				fmt.Printf("%s %s: no: %v\n", args[i], args[i+1], err)
			} else {
				fmt.Printf("%s %s: yes\n", args[i], args[i+1])
			}
		}
	}
}

// again starts this program anew, in a session of its own.
func again(args ...string) {
	cmd := exec.Command("/proc/self/exe", append([]string{fakeMark}, args...)...)
	if exe, err := os.Executable(); err == nil {
		cmd.Path = exe
	}
	cmd.Stdout = os.Stdout
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		fmt.Println("start:", err)
	}
}

func try(what, path string) error {
	switch what {
	case "read":
		_, err := os.ReadFile(path)
		return err
	case "see": // bubblewrap shows an empty file system where others forbid
		text, err := os.ReadFile(path)
		if err == nil && !strings.Contains(string(text), "canary") {
			return errors.New("another file")
		}
		return err
	case "list":
		names, err := os.ReadDir(path)
		if err == nil && !slices.ContainsFunc(names, func(e os.DirEntry) bool { return e.Type().IsRegular() || e.Type() == os.ModeSocket }) {
			return errors.New("no file")
		}
		return err
	case "write":
		return os.WriteFile(path, []byte("written"), 0o600)
	case "append": // which changes a file without emptying it
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
		if err == nil {
			_, err = f.WriteString("written")
			f.Close()
		}
		return err
	case "truncate":
		return os.Truncate(path, 0)
	case "remove":
		return os.Remove(path)
	case "rename":
		return os.Rename(path, path+".moved")
	case "link":
		return os.Link(path, "linked")
	case "chmod":
		return os.Chmod(path, 0o777)
	case "run":
		return exec.Command(path).Run()
	case "connect":
		c, err := net.Dial("unix", path)
		if err == nil {
			c.Close()
		}
		return err
	case "send", "send raw", "reach": // by an end of a pair of sockets for datagrams
		kind := syscall.SOCK_DGRAM
		if what == "send raw" {
			kind = syscall.SOCK_RAW
		}
		pair, err := syscall.Socketpair(syscall.AF_UNIX, kind, 0)
		if err != nil {
			return err
		}
		defer syscall.Close(pair[0])
		defer syscall.Close(pair[1])
		to := &syscall.SockaddrUnix{Name: path}
		if what == "reach" {
			return syscall.Connect(pair[0], to)
		}
		return syscall.Sendto(pair[0], []byte("x"), 0, to)
	case "inherited": // a descriptor
		fd, _ := strconv.Atoi(path)
		_, err := syscall.Read(fd, make([]byte, 1))
		return err
	case "pair":
		const closeOnExec = 0x80000 // as Linux has it, and programs set it
		pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|closeOnExec, 0)
		if err == nil {
			syscall.Close(pair[0])
			syscall.Close(pair[1])
		}
		return err
	case "signal":
		pid, _ := strconv.Atoi(path)
		return syscall.Kill(pid, 0)
	case "environ":
		_, err := os.ReadFile("/proc/" + path + "/environ")
		return err
	case "under":
		return try("see", "/proc/"+path)
	case "tcp", "udp":
		c, err := net.Dial(what, path)
		if err == nil {
			_, err = c.Write([]byte("x"))
			c.Close()
		}
		return err
	case "bind":
		l, err := net.Listen("tcp", path)
		if err == nil {
			l.Close()
		}
		return err
	}
	return trySystem(what, path)
}

// spec returns a run of the program, in a new folder, and the mark that all its processes have
// in their environment.
func spec(t testing.TB, c Confinement, args ...string) (s Spec, mark string) {
	t.Helper()
	exe, err := os.Executable()
	if err == nil {
		exe, err = filepath.EvalSymlinks(exe)
	}
	if err != nil {
		t.Fatal(err)
	}
	var random [8]byte
	rand.Read(random[:])
	mark = "ACPD_TEST_RUN=" + hex.EncodeToString(random[:])
	dir := realDir(t)
	return Spec{
		Argv: append([]string{exe, fakeMark}, args...), Env: []string{mark, quickEnd}, Dir: dir,
		Read: []string{exe}, Write: []string{dir}, Confinement: c,
	}, mark
}

func realDir(t testing.TB) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

var checked sync.Map // the error of each confinement, nil if it works here

// each runs a test under each confinement that this machine has, and under none.
func each(t *testing.T, test func(t *testing.T, c Confinement)) {
	found := 0
	for _, c := range append(listConfinements(), None) {
		err, known := checked.Load(c)
		if !known {
			err = CheckConfinement(t.Context(), c)
			checked.Store(c, err)
		}
		if err != nil && c == Landlock && checkConfinement(c) == nil {
			t.Errorf("the kernel has it: %v", err)
		}
		if err != nil {
			t.Logf("not tested: %v", err)
			continue
		}
		found++
		t.Run(string(c), func(t *testing.T) { test(t, c) })
	}
	if found == 1 && os.Getenv("CI") != "" {
		t.Error("this machine has no confinement to test")
	}
}
