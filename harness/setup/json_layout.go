package setup

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// maxWordsOnLine bounds how many strings of a new list stand on one line; those of a longer
// one have a line each.
const maxWordsOnLine = 3

// object is a JSON object as setup writes it: its members in this order. A value is a
// string, a bool, a list of strings or an object.
type object []member

type member struct {
	name  string
	value any
}

// isOnOwnLine reports whether the entries of c stand on lines of their own; for an empty one,
// whether they should.
func (d *jsonText) isOnOwnLine(c container) bool {
	if len(c.entries) == 0 {
		root := d.readRoot()
		return len(root.entries) == 0 || bytes.IndexByte(d.text[root.open:root.close], '\n') >= 0
	}
	return bytes.IndexByte(d.text[c.open:c.entries[0].start], '\n') >= 0
}

// indentOfLine returns the white space with which the line of text[at] begins.
func (d *jsonText) indentOfLine(at int) string {
	start := max(bytes.LastIndexByte(d.text[:at], '\n')+1, d.begin())
	end := start
	for end < at && (d.text[end] == ' ' || d.text[end] == '\t') {
		end++
	}
	return string(d.text[start:end])
}

// indentUnit returns by how much the text indents.
func (d *jsonText) indentUnit() string {
	if root := d.readRoot(); len(root.entries) > 0 && d.isOnOwnLine(root) {
		if unit := strings.TrimPrefix(d.indentOfLine(root.entries[0].start), d.indentOfLine(root.open)); unit != "" {
			return unit
		}
	}
	return "  "
}

// colon returns what stands between a name and its value.
func (d *jsonText) colon(inline bool) string {
	if inline {
		return ":"
	}
	return ": "
}

// format returns a value as text. Its own lines are indented by indent and more.
func (d *jsonText) format(value any, indent string, inline bool) string {
	switch value := value.(type) {
	case string:
		return quoteJSON(value)
	case []string:
		words := make([]string, len(value))
		for i, s := range value {
			words[i] = quoteJSON(s)
		}
		if eol := lineEnd(d.text) + indent; !inline && len(words) > maxWordsOnLine {
			inner := eol + d.indentUnit()
			return "[" + inner + strings.Join(words, ","+inner) + eol + "]"
		}
		return "[" + strings.Join(words, map[bool]string{true: ",", false: ", "}[inline]) + "]"
	case object:
		inner, begin, between, end := indent+d.indentUnit(), "", ",", ""
		if !inline {
			eol := lineEnd(d.text)
			begin, between, end = eol+inner, ","+eol+inner, eol+indent
		}
		words := make([]string, len(value))
		for i, m := range value {
			words[i] = quoteJSON(m.name) + d.colon(inline) + d.format(m.value, inner, inline)
		}
		if len(words) == 0 {
			return "{}"
		}
		return "{" + begin + strings.Join(words, between) + end + "}"
	}
	return fmt.Sprint(value)
}

func quoteJSON(s string) string {
	b, _ := jsontext.AppendQuote(nil, s)
	return string(b)
}
