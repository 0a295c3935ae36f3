package operate

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/cookiejar"
	"regexp"
	"strings"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/app/cli/ui"
)

// TestWebTellsOfAnOutage: that the daemon is away is told on standard error, also where no person reads that.
func TestWebTellsOfAnOutage(t *testing.T) {
	f := newDaemon(t)
	f.SetAnswer(client.MethodWhoami, &client.Whoami{Name: "laptop"})
	ctx, cancel := context.WithCancel(t.Context())
	printed, out := io.Pipe()
	told, stderr := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		ended <- f.RunWithoutHome(ctx, ui.Terminal{In: strings.NewReader(""), Out: out, Err: stderr}, "--home", f.Home, "web", "--no-open")
		stderr.Close()
	}()
	line, err := bufio.NewReader(printed).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	link := strings.TrimSpace(line)
	f.RemoveSocket(client.SocketName)
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{Jar: jar}
	folder := regexp.MustCompile(`url=(/[^/]+/)`).FindStringSubmatch(get(t, browser, link))[1]
	events, err := browser.Get(link[:strings.Index(link, "/open")] + folder + "events")
	if err != nil || events.StatusCode != http.StatusOK {
		t.Fatal(events, err)
	}
	lines := bufio.NewReader(told)
	if line, err := lines.ReadString('\n'); err != nil || !strings.HasPrefix(line, "acpctl web: the daemon is away: ") {
		t.Errorf("%q, %v", line, err)
	}
	events.Body.Close()
	cancel()
	if rest, err := io.ReadAll(lines); err != nil || len(rest) > 0 {
		t.Errorf("%q, %v", rest, err)
	}
	if code := <-ended; code != 0 {
		t.Errorf("exit code %d", code)
	}
}
