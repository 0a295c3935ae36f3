package main

import (
	"io"
	"net/http"
	"net/http/cookiejar"
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

func (s *screen) shows(text string) {
	s.t.Helper()
	s.showsTimes(1, text)
}

// showsTimes waits until a text was shown so often, wherever the terminal has broken it.
func (s *screen) showsTimes(times int, text string) {
	s.t.Helper()
	await.Until(s.t, "the terminal shows "+text, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return strings.Count(strings.Join(strings.Fields(s.seen.String()), " "), strings.TrimSpace(text)) >= times
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

// browser is one to which the desktop has given the link.
type browser struct {
	http.Client
	t *testing.T
}

// get returns the text of an answer of 200.
func (b *browser) get(address string) string {
	b.t.Helper()
	answer, err := b.Get(address)
	if err != nil {
		b.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		b.t.Fatalf("%s: %v", answer.Status, err)
	}
	return string(text)
}

// openPage opens the link, and returns the address of the page.
func (b *browser) openPage(link string) (page string) {
	b.t.Helper()
	base, _, _ := strings.Cut(link, "/open")
	return base + regexp.MustCompile(`url=(/[^/]+/)`).FindStringSubmatch(b.get(link))[1]
}

// startWebJob runs acpctl web in a shell, which puts it into the background when it stops, and back into the
// foreground when bringBack is called.
func startWebJob(t *testing.T) (s *screen, b *browser, link string, bringBack func()) {
	f := newWebDaemon(t)
	gate := filepath.Join(t.TempDir(), "gate")
	if err := syscall.Mkfifo(gate, 0o600); err != nil {
		t.Fatal(err)
	}
	s, opened := startShell(t, `acpctl --home "$1" web; bg; read -r go <"$2"; fg`, f.Home, gate)
	s.shows("^C ends it")
	await.Until(t, "the desktop has the link", func() bool { _, err := os.Stat(opened); return err == nil })
	text, err := os.ReadFile(opened)
	if err != nil {
		t.Fatal(err)
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	b = &browser{http.Client{Jar: jar}, t}
	t.Cleanup(b.CloseIdleConnections)
	return s, b, string(text), func() {
		if err := os.WriteFile(gate, []byte("go\n"), 0); err != nil {
			t.Fatal(err)
		}
	}
}

// typesNumber types the number that the browser shows, and ends the job when the page has come.
func (s *screen) typesNumber(b *browser, page string) {
	s.t.Helper()
	s.types(regexp.MustCompile(`[0-9]{4}`).FindString(strings.SplitAfter(b.get(page), "<h1>")[1]) + "\n")
	await.Until(s.t, "the page comes", func() bool { return strings.Contains(b.get(page), "page.js") })
	s.types("\x03") // ^C
	if err := s.shell.Wait(); err != nil {
		s.t.Error(err)
	}
}

const (
	stopKey   = "\x1a" // ^Z
	askNumber = "type the number that it shows: "
	askFg     = "bring acpctl web to the foreground: fg"
)

// One that was put into the background meanwhile asks for the number when it is in the foreground again.
func TestWebAsksInTheForeground(t *testing.T) {
	s, b, link, bringBack := startWebJob(t)
	s.types(stopKey)
	s.shows("acpctl --home") // the shell tells of the job
	page := b.openPage(link)
	s.shows(askFg)
	bringBack()
	s.shows(askNumber)
	s.typesNumber(b, page)
}

// One that is put into the background while it asks for the number goes on, and asks again in the foreground.
func TestWebGoesOnWhileItAsks(t *testing.T) {
	s, b, link, bringBack := startWebJob(t)
	page := b.openPage(link)
	s.shows(askNumber)
	s.types(stopKey)
	s.shows(askFg)
	if text := b.get(page); !strings.Contains(text, "Type this number") {
		t.Errorf("in the background it serves %s", text)
	}
	bringBack()
	s.showsTimes(2, askNumber)
	s.typesNumber(b, page)
}
