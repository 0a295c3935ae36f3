package ui

import (
	"math"
	"strings"
	"testing"
)

// Text is broken between words at 100 cells at most; lists and columns keep their form.
func TestWrap(t *testing.T) {
	const text = `A sentence that was
broken by hand.

  stdin   what is asked, as
          JSON
  exit    anything but 0
  1. first, and what belongs
     to it
  2. second`
	for width, want := range map[int]string{
		80: "A sentence that was broken by hand.\n\n  stdin   what is asked, as JSON\n  exit    anything but 0\n  1. first, and what belongs to it\n  2. second",
		26: "A sentence that was broken\nby hand.\n\n  stdin   what is asked,\n          as JSON\n  exit    anything but 0\n  1. first, and what\n     belongs to it\n  2. second",
	} {
		if got := Wrap(text, width); got != want {
			t.Errorf("%d columns:\n%s\nwant\n%s", width, got, want)
		}
	}
	for line := range strings.SplitSeq(Wrap(strings.Repeat("word ", 100), math.MaxInt), "\n") {
		if CountCells(line) > readWidth {
			t.Errorf("%d cells: %q", CountCells(line), line)
		}
	}
	if got, want := WrapBehind("[x] ", "日本語 日本語 日本語 日本語", 20), "[x] 日本語 日本語\n    日本語 日本語"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := WrapLines("desk says: all is well here\nacpctl: no", 20), "desk says: all is\n  well here\nacpctl: no"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
