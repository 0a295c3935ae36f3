package main

import (
	"bytes"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/acpd/acpd/integration/await"
)

// stateDir makes a state directory with a path that a socket can have.
func stateDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "acpd")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func TestExitCodes(t *testing.T) {
	home := stateDir(t)
	if err := os.WriteFile(filepath.Join(home, "config.yaml"), []byte("lisen: x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", filepath.Dir(home))
	for _, c := range []struct {
		args   string
		code   int
		out    string // on standard output
		errors string // on standard error
	}{
		{"--version", 0, ", protocol acp/1, go1.", ""},
		{"--version --json", 0, `,"protocol":"acp/1","go":"go1.`, ""},
		{"--json", 2, "", "--json: goes only with --version"},
		{"--help", 0, "--no-mdns", ""},
		{"--listne x", 2, "", "--listne: did you mean --listen?"},
		{"--nam x", 2, "", "--nam: did you mean --name?"},
		{"--unlike x", 2, "", "--unlike\n"},
		{"-x", 2, "", "-x\n"},
		{"start", 2, "", "start"},
		{"--listen 7117", 2, "", "host:port"},
		{"--listen 127.0.0.1:99999", 2, "", `--listen "127.0.0.1:99999": port 99999: at most 65535`},
		{"--name Desk!", 2, "", "--name"},
		{"-v -q", 2, "", "verbose"},
		{"--home=", 2, "", "--home: empty"},
		{"--name=", 2, "", "--name: empty"},
		{"--home=~no-such-user/acp", 2, "", "name a path without ~"},
		{"--home=~/" + filepath.Base(home), 1, "", `did you mean "listen"`},
		{"--home " + home, 1, "", `did you mean "listen"`},
		{"--home " + filepath.Join(home, strings.Repeat("x", 100)), 1, "", "shorter"},
	} {
		var stdout, stderr bytes.Buffer
		if code := runCommandLine(strings.Fields(c.args), &stdout, &stderr); code != c.code {
			t.Errorf("acpd %s: exit code %d, want %d", c.args, code, c.code)
		}
		if !strings.Contains(stdout.String(), c.out) || c.out == "" && stdout.Len() > 0 {
			t.Errorf("acpd %s: standard output %q, want %q", c.args, &stdout, c.out)
		}
		if !strings.Contains(stderr.String(), c.errors) || c.errors == "" && stderr.Len() > 0 {
			t.Errorf("acpd %s: standard error %q, want %q", c.args, &stderr, c.errors)
		}
	}
}

// TestSignals: it says at its first start alone who it is and what to do next,
// reads its configuration again on SIGHUP, and ends with 0 on SIGTERM.
func TestSignals(t *testing.T) {
	home := stateDir(t)
	for _, first := range []bool{true, false} {
		var stdout bytes.Buffer
		lines, stderr := io.Pipe()
		log := watch(lines)
		code := make(chan int, 1)
		go func() {
			code <- runCommandLine([]string{"--home", home, "--listen", "127.0.0.1:0", "--no-mdns"}, &stdout, stderr)
			stderr.Close()
		}()
		log.until(t, "msg=ready")
		if c, err := net.Dial("unix", filepath.Join(home, "acp.sock")); err != nil {
			t.Error(err)
		} else {
			c.Close()
		}
		kill(t, syscall.SIGHUP)
		log.until(t, "configuration reloaded")
		kill(t, syscall.SIGTERM)
		select {
		case got := <-code:
			if got != 0 {
				t.Errorf("exit code %d", got)
			}
		case <-time.After(await.Patience):
			t.Fatal("SIGTERM does not end it")
		}
		said := stdout.String()
		if !first {
			if said != "" {
				t.Errorf("the second start says %q", said)
			}
			continue
		}
		for _, want := range []string{"identity ", "127.0.0.1:", "ACP_HOME=" + home + " acpctl up"} {
			if !strings.Contains(said, want) {
				t.Errorf("the first start says %q without %q", said, want)
			}
		}
	}
}

// kill signals this process, which waits for the signal.
func kill(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(os.Getpid(), s); err != nil {
		t.Fatal(err)
	}
}

// logged holds what a daemon has logged so far.
type logged struct {
	mu   sync.Mutex
	text strings.Builder
	more chan struct{} // closed and replaced when there is more
}

func watch(r io.Reader) *logged {
	l := &logged{more: make(chan struct{})}
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := r.Read(buf)
			l.mu.Lock()
			l.text.Write(buf[:n])
			close(l.more)
			l.more = make(chan struct{})
			l.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	return l
}

// until waits for a text, which is then taken out.
func (l *logged) until(t *testing.T, want string) {
	t.Helper()
	timeout := time.After(await.Patience)
	for {
		l.mu.Lock()
		all, more := l.text.String(), l.more
		_, after, found := strings.Cut(all, want)
		if found {
			l.text.Reset()
			l.text.WriteString(after)
		}
		l.mu.Unlock()
		if found {
			return
		}
		select {
		case <-more:
		case <-timeout:
			t.Fatalf("the log does not say %q: %s", want, all)
		}
	}
}
