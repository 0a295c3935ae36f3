package main

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/integration/live"
	"github.com/acpd/acpd/internal/cli/clitest"
)

// screen is a terminal that a shell controls, and what has been seen there.
type screen struct {
	t     *testing.T
	keys  *os.File
	shell *exec.Cmd
	mu    sync.Mutex // guards seen
	seen  strings.Builder
	ended chan struct{}
}

// startShell runs a script in a shell with job control at a terminal of its own, with a program in place of the one by
// which a desktop opens links, which writes its arguments into the file opened.
func startShell(t *testing.T, script string, args ...string) (s *screen, opened string) {
	dir := t.TempDir()
	opened = filepath.Join(dir, "opened")
	opener := "#!/bin/sh\nprintf %s \"$*\" >'" + opened + ".new' && mv '" + opened + ".new' '" + opened + "'\n"
	if err := os.WriteFile(filepath.Join(dir, "xdg-open"), []byte(opener), 0o755); err != nil {
		t.Fatal(err)
	}
	master, slave, err := live.OpenTerminal(50, 300)
	if err != nil {
		t.Fatal(err)
	}
	s = &screen{t: t, keys: master, shell: exec.Command("sh", append([]string{"-c", "set -m\ntrap 'kill %1; exit' HUP\n" + script, "sh"}, args...)...), ended: make(chan struct{})}
	s.shell.Env = append(os.Environ(), "DISPLAY=:0", "PATH="+dir+":"+os.Getenv("PATH"))
	s.shell.Stdin, s.shell.Stdout, s.shell.Stderr = slave, slave, slave
	s.shell.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := s.shell.Start(); err != nil {
		t.Fatal(err)
	}
	slave.Close()
	go func() { // ends with the last who has the terminal, or when it is closed
		defer close(s.ended)
		for b := make([]byte, 4096); ; {
			n, err := master.Read(b)
			s.mu.Lock()
			s.seen.Write(b[:n])
			s.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		master.Close() // which hangs up on all that is left there
		s.shell.Wait()
		<-s.ended
	})
	return s, opened
}

func (s *screen) shows(text string) {
	s.t.Helper()
	await.Until(s.t, "the terminal shows "+text, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return strings.Contains(s.seen.String(), text)
	})
}

func (s *screen) types(keys string) {
	s.t.Helper()
	if _, err := s.keys.WriteString(keys); err != nil {
		s.t.Error(err)
	}
}

func newWebDaemon(t *testing.T) *clitest.FakeDaemon {
	f := clitest.NewFakeDaemon(t, nil)
	f.SetAnswer(client.MethodWhoami, &client.Whoami{Name: "laptop"})
	return f
}

// In the background of a shell, acpctl web opens no browser, since it could not ask for the number there, and says what
// to do. It goes on: a read of the terminal would have stopped it.
func TestWebInTheBackground(t *testing.T) {
	f := newWebDaemon(t)
	s, opened := startShell(t, `acpctl --home "$1" web & wait`, f.Home)
	s.shows("in the background nothing can be typed")
	s.mu.Lock()
	link := regexp.MustCompile(`http://127\.0\.0\.1:\S+`).FindString(s.seen.String())
	s.mu.Unlock()
	answer, err := http.Get(link)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatal(answer, err)
	}
	text, err := io.ReadAll(answer.Body)
	answer.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	if err != nil || !strings.Contains(string(text), "url=/") {
		t.Errorf("%s, %v", text, err)
	}
	if _, err := os.Stat(opened); err == nil {
		t.Error("the link was in a command line")
	}
}

// One that was put into the background meanwhile asks for the number when it is in the foreground again.
func TestWebAsksInTheForeground(t *testing.T) {
	f := newWebDaemon(t)
	gate := filepath.Join(t.TempDir(), "gate")
	if err := syscall.Mkfifo(gate, 0o600); err != nil {
		t.Fatal(err)
	}
	s, opened := startShell(t, `acpctl --home "$1" web; bg; read -r go <"$2"; fg`, f.Home, gate)
	s.shows("^C ends it")
	await.Until(t, "the desktop has the link", func() bool { _, err := os.Stat(opened); return err == nil })
	link, err := os.ReadFile(opened)
	if err != nil {
		t.Fatal(err)
	}
	s.types("\x1a")          // ^Z
	s.shows("acpctl --home") // the shell tells of the job
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{Jar: jar}
	defer browser.CloseIdleConnections()
	get := func(address string) string {
		answer, err := browser.Get(address)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil || answer.StatusCode != http.StatusOK {
			t.Fatalf("%s: %v", answer.Status, err)
		}
		return string(text)
	}
	base, _, _ := strings.Cut(string(link), "/open")
	page := base + regexp.MustCompile(`url=(/[^/]+/)`).FindStringSubmatch(get(string(link)))[1]
	s.shows("bring acpctl web to the foreground: fg")
	if err := os.WriteFile(gate, []byte("go\n"), 0); err != nil {
		t.Fatal(err)
	}
	s.shows("type the number that it shows: ")
	s.types(regexp.MustCompile(`[0-9]{4}`).FindString(strings.SplitAfter(get(page), "<h1>")[1]) + "\n")
	await.Until(t, "the page comes", func() bool { return strings.Contains(get(page), "page.js") })
	s.types("\x03") // ^C
	if err := s.shell.Wait(); err != nil {
		t.Error(err)
	}
}
