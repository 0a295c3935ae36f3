package frame

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acpd/acpd/internal/app/cli/ui"
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

// All questions take the same answers. A second one that is neither yes nor no is taken for no, as is the end of the
// input, and that is said.
func TestConfirm(t *testing.T) {
	const asked, again, no = "Go on? Type yes or no: ", "That is no answer. Type yes or no: ", "That was taken for no.\n"
	for typed, want := range map[string]struct {
		yes  bool
		said string
	}{
		"yes\n": {true, asked}, "Y\n": {true, asked}, "yes": {true, asked + "\n"},
		"n\nyes\n": {false, asked}, "NO\n": {false, asked},
		"\nyes\n": {true, asked + again}, "ye\nyess\nyes\n": {false, asked + again + no},
		"": {false, asked + "\n" + no}, "\n": {false, asked + again + "\n" + no},
	} {
		var said strings.Builder
		f := &Frame{Terminal: ui.Terminal{In: strings.NewReader(typed), Err: &said, InTTY: true}}
		if yes, err := f.Confirm(t.Context(), "Go on?"); yes != want.yes || err != nil || said.String() != want.said {
			t.Errorf("%q: %v, %v, %q", typed, yes, err, &said)
		}
	}
}

// A question without a default is asked until it is answered.
func TestChoose(t *testing.T) {
	for typed, want := range map[string]string{"\n\nperhaps\nA\nyes\n": "ask", "no\n": "no", "x\n": "", "": ""} {
		var said strings.Builder
		f := &Frame{Terminal: ui.Terminal{In: strings.NewReader(typed), Err: &said, InTTY: true}}
		if got, err := f.Choose(t.Context(), "Which?", "yes", "ask", "no"); got != want || err != nil || !strings.HasPrefix(said.String(), "Which?\nType yes, ask or no: ") || strings.Count(said.String(), "Which?") != 1 {
			t.Errorf("%q: %q, %v, %q", typed, got, err, &said)
		}
	}
}
