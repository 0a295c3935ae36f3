package operate

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/internal/app/cli/ui"
	"github.com/acpd/acpd/kinds"
)

// TestWeb: the link that is printed leads to the page, until the run is interrupted.
func TestWeb(t *testing.T) {
	f := newDaemon(t)
	f.SetAnswer(client.MethodWhoami, &client.Whoami{Name: "laptop"})
	ctx, cancel := context.WithCancel(t.Context())
	printed, out := io.Pipe()
	var stderr bytes.Buffer
	ended := make(chan int, 1)
	go func() {
		ended <- f.RunWithoutHome(ctx, ui.Terminal{In: strings.NewReader(""), Out: out, Err: &stderr, ErrTTY: true}, "--home", f.Home, "web", "--no-open")
	}()
	b := make([]byte, 256)
	n, err := printed.Read(b)
	link := strings.TrimSuffix(string(b[:n]), "\n")
	if err != nil || !regexp.MustCompile(`^http://127\.0\.0\.1:[0-9]+/open\?token=[A-Za-z0-9_-]{43}$`).MatchString(link) {
		t.Fatalf("%q, %v", b[:n], err)
	}
	answer, err := http.Get(link)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatal(answer, err)
	}
	answer.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	cancel()
	if code := <-ended; code != 0 {
		t.Errorf("exit code %d: %s", code, &stderr)
	}
	if want := "open this link in your browser within a minute: it works once; ^C ends it\n"; stderr.String() != want {
		t.Errorf("%q, want %q", stderr.String(), want)
	}
}

// holds: security.md#agents-on-this-machine
func TestWebIsRefused(t *testing.T) {
	f := newDaemon(t)
	f.SetAnswer(client.MethodWhoami, &client.Whoami{Name: "laptop"})
	f.WantResult(f.Run("web", "--port", "70000"), frame.ExitUsage, "", "acpctl web: --port: 70000: expected a number from 1 to 65535\nSee: acpctl web --help\n")
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	f.WantResult(f.Run("web", "--port", port), frame.ExitLocal, "", "acpctl web: --port: another program listens on port "+port+" of 127.0.0.1: choose another --port, or leave it out\n")
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
