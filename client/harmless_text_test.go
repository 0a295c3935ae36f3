package client

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestText(t *testing.T) {
	tests := []struct{ in, want string }{
		{"plain text\n\tindented", "plain text\n\tindented"},
		{"grüße 漢字 👩‍👩‍👧 ❤️", "grüße 漢字 👩‍👩‍👧 ❤️"},
		{"\x1b[31mred\x1b[0m", "red"},
		{"\x1b[38;2;1;2;3mred\x1b[?25l", "red"},
		{"\u009b31mred", "red"},
		{"\x1b]0;title\atext", "text"},
		{"\x1b]8;;https://desk.example\x1b\\link\x1b]8;;\x1b\\", "link"},
		{"\u009d52;c;ZXZpbA==\u009ctext", "text"},
		{"\x1bPq#0\x1b\\text", "text"},
		{"\x1b]0;no end\nnext line", "]0;no end\nnext line"},
		{"\x1b(Btext\x1bc", "text"},
		{"\x1b", ""},
		{"\x1b[", ""},
		{"\x1b\x1b[31m[31mx", "[31mx"},
		{"safe\rEVIL\b\b\a\x00\x7f", "safeEVIL"},
		{"a\r\nb", "a\nb"},
		{"\u202eevil\u202c \u2066x\u2069\u200f\u061c", "evil x"},
		{"in\u200bvis\ufeffible\u00ad", "invisible"},
		{"tags\U000e0041\U000e0042 selectors\U000e0100", "tags selectors"},
		{"a\ufe00\ufe01 \u4e16\ufe00 \u2764\ufe0f\ufe0f 1\ufe0f\u20e3 a\u200db \u4e16\u200d\u200d\u754c", "a \u4e16 \u2764\ufe0f 1\ufe0f\u20e3 ab \u4e16\u200d\u754c"},
		{"fill\u3164ers\u115f and a joiner\u034f", "fillers and a joiner"},
		{"line\u2028separators\u2029", "lineseparators"},
		{"bad \xff\xc3 utf-8", "bad \ufffd\ufffd utf-8"},
		// A syllable of Hebrew with all its points and an accent, of Burmese, Thai and Tibetan are whole; a tower is not.
		{"\u05e9\u05c1\u05bc\u05b8\u0596", "\u05e9\u05c1\u05bc\u05b8\u0596"},
		{"\u101c\u103e\u102d\u102f\u1037\u101d\u103e\u1000\u103a", "\u101c\u103e\u102d\u102f\u1037\u101d\u103e\u1000\u103a"},
		{"\u0e17\u0e35\u0e48 \u0f66\u0f92\u0fb2\u0f74", "\u0e17\u0e35\u0e48 \u0f66\u0f92\u0fb2\u0f74"},
		{"n" + strings.Repeat("\u0323", 31) + "e\u0323xt", "n\u0323\u0323\u0323\u0323e\u0323xt"},
		{"\u0323\u0323\u0323\u20dd\u0323\n\u0323", "\u0323\u0323\u0323\u20dd\n\u0323"},
		{"n" + strings.Repeat("\u0323\u0323\u200d", 9) + ".", "n\u0323\u0323\u200d\u0323\u0323\u200d."},
		{"n" + strings.Repeat("\u0323\u0323\u200c\u200b", 9), "n\u0323\u0323\u200c\u0323\u0323\u200c"},
		{"\u0915" + strings.Repeat("\u0951\u0951\u093e", 4), "\u0915\u0951\u0951\u093e\u0951\u0951\u093e\u093e\u093e"},
		{"\xc2\x1b[m\x9b31m", "\ufffd\ufffd31m"},
	}
	for _, test := range tests {
		if got := Text(test.in); got != test.want {
			t.Errorf("%q: got %q, want %q", test.in, got, test.want)
		}
	}
	if got := Text(strings.Repeat("\x1b]", 1<<20)); got != strings.Repeat("]", 1<<20) {
		t.Error("a flood of unfinished control strings")
	}
	if got := Line("a\r\nb\tc\x1b[m"); got != "a b c" {
		t.Errorf("got %q", got)
	}
}

// TestJSON: strings say what they said, and nothing in them is hidden or obeyed.
func TestJSON(t *testing.T) {
	for in, want := range map[string]string{
		`{"k":"grüße 漢字 👩‍👩 \u009b"}`:                        `{"k":"grüße 漢字 👩‍👩 \u009b"}`,
		"[\"\u009b31m\x7f\u202e\u200d\"]":                    `["\u009b31m\u007f\u202e\u200d"]`,
		"[\"n\u0323\u0323\u0323\u0323\u200d\u0323e\u0323\"]": "[\"n\u0323\u0323\u0323\u0323\u200d\\u0323e\u0323\"]",
		"[\"\U000e0041 \xff\"]":                              `["\udb40\udc41 ` + "\ufffd" + `"]`,
	} {
		if got := string(JSON([]byte(in))); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

func FuzzText(f *testing.F) {
	for _, s := range []string{"text", "\x1b[31mred", "\x1b]0;x\a", "\u009d52;c;x\u009c", "\x1bP\x1b\\", "\u202e\xff\xc2", "\x1b(B\x1b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := Text(s)
		if !utf8.ValidString(got) {
			t.Fatalf("invalid UTF-8: %q", got)
		}
		if i := strings.IndexFunc(got, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }); i >= 0 {
			t.Fatalf("a control character: %q", got)
		}
		if again := Text(got); again != got {
			t.Fatalf("%q, then %q", got, again)
		}
		if strings.ContainsAny(Line(s), "\n\t") {
			t.Fatal("not one line")
		}
	})
}
