package setup

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// skipString returns the index behind the string of any of the four forms at text[at:].
func (d *tomlText) skipString(at int) (int, error) {
	quote := d.text[at]
	mark := bytes.Repeat([]byte{quote}, 3)
	long := bytes.HasPrefix(d.text[at:], mark)
	if !long {
		mark = mark[:1]
	}
	for i := at + len(mark); i < len(d.text); i++ {
		switch c := d.text[i]; {
		case c == '\\' && quote == '"':
			i++
		case bytes.HasPrefix(d.text[i:], mark):
			end := i + len(mark)
			for long && end < i+5 && end < len(d.text) && d.text[end] == quote { // up to two more belong to the text
				end++
			}
			if _, ok := d.readString(span{at, end}); !ok {
				return at, d.errorAt(at, "a string that is not valid")
			}
			return end, nil
		case c == '\n' && !long:
			return at, d.errorAt(at, "a string that does not end on its line")
		case c < ' ' && c != '\t' && c != '\n' && c != '\r':
			return at, d.errorAt(i, "a control character in a string")
		}
	}
	return at, d.errorAt(at, "a string that does not end")
}

// readString returns the string that a value is, and whether it is one.
func (d *tomlText) readString(v span) (string, bool) {
	text := string(d.text[v.start:v.end])
	for _, mark := range []string{`'''`, `"""`, `'`, `"`} {
		inner, ok := strings.CutPrefix(text, mark)
		if !ok || len(inner) < len(mark) {
			continue
		}
		inner = strings.TrimSuffix(inner, mark)
		if len(mark) == 3 {
			inner = strings.TrimPrefix(strings.TrimPrefix(inner, "\r"), "\n")
		}
		if mark[0] == '\'' {
			return inner, true
		}
		return unescapeTOML(inner)
	}
	return "", false
}

// unescapeTOML resolves the escapes of a basic string.
func unescapeTOML(s string) (string, bool) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			b.WriteByte(s[i])
			continue
		}
		if i++; i == len(s) {
			return "", false
		}
		digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[s[i]]
		short := strings.IndexByte(`btnfre"\`, s[i])
		switch {
		case digits > 0:
			if i+digits >= len(s) {
				return "", false
			}
			r, err := strconv.ParseUint(s[i+1:i+1+digits], 16, 32)
			if err != nil || !utf8.ValidRune(rune(r)) {
				return "", false
			}
			b.WriteRune(rune(r))
			i += digits
		case short >= 0:
			b.WriteByte("\b\t\n\f\r\x1b\"\\"[short])
		case strings.IndexByte(" \t\r\n", s[i]) >= 0: // the line goes on in the next one
			for i+1 < len(s) && strings.IndexByte(" \t\r\n", s[i+1]) >= 0 {
				i++
			}
		default:
			return "", false
		}
	}
	return b.String(), true
}

// readStrings returns the strings of the list that a value is, and whether it has only these.
func (d *tomlText) readStrings(v span) (list []string, ok bool) {
	if d.text[v.start] != '[' {
		return nil, false
	}
	c, _, _ := d.readInline(v.start, 0)
	ok = true
	for _, e := range c.entries {
		s, isString := d.readString(e.value)
		ok = ok && isString
		list = append(list, s)
	}
	return list, ok
}

// quoteTOML returns a string as TOML.
func quoteTOML(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < ' ' || r == 0x7f:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

func formatTOML(value any) string {
	switch value := value.(type) {
	case string:
		return quoteTOML(value)
	case []string:
		words := make([]string, len(value))
		for i, s := range value {
			words[i] = quoteTOML(s)
		}
		return "[" + strings.Join(words, ", ") + "]"
	}
	return fmt.Sprint(value)
}

// isEqual reports whether a value of the text means the same as one that setup would write.
func (d *tomlText) isEqual(v span, value any) bool {
	switch value := value.(type) {
	case string:
		s, ok := d.readString(v)
		return ok && s == value
	case []string:
		list, ok := d.readStrings(v)
		return ok && slices.Equal(list, value)
	}
	return string(d.text[v.start:v.end]) == formatTOML(value)
}
