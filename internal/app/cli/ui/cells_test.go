package ui

import (
	"strings"
	"testing"
)

func TestCutCells(t *testing.T) {
	for _, c := range []struct {
		text  string
		cells int
		want  string
	}{
		{"abc", 5, "abc"},
		{"abc", 3, "abc"},
		{"abcd", 3, "ab…"},
		{"äöüß", 3, "äö…"},
		{"日本語", 6, "日本語"},
		{"日本語", 5, "日本…"},
		{"日本語", 4, "日…"},
		{"e\u0301a", 2, "e\u0301a"},
		{"😀😀", 3, "😀…"},
		{"⌚𗀀🟠", 6, "⌚𗀀🟠"}, // wide, and far from the others that are
		{"⌚𗀀🟠", 5, "⌚𗀀…"},
		{"abc", 1, "…"},
		{"abc", 0, ""},
	} {
		if got := CutCells(c.text, c.cells); got != c.want {
			t.Errorf("%q in %d cells: %q, want %q", c.text, c.cells, got, c.want)
		}
	}
}

func TestCutMiddle(t *testing.T) {
	for _, c := range []struct {
		text  string
		cells int
		want  string
	}{
		{"abc", 3, "abc"},
		{"abcdef", 5, "ab…ef"},
		{"abcdef", 4, "ab…f"},
		{"abcdef", 2, "a…"},
		{"abcdef", 1, "…"},
		{"abcdef", 0, ""},
		{"日本語日本語", 8, "日本…語"},
		{"abcde\u0301f", 4, "ab…f"},
		{"abcdefe\u0301", 4, "ab…e\u0301"},
		{"a\u0301bcdef", 3, "a\u0301…f"},
	} {
		if got := CutMiddle(c.text, c.cells); got != c.want {
			t.Errorf("%q in %d cells: %q, want %q", c.text, c.cells, got, c.want)
		}
	}
}

func TestShareCells(t *testing.T) {
	for _, c := range []struct {
		first, second string
		cells         int
		want          string
	}{
		{"abc", "def", 6, "abc|def"},
		{"abc", "def", 99, "abc|def"},
		{"abcdef", "ghijkl", 6, "ab…|gh…"},
		{"abcdef", "gh", 6, "abc…|gh"},
		{"ab", "cdefgh", 6, "ab|cde…"},
		{"日本語", "abcdef", 7, "日…|ab…"},
		{"abcdef", "", 4, "abc…|"},
	} {
		first, second := ShareCells(c.first, c.second, c.cells)
		if got := first + "|" + second; got != c.want || CountCells(first)+CountCells(second) > c.cells {
			t.Errorf("%q and %q in %d cells: %q, want %q", c.first, c.second, c.cells, got, c.want)
		}
	}
}

func FuzzCutCells(f *testing.F) {
	f.Add("日本語 e\u0301 😀", 4)
	f.Add(strings.Repeat("\u0301", 9), 2)
	f.Fuzz(func(t *testing.T, text string, cells int) {
		if cells < 1 || cells > 200 {
			return
		}
		if got := CutCells(text, cells); CountCells(got) > cells || CountCells(text) <= cells && got != text {
			t.Errorf("%q is cut to %q, which takes %d cells of %d", text, got, CountCells(got), cells)
		}
		if got := CutMiddle(text, cells); CountCells(got) > cells || CountCells(text) <= cells && got != text {
			t.Errorf("%q is cut in the middle to %q, which takes %d cells of %d", text, got, CountCells(got), cells)
		}
		if a, b := ShareCells(text, text, cells); CountCells(a)+CountCells(b) > cells {
			t.Errorf("%q twice is %q and %q, more than %d cells", text, a, b, cells)
		}
	})
}
