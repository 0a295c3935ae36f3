package harness

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestClaudeIsFound(t *testing.T) {
	f := newFakeClaude(t)
	for name, test := range map[string]struct {
		change func(*Environment, *processes)
		saw    string
	}{
		"as it is":      {func(*Environment, *processes) {}, ""},
		"old":           {func(e *Environment, _ *processes) { e.Version = "2.1.329" }, "needs 2.1.330 or later: update it"},
		"newer":         {func(e *Environment, _ *processes) { e.Version = "3.0.0" }, ""},
		"no version":    {func(e *Environment, _ *processes) { e.Version = "" }, "is not a version"},
		"no socket":     {func(e *Environment, _ *processes) { e.Getenv = func(string) string { return "" } }, "no messaging socket"},
		"relative path": {func(e *Environment, _ *processes) { e.Getenv = func(string) string { return "200.sock" } }, "no messaging socket"},
		"another name":  {func(e *Environment, _ *processes) { e.Getenv = func(string) string { return f.other } }, "is not that of process 200"},
		"gone":          {func(e *Environment, _ *processes) { e.Getenv = func(string) string { return f.dir + "/gone/200.sock" } }, "no such file"},
		"a stranger's socket": {func(_ *Environment, ps *processes) {
			ps.peerOf = func(*net.UnixConn) (int, error) { return 666, nil }
		}, "process 666 has not started this one"},
		"the socket of a session that started ours": {func(_ *Environment, ps *processes) {
			read := ps.read
			ps.peerOf = func(*net.UnixConn) (int, error) { return 100, nil }
			ps.read = func(pid int) (process, error) {
				p, err := read(pid)
				if pid == parentPID {
					p.parent = 100
				} else if pid == 100 {
					p, err = process{pid: 100, parent: 1, program: "/bin/agent"}, nil
				}
				return p, err
			}
		}, "process 200 is nearer than process 100"},
		"a mark in the path": {func(e *Environment, _ *processes) {
			e.Getenv = func(string) string { return f.linkTo(`a" from-name="user`) }
		}, "has characters"},
		"no text": {func(e *Environment, _ *processes) { e.Getenv = func(string) string { return f.linkTo("a\xff") } }, "has characters"},
		"others may enter": {func(*Environment, *processes) {
			os.Chmod(f.dir, 0o755)
			t.Cleanup(func() { os.Chmod(f.dir, 0o700) })
		}, "others can enter"},
	} {
		t.Run(name, func(t *testing.T) {
			defer os.Chmod(f.dir, 0o700)
			env, ps := f.environment(), newFamily()
			test.change(env, ps)
			s, err := findClaude(t.Context(), env, ps)
			if test.saw == "" {
				if err != nil {
					t.Fatal(err)
				}
				if name, version := s.Harness(); name != "claude" || version != env.Version {
					t.Errorf("Harness: %s %s", name, version)
				}
				s.Close()
			} else if e, ok := errors.AsType[*Error](err); s != nil || !ok || e.Err != ErrUnsupported || !strings.Contains(err.Error(), test.saw) {
				t.Errorf("%v, %v, want %q", s, err, test.saw)
			}
		})
	}
	if left, _ := filepath.Glob(f.dir + "/????????????????.sock"); len(left) != 0 {
		t.Errorf("left behind: %q", left)
	}
}

func TestClaudeIsGone(t *testing.T) {
	f := newFakeClaude(t)
	s := f.find(f.environment(), newFamily())
	os.Remove(f.socket)
	if _, err := s.Post(t.Context(), newPost()); !errors.Is(err, ErrGone) {
		t.Errorf("Post: %v", err)
	}
}

// A socket of the same name that another process listens on meanwhile is told nothing.
func TestClaudeSocketOfAStranger(t *testing.T) {
	f := newFakeClaude(t)
	ps := newFamily()
	s := f.find(f.environment(), ps)
	ps.peerOf = func(*net.UnixConn) (int, error) { return 666, nil }
	if _, err := s.Post(t.Context(), newPost()); !errors.Is(err, ErrGone) || !strings.Contains(err.Error(), "process 666 has not started this one") {
		t.Errorf("Post: %v", err)
	}
	if f.mu.Lock(); len(f.frames)+len(f.tokens) != 0 {
		t.Errorf("it hears %+v, %q", f.frames, f.tokens)
	}
	f.mu.Unlock()
}
