package main

import (
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/integration/live"
	"github.com/acpd/acpd/internal/app/cli/clitest"
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
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP) // also under nohup: a shell traps no signal that was ignored when it began
	err = s.shell.Start()
	signal.Stop(hangups)
	if err != nil {
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

// shows waits until a text was shown, wherever the terminal has broken it.
func (s *screen) shows(text string) {
	s.t.Helper()
	await.Until(s.t, "the terminal shows "+text, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return strings.Contains(strings.Join(strings.Fields(s.seen.String()), " "), text)
	})
}

// In the background of a shell, acpctl web opens no browser, since it could not ask for the number there, and says what
// to do. It goes on: a read of the terminal would have stopped it.
func TestWebInTheBackground(t *testing.T) {
	f := clitest.NewFakeDaemon(t, nil)
	f.SetAnswer(client.MethodWhoami, &client.Whoami{Name: "laptop"})
	s, opened := startShell(t, `acpctl --home "$1" web & wait`, f.Home)
	s.shows("no browser is opened")
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
