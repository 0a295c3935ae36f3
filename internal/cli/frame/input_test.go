package frame

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// What a command line names as @FILE may begin with a tilde, which no shell expands there.
func TestArgumentFileWithATilde(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	if err := os.WriteFile(filepath.Join(home, "note"), []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	if text, err := readArgumentFile("~/note"); text != "text" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
}

// A line that comes after its reader has given up is the next reader's.
func TestReadLineAfterOneThatWasGivenUp(t *testing.T) {
	r, w := io.Pipe()
	f := &Frame{}
	f.In = r
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if line, err := f.ReadLine(ended); line != "" || err != context.Canceled {
		t.Errorf("%q, %v", line, err)
	}
	go func() {
		io.WriteString(w, "first\nsecond\nlast")
		w.Close()
	}()
	for _, want := range []string{"first", "second", "last", ""} {
		if line, err := f.ReadLine(t.Context()); line != want || err != nil || f.InputEnded() != (want == "last" || want == "") {
			t.Errorf("%q, %v, ended %v; want %q", line, err, f.InputEnded(), want)
		}
	}
}
