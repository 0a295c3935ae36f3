package operate

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/cookiejar"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/internal/app/cli/ui"
)

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

// TestWebAsksForTheNumber: a link that stands in a command line counts when the number is typed that its
// browser shows.
// holds: security.md#the-page-of-acpctl-web
func TestWebAsksForTheNumber(t *testing.T) {
	f := newDaemon(t)
	f.SetAnswer(client.MethodWhoami, &client.Whoami{Name: "laptop"})
	seen := fakeOpener(t)
	ctx, cancel := context.WithCancel(t.Context())
	typed, keys := io.Pipe()
	var out, stderr bytes.Buffer
	ended := make(chan int, 1)
	go func() {
		ended <- f.RunWithoutHome(ctx, ui.Terminal{In: typed, Out: &out, Err: &stderr, InTTY: true, ErrTTY: true}, "--home", f.Home, "web")
	}()
	var link string
	await.Until(t, "the desktop has the link", func() bool {
		text, err := os.ReadFile(seen)
		link = string(text)
		return err == nil
	})
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{Jar: jar}
	folder := regexp.MustCompile(`url=(/[^/]+/)`).FindStringSubmatch(get(t, browser, link))
	page := link[:strings.Index(link, "/open")] + folder[1]
	number := regexp.MustCompile(`[0-9]{4}`).FindString(strings.SplitAfter(get(t, browser, page), "<h1>")[1])
	if _, err := io.WriteString(keys, number+"\n"); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the page comes", func() bool { return strings.Contains(get(t, browser, page), "page.js") })
	browser.CloseIdleConnections()
	cancel()
	if code := <-ended; code != 0 {
		t.Errorf("exit code %d", code)
	}
	const want = "it opens in your browser, which shows a number to type here; ^C ends it\na browser has opened the link; type the number that it shows: "
	if stderr.String() != want || out.String() != link+"\n" {
		t.Errorf("%q, %q", stderr.String(), out.String())
	}
}

// TestWebOpensNothingUnasked: where nobody can be asked, the link is in no command line.
// holds: security.md#the-page-of-acpctl-web
func TestWebOpensNothingUnasked(t *testing.T) {
	f := newDaemon(t)
	f.SetAnswer(client.MethodWhoami, &client.Whoami{Name: "laptop"})
	seen := fakeOpener(t)
	for _, terminal := range []ui.Terminal{{}, {InTTY: true}, {ErrTTY: true}} {
		ctx, cancel := context.WithCancel(t.Context())
		printed, out := io.Pipe()
		var stderr bytes.Buffer
		terminal.In, terminal.Out, terminal.Err = strings.NewReader(""), out, &stderr
		ended := make(chan int, 1)
		go func() { ended <- f.RunWithoutHome(ctx, terminal, "--home", f.Home, "web") }()
		b := make([]byte, 256)
		n, err := printed.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		if text := get(t, http.DefaultClient, strings.TrimSuffix(string(b[:n]), "\n")); !strings.Contains(text, "url=/") {
			t.Errorf("%s", text)
		}
		http.DefaultClient.CloseIdleConnections()
		cancel()
		if code := <-ended; code != 0 || !strings.HasPrefix(stderr.String(), "acpctl web: no browser is opened: ") || strings.Count(stderr.String(), "\n") != 1 {
			t.Errorf("exit code %d: %q", code, stderr.String())
		}
	}
	if _, err := os.Stat(seen); err == nil {
		t.Error("the link was in a command line")
	}
}
