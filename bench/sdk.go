package main

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"
)

//go:embed sdk.py
var sdkScript string

const sdkKey = "any"

// benchSDK measures the published OpenIntent SDK against acpd on loopback TCP and against
// OpenIntent's reference server. venv is the virtual environment that has both:
// .interop/openintent, once make interop has run.
func benchSDK(ctx context.Context, venv string, to *report, log io.Writer) error {
	venv, err := filepath.Abs(venv)
	if err != nil {
		return err
	}
	to.command = "sdk VENV"
	return measureParts(ctx, channelsVariant, to, log, part{"SDK", func(f *fleet) ([]figure, error) { return f.measureSDK(venv, log) }})
}

func (f *fleet) measureSDK(venv string, log io.Writer) ([]figure, error) {
	h, err := createHome(f.joinPath("home"))
	if err != nil {
		return nil, err
	}
	ours, theirs := findFreeAddr(), findFreeAddr()
	hash := sha256.Sum256([]byte(sdkKey))
	config := fmt.Sprintf("channels:\n  listen: %s\n  keys: [{sha256: %s}]\n", ours, hex.EncodeToString(hash[:]))
	if err := os.WriteFile(filepath.Join(h.dir, "config.yaml"), []byte(config), 0o600); err != nil {
		return nil, err
	}
	if _, err := f.spawnDaemon(h.dir, "--no-mdns"); err != nil {
		return nil, err
	}
	stop, err := startReferenceServer(f.ctx, venv, theirs, f.dir)
	if err != nil {
		return nil, err
	}
	defer stop()
	fmt.Fprintln(log, "acpd")
	post, ask, err := f.timeSDK(venv, ours, 1000, 200)
	if err != nil {
		return nil, err
	}
	fmt.Fprintln(log, "reference")
	theirPost, theirAsk, err := f.timeSDK(venv, theirs, 1000, 10)
	if err != nil {
		return nil, err
	}
	return []figure{
		{what: "SDK ask, acpd", unit: "ms", values: ask, target: 5},
		{what: "SDK ask, acpd: p99", unit: "ms", values: []float64{slices.Sorted(slices.Values(ask))[len(ask)*99/100]}, target: 20},
		{what: "SDK ask, reference server", unit: "ms", values: theirAsk},
		{what: "SDK message, acpd", unit: "ms", values: post, target: 0.6},
		{what: "SDK message, reference server", unit: "ms", values: theirPost},
	}, nil
}

func findFreeAddr() string {
	l, err := net.Listen("tcp", loopback)
	if err != nil {
		panic(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// startReferenceServer starts OpenIntent's own server, with its state in dir, and waits until
// it answers. The caller stops it.
func startReferenceServer(ctx context.Context, venv, addr, dir string) (stop func(), err error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, filepath.Join(venv, "bin", "openintent-server"), "--host", host, "--port", port,
		"--api-keys", sdkKey, "--log-level", "error", "--database-url", "sqlite:///"+filepath.Join(dir, "reference.db"))
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("the reference server: %w: run make interop first", err)
	}
	stop = func() {
		cmd.Process.Kill()
		cmd.Wait()
	}
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if answer, err := http.Get("http://" + addr + "/.well-known/openintent.json"); err == nil {
			answer.Body.Close()
			return stop, nil
		}
	}
	stop()
	return nil, errors.New("the reference server does not answer")
}

// timeSDK has the SDK send and ask, one after the other.
func (f *fleet) timeSDK(venv, addr string, posts, asks int) (post, ask []float64, err error) {
	cmd := exec.CommandContext(f.ctx, filepath.Join(venv, "bin", "python"), "-c", sdkScript, "http://"+addr, sdkKey, fmt.Sprint(posts), fmt.Sprint(asks))
	cmd.Stderr = os.Stderr
	text, err := cmd.Output()
	if err != nil {
		return nil, nil, fmt.Errorf("the SDK: %w", err)
	}
	var took struct{ Post, Ask []float64 }
	if err := json.Unmarshal(text, &took, json.MatchCaseInsensitiveNames(true)); err != nil {
		return nil, nil, err
	}
	return took.Post, took.Ask, nil
}
