package harness

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A program that is not known is no error, and neither is one without a name.
func TestFindSessionOfAStranger(t *testing.T) {
	for _, client := range []string{"", "inspector"} {
		s, err := FindSession(t.Context(), Environment{Client: client, Version: "1.0.0", Getenv: func(string) string { return "" }})
		if s != nil || err != nil {
			t.Errorf("%q: %v, %v", client, s, err)
		}
	}
}

// The real table of processes says who has started this one, and who is at a socket.
func TestProcesses(t *testing.T) {
	ps := newProcesses(0)
	parents := ps.listParents()
	if len(parents) == 0 || parents[0].pid != os.Getppid() || len(parents[0].args) == 0 {
		t.Fatalf("parents %+v", parents)
	}
	path := filepath.Join(makeSocketDir(t), "s")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if _, _, err := ps.dialParent(path); err == nil {
		t.Error("this process is its own parent")
	}
	ps.self = -1
	ps.read = func(pid int) (process, error) {
		if pid < 0 {
			return process{pid: pid, parent: os.Getpid()}, nil
		}
		return readProcess(pid)
	}
	conn, parent, err := ps.dialParent(path)
	if err != nil || parent.pid != os.Getpid() || !slices.Equal(parent.args, os.Args) {
		t.Fatalf("dialParent: %+v, %v", parent, err)
	}
	defer conn.Close()
	accepted, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer accepted.Close()
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	if ports, err := ps.portsOf(os.Getpid()); err == nil && !slices.Contains(ports, tcp.Addr().(*net.TCPAddr).Port) {
		t.Errorf("ports %v", ports)
	}
}

func TestVersions(t *testing.T) {
	for text, ok := range map[string]bool{
		"2.1.330": true, "v2.1.330": true, "2.1.330 (Claude Code)": true, "2.1.331": true, "2.1.329": false, "2.2.0": true, "3.0.0": true,
		"": false, "2.1": false, "2.1.330.1": false, "2.1.-1": false, "2.1.330-beta": false, "99999999999.1.1": false,
	} {
		if err := checkVersion(claudeName, text); (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// A version above the newest tested one is woken, and is named as such. Any other text is not.
func TestNewerThanTested(t *testing.T) {
	for program, newest := range tested {
		newer := newest.newest
		newer[2]++
		if CheckVersion(program, newer.String()) != nil || NewerThanTested(program, newer.String()) != "newer than tested ("+newest.newest.String()+")" {
			t.Errorf("%s %s: %v, %q", program, newer, CheckVersion(program, newer.String()), NewerThanTested(program, newer.String()))
		}
		for _, text := range []string{newest.newest.String(), newest.first.String(), "", "99", "v"} {
			if got := NewerThanTested(program, text); got != "" {
				t.Errorf("%s %q: %q", program, text, got)
			}
		}
	}
	if got := NewerThanTested("gemini", "99.0.0"); got != "" {
		t.Errorf("a program that cannot be woken: %q", got)
	}
}

// A post has one id for the program, and no other post has it.
func TestFrameID(t *testing.T) {
	p := Post{Message: wire.NewMessageID(), Sender: identity.ID{1}, Came: time.Now()}
	again, bySomebody, later := p, p, p
	again.Unattended = true
	bySomebody.Sender[0]++
	later.Came = later.Came.Add(time.Nanosecond)
	if id := p.frameID(); again.frameID() != id || bySomebody.frameID() == id || later.frameID() == id {
		t.Errorf("%s: %s again, %s of another peer, %s later", id, again.frameID(), bySomebody.frameID(), later.frameID())
	}
	if id, err := wire.ParseMessageID(p.frameID()); err != nil || id.IsZero() {
		t.Errorf("no UUID: %s", p.frameID())
	}
}

// A session lets one post at a time through, and none after the end of its context.
func TestGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newLifetime()
		leave, err := g.enter(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if _, err := g.enter(ctx); err == nil {
			t.Error("two are in")
		}
		leave()
		if _, err := g.enter(ctx); err == nil {
			t.Error("enters after the end of ctx")
		}
		began := time.Now()
		leave, err = g.enter(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		leave()
		if _, err = g.enter(t.Context()); err != nil || time.Since(began) < postInterval {
			t.Errorf("the next one enters after %s: %v", time.Since(began), err)
		}
	})
}

const (
	ownPID    = 300
	parentPID = 200
)

// newFamily returns processes in which this one has one parent, which owns all sockets.
func newFamily(args ...string) *processes {
	if args == nil {
		args = []string{"agent"}
	}
	return &processes{
		self: ownPID,
		read: func(pid int) (process, error) {
			switch pid {
			case ownPID:
				return process{pid: pid, parent: parentPID, program: "/bin/acpctl"}, nil
			case parentPID:
				return process{pid: pid, parent: 1, program: "/bin/agent", args: args}, nil
			}
			return process{}, os.ErrNotExist
		},
		peerOf:  func(*net.UnixConn) (int, error) { return parentPID, nil },
		portsOf: func(int) ([]int, error) { return nil, nil },
	}
}

// makeSocketDir returns a directory whose path leaves room for a socket's name.
func makeSocketDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "h")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func newPost() Post {
	return Post{Message: wire.NewMessageID(), Pointer: "1 message from desk waits. Call acp_inbox."}
}

// postSoon posts to a session, and returns where the error of that comes.
func postSoon(t *testing.T, s Session, p Post) chan error {
	ended := make(chan error, 1)
	go func() {
		_, err := s.Post(t.Context(), p)
		ended <- err
	}()
	return ended
}
