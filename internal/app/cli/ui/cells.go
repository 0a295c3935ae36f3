package ui

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// CutCells returns a line of text in at most so many cells of a terminal: cut with an ellipsis, or as it
// is. Text of [client.Line] is what it takes.
func CutCells(text string, cells int) string {
	used, fit := 0, 0 // cells of text so far; bytes of text that leave a cell for the ellipsis
	for i, r := range text {
		used += widthOf(r)
		switch {
		case used > cells && cells < 1:
			return ""
		case used > cells:
			return text[:fit] + "…"
		case used < cells:
			_, size := utf8.DecodeRuneInString(text[i:])
			fit = i + size
		}
	}
	return text
}

// CutMiddle returns a line of text in at most so many cells of a terminal: its beginning and its end with an
// ellipsis between them, or as it is.
func CutMiddle(text string, cells int) string {
	switch {
	case CountCells(text) <= cells:
		return text
	case cells < 1:
		return ""
	}
	return joinEnds(text, cells/2, cells-1-cells/2)
}

// CutName returns NAME or NAME/AGENT, each cut in its middle if it is longer than names that people give.
func CutName(text string) string {
	name, agent, named := strings.Cut(text, "/")
	name = CutMiddle(name, mostCells)
	if named {
		name += "/" + CutMiddle(agent, mostCells/2)
	}
	return name
}

// joinEnds returns the first and the last cells of a text, at most so many, with an ellipsis between them.
func joinEnds(text string, first, last int) string {
	end, used := 0, 0
	for end < len(text) {
		r, size := utf8.DecodeRuneInString(text[end:])
		if used += widthOf(r); used > first {
			break
		}
		end += size
	}
	begin := len(text)
	for used = 0; begin > end; {
		r, size := utf8.DecodeLastRuneInString(text[:begin])
		if used += widthOf(r); used > last {
			break
		}
		begin -= size
	}
	tail := strings.TrimLeftFunc(text[begin:], func(r rune) bool { return widthOf(r) == 0 }) // it would combine with the ellipsis
	return text[:end] + "…" + tail
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

// wide has the characters that take two cells: wide and fullwidth ones (UAX #11), emoji, and what is
// unassigned between them: in doubt two, so that no line of a peer takes a second one.
var wide = &unicode.RangeTable{
	R16: []unicode.Range16{
		{0x1100, 0x115f, 1}, {0x231a, 0x231b, 1}, {0x2329, 0x232a, 1}, {0x23e9, 0x23ec, 1}, {0x23f0, 0x23f0, 1},
		{0x23f3, 0x23f3, 1}, {0x25fd, 0x25fe, 1}, {0x2614, 0x2615, 1}, {0x2648, 0x2653, 1}, {0x267f, 0x267f, 1},
		{0x2693, 0x2693, 1}, {0x26a1, 0x26a1, 1}, {0x26aa, 0x26ab, 1}, {0x26bd, 0x26be, 1}, {0x26c4, 0x26c5, 1},
		{0x26ce, 0x26ce, 1}, {0x26d4, 0x26d4, 1}, {0x26ea, 0x26ea, 1}, {0x26f2, 0x26f3, 1}, {0x26f5, 0x26f5, 1},
		{0x26fa, 0x26fa, 1}, {0x26fd, 0x26fd, 1}, {0x2705, 0x2705, 1}, {0x270a, 0x270b, 1}, {0x2728, 0x2728, 1},
		{0x274c, 0x274c, 1}, {0x274e, 0x274e, 1}, {0x2753, 0x2755, 1}, {0x2757, 0x2757, 1}, {0x2795, 0x2797, 1},
		{0x27b0, 0x27b0, 1}, {0x27bf, 0x27bf, 1}, {0x2b1b, 0x2b1c, 1}, {0x2b50, 0x2b50, 1}, {0x2b55, 0x2b55, 1},
		{0x2e80, 0x303e, 1}, {0x3041, 0x3247, 1}, {0x3250, 0x4dbf, 1}, {0x4e00, 0xa4c6, 1}, {0xa960, 0xa97c, 1},
		{0xac00, 0xd7a3, 1}, {0xf900, 0xfad9, 1}, {0xfe10, 0xfe19, 1}, {0xfe30, 0xfe6b, 1}, {0xff01, 0xff60, 1},
		{0xffe0, 0xffe6, 1},
	},
	R32: []unicode.Range32{
		{0x16fe0, 0x1b2ff, 1}, {0x1f004, 0x1f004, 1}, {0x1f0cf, 0x1f0cf, 1}, {0x1f18e, 0x1f18e, 1},
		{0x1f191, 0x1f19a, 1}, {0x1f200, 0x1f64f, 1}, {0x1f680, 0x1f6ff, 1}, {0x1f7e0, 0x1f7f0, 1},
		{0x1f900, 0x1faff, 1}, {0x20000, 0x3fffd, 1},
	},
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
