package ui

import (
	"math"
	"regexp"
	"strings"
)

const (
	readWidth = 100 // cells of a line that a person still reads with ease
	leastRoom = 16  // cells that wrapped text has, however far it is indented
)

// secondColumn matches what stands before the text of an indented line: a flag, a word that is explained, a number.
var secondColumn = regexp.MustCompile(`^ +(?:(?:[0-9]+\.|-) +|\S+(?: \S+)*  +)?`)

// Wrap breaks text between words, so that no line takes more cells than width, and 100 at most. Lines that
// begin in the column of the line before are one paragraph. The explanation after two spaces in an indented line
// stays in its column.
func Wrap(text string, width int) string {
	var lines, indents []string
	for line := range strings.SplitSeq(text, "\n") {
		words := strings.TrimLeft(line, " ")
		last := len(lines) - 1
		if last >= 0 && words != "" && lines[last] != "" && len(line)-len(words) == CountCells(indents[last]) {
			lines[last] += " " + words
			continue
		}
		lines, indents = append(lines, line), append(indents, secondColumn.FindString(line))
	}
	for i, line := range lines {
		lines[i] = WrapBehind(indents[i], strings.TrimPrefix(line, indents[i]), width)
	}
	return strings.Join(lines, "\n")
}

// WrapBehind returns text behind what stands before it, broken between words as [Wrap] does. Each further line is
// indented as far as the first one.
func WrapBehind(before, text string, width int) string {
	indent := CountCells(before[strings.LastIndexByte(before, '\n')+1:])
	room := max(min(width, readWidth)-indent, leastRoom)
	var b strings.Builder
	b.WriteString(before)
	used := 0
	for i, word := range strings.Split(text, " ") {
		n := CountCells(word)
		switch {
		case i == 0:
		case used+1+n > room:
			b.WriteString("\n" + strings.Repeat(" ", indent))
			used = 0
		default:
			b.WriteString(" ")
			used++
		}
		b.WriteString(word)
		used += n
	}
	return b.String()
}

// WrapLines breaks each line of what a person reads on a terminal of so many columns. Further lines of one are
// indented, so that none looks like a line of its own. It breaks nothing where the width is not known.
func WrapLines(text string, width int) string {
	if width == math.MaxInt {
		return text
	}
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = strings.ReplaceAll(WrapBehind("", line, width-2), "\n", "\n  ")
	}
	return strings.Join(lines, "\n")
}

// WrapTalk returns text for standard error as a person reads it there.
func (t *Terminal) WrapTalk(text string) string { return WrapLines(text, t.ErrWidth()) }
