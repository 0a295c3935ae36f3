package setup

import (
	"bytes"
	"errors"
	"fmt"
)

// span is a part of a text.
type span struct{ start, end int }

// entry is a member of an object or an element of an array.
type entry struct {
	name  string
	start int // of the name, or of the element
	value span
	comma int // the index of the comma behind the entry, -1 if there is none
}

// container is an object or an array.
type container struct {
	open, close int // the indexes of its brackets
	entries     []entry
}

// splice replaces a part of a text.
type splice struct {
	span
	with string
}

// lineEnd returns how the lines of the text end.
func lineEnd(text []byte) string {
	if i := bytes.IndexByte(text, '\n'); i > 0 && text[i-1] == '\r' {
		return "\r\n"
	}
	return "\n"
}

func applySplices(text []byte, changes ...splice) []byte {
	var out []byte
	at := 0
	for _, c := range changes {
		out = append(append(out, text[at:c.start]...), c.with...)
		at = c.end
	}
	return append(out, text[at:]...)
}

// errNotUTF8 says that a text cannot be edited, whatever its form.
var errNotUTF8 = errors.New("it is not UTF-8")

// addRemedy says what to do about a text that is not valid.
func addRemedy(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: fix the file, then run setup again", err)
}
