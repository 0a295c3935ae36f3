package admin

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

// A socket at which another program listens stays that program's.
func TestPprofTakesNoSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "other.sock")
	other, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := ServePprof(t.Context(), path); err == nil || !strings.Contains(err.Error(), "a program listens at") {
		t.Errorf("ServePprof returned %v", err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
}

// Profiles are served on a socket that only the user can open, and that is gone at the end.
func TestPprofSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pprof.sock")
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- ServePprof(ctx, path) }()
	await.Until(t, "the socket", func() bool { info, err := os.Stat(path); return err == nil && info.Mode() == os.ModeSocket|0o600 })
	program := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}}
	answer, err := program.Get("http://acpd/debug/pprof/goroutine?debug=1")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if text, err := io.ReadAll(answer.Body); err != nil || !strings.Contains(string(text), "ServePprof") {
		t.Errorf("%v\n%s", err, text)
	}
	cancel()
	if err := await.Receive(t, "the end", served); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("the socket is still there")
	}
}
