package message

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// The rules of the reference tool are written in terms of Python's strings. This file has
// the few of their operations that differ from Go's.

// isPythonSpace reports whether Python takes r for white space: four separators more than Unicode.
func isPythonSpace(r rune) bool { return unicode.IsSpace(r) || 0x1c <= r && r <= 0x1f }

func stripPythonSpace(s string) string { return strings.TrimFunc(s, isPythonSpace) }

// splitPythonLines ends a line wherever Python's splitlines does.
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

// cutFirstLine cuts text around its first line break: CR LF, or a letter for which isBreak is true.
// If there is none, the line is the whole text.
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

// formatPythonRepr returns Python's repr of a string.
func formatPythonRepr(s string) string {
	mark := '\''
	if strings.ContainsRune(s, '\'') && !strings.ContainsRune(s, '"') {
		mark = '"'
	}
	return quoteString(s, mark, unicode.IsPrint, `\x%02x`, `\u%04x`, `\U%08x`)
}

// quoteString puts a string between quotation marks. What is not plain becomes an escape: of two
// letters if there is one, else by one of the formats for up to 8, 16 and 32 bits.
func quoteString(s string, mark rune, isPlain func(rune) bool, format8, format16, format32 string) string {
	var b strings.Builder
	b.WriteRune(mark)
	for _, r := range s {
		switch {
		case r == mark || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case isPlain(r):
			b.WriteRune(r)
		case r <= 0xff:
			fmt.Fprintf(&b, format8, r)
		case r <= 0xffff:
			fmt.Fprintf(&b, format16, r)
		default:
			fmt.Fprintf(&b, format32, r)
		}
	}
	b.WriteRune(mark)
	return b.String()
}

// maxShown bounds the text of a nested value, in bytes: aliases can make it exponentially
// longer than the file.
const maxShown = 4096

// formatPythonStr returns Python's str of a value as the reference's loader yields it, to which
// every scalar is text.
func formatPythonStr(n *yaml.Node) string {
	if n == nil {
		return ""
	}
	if n.Kind == yaml.ScalarNode {
		return n.Value
	}
	var b strings.Builder
	writePythonStr(&b, n)
	return b.String()
}

func writePythonStr(b *strings.Builder, n *yaml.Node) {
	n = resolveYAMLAlias(n)
	if b.Len() > maxShown {
		return
	}
	switch n.Kind {
	case yaml.SequenceNode:
		b.WriteByte('[')
		for i, item := range n.Content {
			if i > 0 {
				b.WriteString(", ")
			}
			writePythonStr(b, item)
		}
		b.WriteByte(']')
	case yaml.MappingNode:
		b.WriteByte('{')
		for i, pair := range listMappingPairs(n) {
			if i > 0 {
				b.WriteString(", ")
			}
			b.WriteString(formatPythonRepr(pair.key))
			b.WriteString(": ")
			writePythonStr(b, pair.value)
		}
		b.WriteByte('}')
	default:
		b.WriteString(formatPythonRepr(n.Value))
	}
}

// formatPythonStrOrEmpty returns Python's str(value or "").
func formatPythonStrOrEmpty(n *yaml.Node) string {
	if isNestedNode(n) && len(n.Content) == 0 {
		return ""
	}
	return formatPythonStr(n)
}
