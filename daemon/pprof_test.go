package daemon

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acpd/acpd/integration/await"
)

// With --pprof the daemon serves profiles on a socket that only its user can open, and removes it when it ends.
func TestPprofSocket(t *testing.T) {
	t.Parallel()
	path := filepath.Join(stateDir(t), "pprof.sock")
	d := startWith(t, Options{Home: stateDir(t), Listen: "127.0.0.1:0", NoMDNS: true, Pprof: path})
	var info os.FileInfo
	await.Until(t, "the socket", func() (ok bool) {
		var err error
		info, err = os.Stat(path)
		return err == nil
	})
	if info.Mode() != os.ModeSocket|0o600 {
		t.Errorf("the socket has mode %v", info.Mode())
	}
	program := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}}
	answer, err := program.Get("http://acpd/debug/pprof/goroutine?debug=1")
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(answer.Body)
	answer.Body.Close()
	if err != nil || !strings.Contains(string(text), "ServePprof") {
		t.Errorf("%v\n%s", err, text)
	}
	d.stop()
	if _, err := os.Stat(path); err == nil {
		t.Error("the socket is still there")
	}
}
