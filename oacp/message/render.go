package message

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Render returns the message as a file. It writes the reference's bytes if those are read back as
// the same text (a block gets one more newline at its end), and else the value in double quotes
// with escapes. It does not validate. It refuses what no file can have: a NUL and broken UTF-8.
func (m Message) Render() ([]byte, error) {
	var b strings.Builder
	for _, f := range m.listFields() {
		text := f.renderedValue()
		if strings.ContainsRune(text, 0) || !utf8.ValidString(text) {
			return nil, fmt.Errorf("render message: field '%s' has a NUL, or is not UTF-8: remove it", f.key)
		}
		switch {
		case text == "" && !isRequiredField(f.key):
		case f.isMultiline() && strings.Contains(text, "\n") && isBlockSafeText(text):
			b.WriteString(f.key + ": |\n")
			for line := range strings.Lines(text) {
				b.WriteString("  " + line)
			}
			b.WriteByte('\n')
		default:
			b.WriteString(f.key + ": " + renderYAMLScalar(text) + "\n")
		}
		if f.key == "from" {
			to, err := m.renderRecipients()
			if err != nil {
				return nil, err
			}
			b.WriteString(to)
		}
	}
	return []byte(b.String()), nil
}

func (m Message) renderRecipients() (string, error) {
	names := make([]string, len(m.To))
	for i, name := range m.To {
		if !IsLegalAgentName(name) {
			return "", fmt.Errorf("render message: recipient %q %s", name, nameText)
		}
		names[i] = renderYAMLScalar(name)
	}
	switch {
	case m.hasRecipientList():
		return "to: [" + strings.Join(names, ", ") + "]\n", nil
	case len(names) == 0:
		return "", errors.New("render message: it has no recipient: name one")
	}
	return "to: " + names[0] + "\n", nil
}

// renderYAMLScalar writes a value on one line, in quotes if it needs them.
func renderYAMLScalar(v string) string {
	switch {
	case strings.ContainsFunc(v, isUnsafeRune):
		return quoteForYAML(v)
	case v == "":
		return `""`
	case slices.Contains(reservedWords[:], v), strings.ContainsAny(v, "\n:#{}[],&*?|>'\"%@`"), v[0] == '-', v[0] == ' ', v != stripPythonSpace(v):
		return `"` + asReference.Replace(v) + `"`
	case v[0] == '!', strings.Contains(v, "\t"): // a tag; an error
		return quoteForYAML(v)
	}
	return v
}

// asReference escapes the characters that the reference escapes between quotation marks.
var asReference = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// reservedWords lists the words that YAML reads as null or a boolean.
var reservedWords = [...]string{
	"~", "null", "Null", "NULL",
	"true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON",
	"false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF",
}

// isUnsafeRune reports whether some reader refuses r or ends a line there.
func isUnsafeRune(r rune) bool {
	return !isYAMLRune(r) || r == '\r' || r == 0x85 || r == 0x2028 || r == 0x2029
}

// isBlockSafeText reports whether every reader gets the same text back from a block. A reader
// takes the indentation from the first line that has one.
func isBlockSafeText(text string) bool {
	return !strings.HasPrefix(strings.TrimLeft(text, "\n"), " ") && !strings.ContainsFunc(text, isUnsafeRune)
}

// quoteForYAML returns a value as one line in double quotes, from which every reader gets the same
// text back.
func quoteForYAML(v string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range v {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case !isUnsafeRune(r):
			b.WriteRune(r)
		case r <= 0xff:
			fmt.Fprintf(&b, `\x%02X`, r)
		case r <= 0xffff:
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			fmt.Fprintf(&b, `\U%08X`, r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
