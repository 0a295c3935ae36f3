package operate

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/internal/app/cli/clitest"
	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/internal/app/cli/ui"
	"github.com/acpd/acpd/kinds"
)

func newWebDaemon(t *testing.T) *clitest.FakeDaemon {
	f := newDaemon(t)
	f.SetAnswer(client.MethodWhoami, &client.Whoami{Name: "laptop"})
	return f
}

// startWeb runs acpctl web, and returns the link that it prints. end interrupts it, and returns what it wrote to
// standard error.
func startWeb(t *testing.T, f *clitest.FakeDaemon, terminal ui.Terminal, args ...string) (link string, end func() string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	printed, out := io.Pipe()
	var stderr bytes.Buffer
	terminal.Out, terminal.Err = out, &stderr
	if terminal.In == nil {
		terminal.In = strings.NewReader("")
	}
	ended := make(chan int, 1)
	go func() {
		ended <- f.RunWithoutHome(ctx, terminal, append([]string{"--home", f.Home, "web"}, args...)...)
	}()
	link, err := bufio.NewReader(printed).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(link, "\n"), func() string {
		t.Helper()
		cancel()
		if code := <-ended; code != 0 {
			t.Errorf("exit code %d", code)
		}
		return stderr.String()
	}
}

// openLink opens the link in a browser, and returns that and the address of the page.
func openLink(t *testing.T, link string) (browser *http.Client, page string) {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser = &http.Client{Jar: jar}
	t.Cleanup(browser.CloseIdleConnections)
	base, _, _ := strings.Cut(link, "/open")
	return browser, base + regexp.MustCompile(`url=(/[^/]+/)`).FindStringSubmatch(get(t, browser, link))[1]
}

// fakeOpener puts a program into PATH in place of the one by which a desktop opens links. It returns the file
// to which that writes its arguments.
func fakeOpener(t *testing.T) (seen string) {
	name := "xdg-open"
	if runtime.GOOS == "darwin" {
		name = "open"
	}
	dir := t.TempDir()
	seen = filepath.Join(dir, "seen")
	script := "#!/bin/sh\nprintf %s \"$*\" >'" + seen + ".new' && mv '" + seen + ".new' '" + seen + "'\n"
	if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	t.Setenv("DISPLAY", ":0")
	return seen
}

// get returns the text of an answer of 200.
func get(t *testing.T, c *http.Client, address string) string {
	t.Helper()
	answer, err := c.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%s, %v: %s", answer.Status, err, text)
	}
	return string(text)
}

// TestWeb: the link that is printed leads to the page, until the run is interrupted. That the daemon is away is told on
// standard error.
func TestWeb(t *testing.T) {
	f := newWebDaemon(t)
	link, end := startWeb(t, f, ui.Terminal{ErrTTY: true}, "--no-open")
	if !regexp.MustCompile(`^http://127\.0\.0\.1:[0-9]+/open\?token=[A-Za-z0-9_-]{43}$`).MatchString(link) {
		t.Fatal(link)
	}
	f.RemoveSocket(client.SocketName)
	browser, page := openLink(t, link)
	events, err := browser.Get(page + "events")
	if err != nil || events.StatusCode != http.StatusOK {
		t.Fatal(events, err)
	}
	defer events.Body.Close()
	for lines := bufio.NewScanner(events.Body); lines.Scan() && !strings.Contains(lines.Text(), `"why":"no daemon`); {
	}
	if got := end(); !strings.HasPrefix(got, "open this link in your browser within a minute: it works once; ^C ends it\nacpctl web: the daemon is away: ") {
		t.Errorf("%q", got)
	}
}

// TestWebAsksForTheNumber: a link that stands in a command line counts when the number is typed that its
// browser shows.
// holds: security.md#the-page-of-acpctl-web
func TestWebAsksForTheNumber(t *testing.T) {
	f := newWebDaemon(t)
	seen := fakeOpener(t)
	typed, keys := io.Pipe()
	printed, end := startWeb(t, f, ui.Terminal{In: typed, InTTY: true, ErrTTY: true})
	var link string
	await.Until(t, "the desktop has the link", func() bool {
		text, err := os.ReadFile(seen)
		link = string(text)
		return err == nil
	})
	browser, page := openLink(t, link)
	number := regexp.MustCompile(`[0-9]{4}`).FindString(strings.SplitAfter(get(t, browser, page), "<h1>")[1])
	if _, err := io.WriteString(keys, number+"\n"); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the page comes", func() bool { return strings.Contains(get(t, browser, page), "page.js") })
	const want = "it opens in your browser, which shows a number to type here; ^C ends it\na browser has opened the link; type the number that it shows: "
	if got := end(); got != want || printed != link {
		t.Errorf("%q, %q", got, printed)
	}
}

// TestWebOpensNothingUnasked: where nobody can be asked, the link is in no command line.
// holds: security.md#the-page-of-acpctl-web
func TestWebOpensNothingUnasked(t *testing.T) {
	f := newWebDaemon(t)
	seen := fakeOpener(t)
	for _, terminal := range []ui.Terminal{{}, {InTTY: true}, {ErrTTY: true}} {
		link, end := startWeb(t, f, terminal)
		openLink(t, link)
		if got := end(); !strings.HasPrefix(got, "acpctl web: no browser is opened: ") || strings.Count(got, "\n") != 1 {
			t.Errorf("%q", got)
		}
	}
	if _, err := os.Stat(seen); err == nil {
		t.Error("the link was in a command line")
	}
}

// holds: security.md#agents-on-this-machine
func TestWebIsRefused(t *testing.T) {
	f := newWebDaemon(t)
	f.WantResult(f.Run("web", "--port", "70000"), frame.ExitUsage, "", "acpctl web: --port: 70000: expected a number from 1 to 65535\nSee: acpctl web --help\n")
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	if got := f.Run("web", "--port", port); got.Code != frame.ExitLocal || !strings.HasSuffix(got.Err, "address already in use: choose another --port, or leave it out\n") {
		t.Errorf("%+v", got)
	}
	f.SetAnswer(client.MethodWhoami, kinds.Errorf(kinds.DaemonUnavailable, "no daemon"))
	if got := f.Run("web"); got.Code != frame.ExitNoDaemon || got.Out != "" {
		t.Errorf("%+v", got)
	}
	t.Setenv("ACP_SOCKET", filepath.Join(t.TempDir(), client.SocketName))
	var stderr bytes.Buffer
	if code := f.RunWithoutHome(t.Context(), ui.Terminal{In: strings.NewReader(""), Out: io.Discard, Err: &stderr}, "web"); code != frame.ExitUsage || !strings.Contains(stderr.String(), "ACP_SOCKET is set: unset it") {
		t.Errorf("%d %s", code, &stderr)
	}
}
