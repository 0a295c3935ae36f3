package message

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// The reference's rules are written in terms of Python's strings; these are the
// few of their operations that differ from Go's.

// space has four separators that Unicode does not count as white space.
func space(r rune) bool { return unicode.IsSpace(r) || 0x1c <= r && r <= 0x1f }

func strip(s string) string { return strings.TrimFunc(s, space) }

// splitLines ends a line at everything that Python's splitlines does.
func splitLines(s string) []string {
	var lines []string
	for s != "" {
		i := strings.IndexFunc(s, func(r rune) bool {
			return '\n' <= r && r <= '\r' || 0x1c <= r && r <= 0x1e || r == 0x85 || r == 0x2028 || r == 0x2029
		})
		if i < 0 {
			return append(lines, s)
		}
		lines = append(lines, s[:i])
		_, width := utf8.DecodeRuneInString(s[i:])
		if strings.HasPrefix(s[i:], "\r\n") {
			width = 2
		}
		s = s[i+width:]
	}
	return lines
}

// quote is Python's repr of a string.
func quote(s string) string {
	q := '\''
	if strings.ContainsRune(s, '\'') && !strings.ContainsRune(s, '"') {
		q = '"'
	}
	var b strings.Builder
	b.WriteRune(q)
	for _, r := range s {
		switch {
		case r == q || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case unicode.IsPrint(r):
			b.WriteRune(r)
		case r <= 0xff:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r <= 0xffff:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
	}
	b.WriteRune(q)
	return b.String()
}

// maxShown bounds what str says about a nested value: aliases can make its text
// exponentially longer than the file.
const maxShown = 4096

// str is Python's str of a value as the string-only loader yields it.
func str(n *yaml.Node) string {
	if n == nil {
		return ""
	}
	if n.Kind == yaml.ScalarNode {
		return n.Value
	}
	var b strings.Builder
	show(&b, n)
	return b.String()
}

func show(b *strings.Builder, n *yaml.Node) {
	n = resolve(n)
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
			show(b, item)
		}
		b.WriteByte(']')
	case yaml.MappingNode:
		b.WriteByte('{')
		for i, pair := range pairs(n) {
			if i > 0 {
				b.WriteString(", ")
			}
			b.WriteString(quote(pair.key))
			b.WriteString(": ")
			show(b, pair.value)
		}
		b.WriteByte('}')
	default:
		b.WriteString(quote(n.Value))
	}
}

// orEmpty is Python's str(value or "").
func orEmpty(n *yaml.Node) string {
	if nested(n) && len(n.Content) == 0 {
		return ""
	}
	return str(n)
}

func nested(n *yaml.Node) bool {
	return n != nil && (n.Kind == yaml.SequenceNode || n.Kind == yaml.MappingNode)
}
