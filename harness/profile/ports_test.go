package profile

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/harness/run"
)

// The ports of the model and of proxies are those of URLs that the owner wrote. What a run has printed
// opens none.
func TestOpenPorts(t *testing.T) {
	for name, value := range map[string]string{
		"ACPD_TEST_BASE_URL": "http://model.example:8080/v1", "ACPD_TEST_PLAIN_URL": "http://plain.example/v1", "ACPD_TEST_HTTPS_PROXY": "user:secret@proxy.example:3128",
		"ACPD_TEST_HTTP_PROXY": "SOCKS5://[2001:db8::1]", "ACPD_TEST_NO_PROXY": "other.example:1234", "ACPD_TEST_KEY": "sk-1:2345", "ACPD_TEST_NOT_PASSED": "http://127.0.0.1:5432",
	} {
		t.Setenv(name, value)
	}
	p := newFake(t)
	p.Pass = []string{"ACPD_TEST_BASE_URL", "ACPD_TEST_PLAIN_URL", "ACPD_TEST_HTTPS_PROXY", "ACPD_TEST_HTTP_PROXY", "ACPD_TEST_NO_PROXY", "ACPD_TEST_KEY", "ACPD_TEST_MISSING"}
	p.More = []string{`--config=base_url="http://127.0.0.1:8081/v1"`, "wss://stream.example:9443/x", `{"a": "http://[::1]:8082/", "b": 'http://127.0.0.1:99999/', "c": "see https://docs.example."}`}
	r := &Runner{Profile: p, Confinement: run.Outside, Tools: ToolsRead, Ports: []uint16{3000}}
	if got, want := r.OpenPorts(), []uint16{53, 80, 443, 1080, 3128, 8080, 8081, 8082, 9443}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	r.Tools = ToolsWork
	if got := r.OpenPorts(); !slices.Contains(got, 3000) {
		t.Errorf("%v", got)
	}
}

// A run reaches a service of the owner's on loopback only if it may run commands: then those that are
// named, and those at free ports.
// holds: security.md#headless-runs
func TestServicesOnLoopback(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, c := range []run.Confinement{run.Bubblewrap, run.Landlock} {
		if !c.ClosesLoopback() || run.CheckConfinement(t.Context(), c) != nil {
			t.Logf("not tested: %s", c)
			continue
		}
		r, _ := newRunner(t, c)
		for tools, want := range map[Tools]bool{ToolsNone: false, ToolsRead: false, ToolsWork: true} {
			r.Tools = tools
			a, err := r.Run(t.Context(), Request{Peer: desk, Prompt: l.Addr().String() + " dial"})
			if err != nil || (a.Text == "dialled: <nil>") != want {
				t.Errorf("%s, %s: %+v, %v", c, tools, a, err)
			}
		}
		t.Setenv("PASSED", "http://"+l.Addr().String())
		r.Tools = ToolsRead
		if a, err := r.Run(t.Context(), Request{Peer: desk, Prompt: l.Addr().String() + " dial"}); err != nil || a.Text != "dialled: <nil>" {
			t.Errorf("%s, of its model: %+v, %v", c, a, err)
		}
		os.Unsetenv("PASSED")
	}
}

// What a run leaves that programs obey, or moves, is named to the peer and to the owner. One run at a time changes
// a folder.
// holds: security.md#headless-runs
func TestWhatIsLeft(t *testing.T) {
	r, _ := newRunner(t, run.Outside)
	var logged []string
	r.Log = func(format string, args ...any) { logged = append(logged, fmt.Sprintf(format, args...)) }
	r.Dir, r.Tools = realDir(t), ToolsWork
	a, err := r.Run(t.Context(), Request{Peer: desk, Prompt: "CLAUDE.md write"})
	if err != nil || !strings.HasPrefix(string(a.Data), `{"left_by_run":["CLAUDE.md.left-by-a-run-`) {
		t.Errorf("%+v, %v", a, err)
	}
	if len(logged) != 1 || !strings.Contains(logged[0], "CLAUDE.md.left-by-a-run-") {
		t.Errorf("the owner reads %q", logged)
	}
	if _, err := os.Stat(filepath.Join(r.Dir, "CLAUDE.md")); err == nil {
		t.Error("it has its name still")
	}
	writeFile(t, filepath.Join(r.Dir, "notes", "AGENTS.md"), "own", 0o600)
	if a, err = r.Run(t.Context(), Request{Peer: desk, Prompt: "notes elsewhere rename"}); err != nil || string(a.Data) != `{"moved_by_run":["notes/AGENTS.md"]}` {
		t.Errorf("%+v, %v", a, err)
	}
	if len(logged) != 2 || !strings.HasSuffix(logged[1], "put it back: notes/AGENTS.md") {
		t.Errorf("the owner reads %q", logged)
	}
	odd := filepath.Join(r.Dir, "odd\xff\x1b[31m")
	makeDir(t, odd)
	if a, err := r.Run(t.Context(), Request{Peer: desk, Prompt: filepath.Join(odd, ".envrc") + " write"}); err != nil || !strings.HasPrefix(string(a.Data), `{"left_by_run":["odd`) {
		t.Errorf("a name that is no text: %+v, %v", a, err)
	}
	unlock, err := run.LockProject(t.Context(), r.Dir)
	if err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := r.Run(short, Request{Peer: desk, Prompt: "new write"}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("beside another run: %v", err)
	}
	unlock()
	if _, err := r.Run(t.Context(), Request{Peer: desk, Prompt: "new write"}); err != nil {
		t.Errorf("after another run: %v", err)
	}
}
