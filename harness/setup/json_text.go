package setup

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// maxJSONDepth bounds how deep objects and arrays may nest in a file that is edited.
const maxJSONDepth = 200

// jsonText is a JSON text that is edited by position: what an edit does not concern stays as
// it is, byte for byte.
type jsonText struct {
	text    []byte
	relaxed bool // comments, and a comma behind the last member, are no errors
}

// newJSONText returns a text that is one whole JSON object. An empty text stands for an empty object.
func newJSONText(text []byte, relaxed bool) (*jsonText, error) {
	d := &jsonText{text, relaxed}
	if len(bytes.TrimSpace(text)) == 0 {
		d.text = []byte("{}\n")
	}
	return d, addRemedy(d.check())
}

// check returns an error unless the text is one whole object.
func (d *jsonText) check() error {
	if !utf8.Valid(d.text) {
		return errNotUTF8
	}
	at, err := d.skipSpace(d.begin())
	if err != nil {
		return err
	}
	if at == len(d.text) || d.text[at] != '{' {
		return d.errorAt(at, "expected an object")
	}
	if at, err = d.skipValue(at, 0); err == nil {
		at, err = d.skipSpace(at)
	}
	if err == nil && at < len(d.text) {
		err = d.errorAt(at, "text behind the object")
	}
	return err
}

// begin returns the index behind a byte order mark.
func (d *jsonText) begin() int {
	if bytes.HasPrefix(d.text, []byte("\ufeff")) {
		return len("\ufeff")
	}
	return 0
}

// errorAt returns an error that names a place in the text, and shows nothing of it.
func (d *jsonText) errorAt(at int, format string, args ...any) error {
	return fmt.Errorf("line %d: %s", 1+bytes.Count(d.text[:min(at, len(d.text))], []byte{'\n'}), fmt.Sprintf(format, args...))
}

// skipSpace returns the index of the first byte from at on that is neither white space nor
// part of a comment.
func (d *jsonText) skipSpace(at int) (int, error) {
	for at < len(d.text) {
		switch rest := d.text[at:]; {
		case strings.IndexByte(" \t\r\n", rest[0]) >= 0:
			at++
		case rest[0] != '/':
			return at, nil
		case !d.relaxed:
			return at, d.errorAt(at, "a comment, which this file cannot have")
		case bytes.HasPrefix(rest, []byte("//")):
			end := bytes.IndexByte(rest, '\n')
			if end < 0 {
				end = len(rest)
			}
			at += end
		case bytes.HasPrefix(rest, []byte("/*")):
			end := bytes.Index(rest[2:], []byte("*/"))
			if end < 0 {
				return at, d.errorAt(at, "a comment that does not end")
			}
			at += end + 4
		default:
			return at, d.errorAt(at, "a slash outside a string")
		}
	}
	return at, nil
}

// skipValue checks the value at text[at:] and returns the index behind it.
func (d *jsonText) skipValue(at, depth int) (int, error) {
	if at == len(d.text) {
		return at, d.errorAt(at, "the text ends in the middle")
	}
	switch c := d.text[at]; {
	case c == '{' || c == '[':
		if depth == maxJSONDepth {
			return at, d.errorAt(at, "more than %d objects and arrays in each other", maxJSONDepth)
		}
		_, end, err := d.readContainer(at, depth, false)
		return end, err
	case c == '"':
		return d.skipString(at)
	}
	end := at
	for end < len(d.text) && strings.IndexByte(" \t\r\n,:{}[]\"/", d.text[end]) < 0 {
		end++
	}
	if word := jsontext.Value(d.text[at:end]); !word.IsValid() {
		return at, d.errorAt(at, "expected a value")
	}
	return end, nil
}

func (d *jsonText) skipString(at int) (int, error) {
	if at == len(d.text) || d.text[at] != '"' {
		return at, d.errorAt(at, "expected a string")
	}
	for i := at + 1; i < len(d.text); i++ {
		switch c := d.text[i]; {
		case c == '\\':
			i++
		case c < ' ':
			return at, d.errorAt(i, "a string that does not end on its line")
		case c == '"':
			if !jsontext.Value(d.text[at : i+1]).IsValid(jsontext.AllowInvalidUTF8(true)) { // half of a surrogate pair stays
				return at, d.errorAt(at, "a string that is not valid")
			}
			return i + 1, nil
		}
	}
	return at, d.errorAt(at, "a string that does not end")
}

// readContainer checks the object or array at text[at:], and returns it and the index behind
// it. Unless keep is true, it does not list the entries.
func (d *jsonText) readContainer(at, depth int, keep bool) (c container, end int, err error) {
	c.open = at
	isObject := d.text[at] == '{'
	closing := map[bool]byte{true: '}', false: ']'}[isObject]
	at++
	for first := true; ; first = false {
		if at, err = d.skipSpace(at); err != nil {
			return c, at, err
		}
		if at == len(d.text) {
			return c, at, d.errorAt(at, "the text ends in the middle")
		}
		if d.text[at] == closing {
			if !first && !d.relaxed {
				return c, at, d.errorAt(at, "a comma behind the last entry")
			}
			break
		}
		e := entry{start: at, comma: -1}
		if isObject {
			if e.name, at, err = d.readName(at, keep); err != nil {
				return c, at, err
			}
		}
		e.value.start = at
		if at, err = d.skipValue(at, depth+1); err != nil {
			return c, at, err
		}
		e.value.end = at
		if at, err = d.skipSpace(at); err != nil {
			return c, at, err
		}
		more := at < len(d.text) && d.text[at] == ','
		if more {
			e.comma = at
			at++
		}
		if keep {
			c.entries = append(c.entries, e)
		}
		if !more {
			if at == len(d.text) || d.text[at] != closing {
				return c, at, d.errorAt(at, "expected a comma or %q", closing)
			}
			break
		}
	}
	c.close = at
	return c, at + 1, nil
}

// readName checks the name of a member at text[at:], and returns it and the index of the value.
// Unless keep is true, it returns no name.
func (d *jsonText) readName(at int, keep bool) (name string, value int, err error) {
	end, err := d.skipString(at)
	if err != nil {
		return "", at, err
	}
	if keep {
		text, _ := jsontext.AppendUnquote(nil, d.text[at:end])
		name = string(text)
	}
	if at, err = d.skipSpace(end); err != nil {
		return "", at, err
	}
	if at == len(d.text) || d.text[at] != ':' {
		return "", at, d.errorAt(at, "expected a colon")
	}
	at, err = d.skipSpace(at + 1)
	return name, at, err
}
