package setup

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// document is a configuration file that is edited by position: what an edit does not concern
// stays as it is, byte for byte.
type document interface {
	// get returns the value at a path, decoded as JSON would be, and whether there is one. It
	// returns an error if a name on the way to it is there twice: programs differ in which
	// one they use.
	get(path ...string) (value any, found bool, err error)
	// set changes the value at a path, and makes the objects that are missing on the way to it. It
	// leaves a value that means the same as it is.
	set(value any, path ...string) error
	// remove removes the value at a path. In JSON it also removes the objects that become empty by that.
	remove(path ...string) error
	bytes() []byte
}

// object is a value with members in this order. A value is a string, a bool, a list of strings or
// an object.
type object []member

type member struct {
	name  string
	value any
}

// formatValue returns a value on one line, as JSON. Unless it is an object, that is valid TOML too.
func formatValue(value any) string {
	if members, ok := value.(object); ok {
		words := make([]string, len(members))
		for i, m := range members {
			words[i] = formatValue(m.name) + ": " + formatValue(m.value)
		}
		return "{" + strings.Join(words, ", ") + "}"
	}
	text, _ := json.Marshal(value, jsontext.SpaceAfterComma(true))
	return string(text)
}

// decodeJSON returns the value that a JSON text means. Half of a surrogate pair is no error:
// JavaScript programs write such text.
func decodeJSON(text []byte) (value any, err error) {
	err = json.Unmarshal(text, &value, jsontext.AllowInvalidUTF8(true))
	return value, err
}

// listStrings returns the strings of a decoded list, or the one string that a value is.
func listStrings(value any) (list []string) {
	if s, ok := value.(string); ok {
		return []string{s}
	}
	elements, _ := value.([]any)
	for _, e := range elements {
		if s, ok := e.(string); ok {
			list = append(list, s)
		}
	}
	return list
}

// openFunc reads a document.
type openFunc func(text []byte) (document, error)

// openText reads the document that a file is, behind the byte order mark that it may begin with.
func openText(text []byte, open openFunc) (d document, mark []byte, err error) {
	rest, marked := bytes.CutPrefix(text, []byte("\ufeff"))
	if marked {
		mark = text[:len(text)-len(rest)]
	}
	if !utf8.Valid(rest) {
		return nil, nil, addRemedy(errNotUTF8)
	}
	d, err = open(rest)
	return d, mark, addRemedy(err)
}

// edit returns the function that makes a change to the text of a file.
func (open openFunc) edit(change func(document) error) func(text []byte) ([]byte, error) {
	return func(text []byte) ([]byte, error) {
		d, mark, err := openText(text, open)
		if err != nil {
			return nil, err
		}
		before := d.bytes()
		if err := change(d); err != nil {
			return nil, err
		}
		if bytes.Equal(d.bytes(), before) { // so that an empty file stays empty
			return text, nil
		}
		return append(mark[:len(mark):len(mark)], d.bytes()...), nil
	}
}

// span is a part of a text.
type span struct{ start, end int }

// splice replaces a part of a text.
type splice struct {
	span
	with string
}

// applySplices replaces parts of a text, which are in order and do not overlap.
func applySplices(text []byte, changes ...splice) []byte {
	var out []byte
	at := 0
	for _, c := range changes {
		out = append(append(out, text[at:c.start]...), c.with...)
		at = c.end
	}
	return append(out, text[at:]...)
}

// lineEnd returns how the lines of the text end.
func lineEnd(text []byte) string {
	if i := bytes.IndexByte(text, '\n'); i > 0 && text[i-1] == '\r' {
		return "\r\n"
	}
	return "\n"
}

// startOfLine returns the index at which the line of text[at] begins.
func startOfLine(text []byte, at int) int { return bytes.LastIndexByte(text[:at], '\n') + 1 }

// errorAt returns an error that names a line of a text, and shows nothing of the text.
func errorAt(text []byte, at int, format string, args ...any) error {
	return fmt.Errorf("line %d: %s", 1+bytes.Count(text[:min(at, len(text))], []byte{'\n'}), fmt.Sprintf(format, args...))
}

// errNotUTF8 is the error of a text that cannot be edited, whatever its form.
var errNotUTF8 = errors.New("it is not UTF-8")

// addRemedy adds to an error about a text that is not valid what to do about it.
func addRemedy(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: fix the file, then run setup again", err)
}
