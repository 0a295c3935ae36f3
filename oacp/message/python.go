package message

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// The reference tool's rules use operations of Python's strings. This file has those that differ
// from Go's.

// isPythonSpace reports whether Python takes r for white space: four separators more than Unicode.
func isPythonSpace(r rune) bool { return unicode.IsSpace(r) || 0x1c <= r && r <= 0x1f }

func stripPythonSpace(s string) string { return strings.TrimFunc(s, isPythonSpace) }

// splitPythonLines splits text into lines as Python's splitlines does.
func splitPythonLines(s string) (lines []string) {
	for s != "" {
		var line string
		line, _, s = cutFirstLine(s, func(r rune) bool {
			return '\n' <= r && r <= '\r' || 0x1c <= r && r <= 0x1e || r == 0x85 || r == 0x2028 || r == 0x2029
		})
		lines = append(lines, line)
	}
	return lines
}

// cutFirstLine cuts text around its first line break: CR LF, or a letter for which isBreak returns
// true. Without one, the line is the whole text.
func cutFirstLine(text string, isBreak func(rune) bool) (line, lineBreak, rest string) {
	i := strings.IndexFunc(text, isBreak)
	if i < 0 {
		return text, "", ""
	}
	_, width := utf8.DecodeRuneInString(text[i:])
	if strings.HasPrefix(text[i:], "\r\n") {
		width = 2
	}
	return text[:i], text[i : i+width], text[i+width:]
}
