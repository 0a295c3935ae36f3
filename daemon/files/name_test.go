package files

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// A name that a peer gives a file becomes one that any system takes, and that leads nowhere.
// holds: security.md#files
func TestCleanName(t *testing.T) {
	for name, want := range map[string]string{
		"build.log": "build.log", "../../etc/passwd": "passwd", `C:\Users\me\notes.txt`: "notes.txt", "..": "file", ".": "file", "": "file", "/": "file", "a/": "file", ".bashrc": "_bashrc", "...x": "_..x", "-rf": "_rf", "--checkpoint-action=exec=sh x": "_-checkpoint-action=exec=sh x",
		"a\x00b\nc\td": "ab c d", "name.": "name", "name . ": "name", " name ": "name", "\u202egnp.exe": "gnp.exe", "a\u200bb": "ab", "\xffx": "\ufffdx", "\x1b[31mred": "red", "a:b|c?": "a_b_c_",
		"con": "_on", "CON.txt": "_ON.txt", "nul.tar.gz": "_ul.tar.gz", "com1": "_om1", "lpt9.log": "_pt9.log", "com10": "com10", "console": "console", "conin$": "_onin$", "com¹": "_om¹",
		"é.txt": "é.txt", "日本.md": "日本.md",
		strings.Repeat("a", 300) + ".tar":  strings.Repeat("a", 251) + ".tar",
		strings.Repeat("é", 200) + ".tar":  strings.Repeat("é", 125) + ".tar",
		"x." + strings.Repeat("b", 300):    "x." + strings.Repeat("b", 253),
		strings.Repeat(".", 300) + "x.txt": "_" + strings.Repeat(".", 250) + ".txt",
	} {
		if got := cleanName(name); got != want {
			t.Errorf("%.40q became %q, want %q", name, got, want)
		}
	}
}

// FuzzCleanName: whatever a peer calls a file, it gets a name that leads nowhere and that every system takes.
// holds: security.md#files
func FuzzCleanName(f *testing.F) {
	for _, name := range []string{"build.log", "../x", `..\x`, ".", "con.txt", "a\x00", "\u202e", strings.Repeat(".", 300), strings.Repeat("é ", 200), "\xff"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		got := cleanName(name)
		last, _ := utf8.DecodeLastRuneInString(got)
		switch {
		case got == "", len(got) > maxName, !utf8.ValidString(got), strings.ContainsAny(got, "/\\\x00"), got[0] == '.', got[0] == '-', last == '.', unicode.IsSpace(last), deviceName.MatchString(got):
			t.Errorf("%q became %q", name, got)
		case cleanName(got) != got:
			t.Errorf("%q became %q, and that %q", name, got, cleanName(got))
		}
	})
}
