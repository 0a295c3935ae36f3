package ui

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// FitCells returns a line of text in so many cells of a terminal: cut with an ellipsis, or with spaces
// behind it. Text of [client.Line] is what it takes.
func FitCells(text string, cells int) string {
	used, fit := 0, 0 // cells of text so far; bytes of text that leave a cell for the ellipsis
	for i, r := range text {
		n := widthOf(r)
		if used+n > cells {
			return text[:fit] + "…" + strings.Repeat(" ", max(cells-1-CountCells(text[:fit]), 0))
		}
		used += n
		if used < cells {
			_, size := utf8.DecodeRuneInString(text[i:])
			fit = i + size
		}
	}
	return text + strings.Repeat(" ", cells-used)
}

// CutCells returns a line of text in at most so many cells of a terminal: cut with an ellipsis, or as it
// is.
func CutCells(text string, cells int) string {
	if CountCells(text) <= cells {
		return text
	}
	return strings.TrimRight(FitCells(text, cells), " ")
}

// ShareCells cuts two lines of text so that both fit so many cells: each gets what the other leaves, and
// half of them if both want more.
func ShareCells(first, second string, cells int) (string, string) {
	n, m := CountCells(first), CountCells(second)
	n = min(n, max(cells-m, cells-cells/2))
	return CutCells(first, n), CutCells(second, cells-n)
}

// CountCells returns how many cells of a terminal a line of text takes.
func CountCells(text string) (cells int) {
	for _, r := range text {
		cells += widthOf(r)
	}
	return cells
}

// wide has the characters that take two cells, roughly: those of East Asian scripts (UAX #11) and
// emoji.
var wide = &unicode.RangeTable{
	R16: []unicode.Range16{{0x1100, 0x115f, 1}, {0x2e80, 0x303e, 1}, {0x3041, 0xa4cf, 1}, {0xa960, 0xa97c, 1}, {0xac00, 0xd7a3, 1}, {0xf900, 0xfaff, 1}, {0xfe30, 0xfe6f, 1}, {0xff01, 0xff60, 1}, {0xffe0, 0xffe6, 1}},
	R32: []unicode.Range32{{0x1f300, 0x1f64f, 1}, {0x1f680, 0x1f6ff, 1}, {0x1f900, 0x1faff, 1}, {0x20000, 0x3fffd, 1}},
}

// widthOf returns how many cells a terminal uses for a character.
func widthOf(r rune) int {
	switch {
	case r < 0x300:
		return 1
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return 0
	case unicode.Is(wide, r):
		return 2
	}
	return 1
}
