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
// between them: in doubt two, so that no line of a peer takes a second one.
var wide = &unicode.RangeTable{
	R16: []unicode.Range16{
		{0x1100, 0x115f, 1}, {0x231a, 0x23f3, 1}, {0x25fd, 0x27bf, 1}, {0x2b1b, 0x2b55, 1}, {0x2e80, 0x303e, 1}, {0x3041, 0xa4c6, 1},
		{0xa960, 0xa97c, 1}, {0xac00, 0xd7a3, 1}, {0xf900, 0xfad9, 1}, {0xfe10, 0xfe6b, 1}, {0xff01, 0xff60, 1}, {0xffe0, 0xffe6, 1},
	},
	R32: []unicode.Range32{{0x16fe0, 0x1b2ff, 1}, {0x1f004, 0x1faff, 1}, {0x20000, 0x3fffd, 1}},
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
