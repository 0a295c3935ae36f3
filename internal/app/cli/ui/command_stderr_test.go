package ui

import (
	"bytes"
	"strings"
	"testing"
)

// What a command says on a terminal plays no tricks with it, also where a sequence
// comes in two parts; where nobody looks it stays as it is.
// holds: security.md#agents-on-this-machine
func TestStderrIsTamed(t *testing.T) {
	say := func(harmless bool, parts ...string) string {
		var out bytes.Buffer
		shown := &CommandStderr{w: &out, harmless: harmless}
		for _, p := range parts {
			if n, err := shown.Write([]byte(p)); n != len(p) || err != nil {
				t.Fatal(n, err)
			}
		}
		shown.Flush()
		return out.String()
	}
	for _, c := range []struct{ want, raw string }{
		{"one\ntwo\n", "one\ntwo"},
		{"one\n\ntwo\n", "one\n\ntwo\n"},
		{"ab\n", "a\x1b[2Jb\n"},
		{"title\n", "\x1b]0;gone\x07title\n"},
		{"abc\n", "a\u202eb\x07c"},
	} {
		for cut := range len(c.raw) {
			if got := say(true, c.raw[:cut], c.raw[cut:]); got != c.want {
				t.Errorf("%q, cut at %d: %q, want %q", c.raw, cut, got, c.want)
			}
		}
		if got := say(false, c.raw); got != c.raw {
			t.Errorf("raw: %q", got)
		}
	}
	if got := say(true, strings.Repeat("x", 3*maxLine), "\n"); strings.Count(got, "\n") != 3 || len(got) != 3*maxLine+3 {
		t.Errorf("a long line has become %d bytes", len(got))
	}
}
