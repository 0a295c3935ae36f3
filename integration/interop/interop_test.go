//go:build interop

// Package interop holds acpd against the OACP reference tool, as it is published
// for Python. `make interop` installs it.
package interop

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// venvs is the folder into which make interop puts the reference: in "pinned" the release whose
// behaviour is the contract, in "newest" the latest.
const venvs = "../../.interop"

// venv is the folder of an installed reference.
func venv(tb testing.TB, which string) string {
	tb.Helper()
	dir, err := filepath.Abs(filepath.Join(venvs, which))
	if err != nil {
		tb.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "bin", "oacp")); err != nil {
		tb.Fatalf("the reference tool is not installed: run make interop (%v)", err)
	}
	return dir
}

// reference is one process of reference.py.
type reference struct {
	mu  sync.Mutex
	in  io.Writer
	out *bufio.Reader
}

// start starts a reference that ends with the test.
func start(tb testing.TB, which string) *reference {
	tb.Helper()
	cmd := exec.Command(filepath.Join(venv(tb, which), "bin", "python"), "reference.py")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		tb.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			tb.Errorf("reference: %v", err)
		}
	})
	return &reference{in: in, out: bufio.NewReader(out)}
}

// ask sends a request and decodes the answer.
func (r *reference) ask(tb testing.TB, request map[string]any, answer any) {
	tb.Helper()
	line, err := json.Marshal(request)
	if err != nil {
		tb.Fatal(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, err := r.in.Write(append(line, '\n')); err != nil {
		tb.Fatal(err)
	}
	line, err = r.out.ReadBytes('\n')
	if err != nil {
		tb.Fatalf("reference: %v", err)
	}
	if err := json.Unmarshal(line, answer, jsontext.AllowInvalidUTF8(true)); err != nil {
		tb.Fatalf("reference: %v in %s", err, line)
	}
}
