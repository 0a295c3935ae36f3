package jsonrpc

import (
	"bytes"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// maxMembers bounds the members of an object that is scanned: their names are
// compared pairwise.
const maxMembers = 32

// object is where the members of one JSON object stand in a text. Nested values
// are not judged: their ends are found by counting brackets, which is many times
// faster than validating them.
type object struct {
	text    []byte
	n       int
	members [maxMembers]struct {
		name, value span
		escaped     bool // the name does not stand for itself
	}
	err error // what is wrong beyond the syntax
}

type span struct{ from, to int32 }

var errSyntax = errors.New("not one well-formed JSON object")

// scan reads the object that begins at text[at], and returns the index after it,
// -1 where the syntax is broken. If params is not nil it becomes what the member
// params or result holds, in the same pass.
func (o *object) scan(text []byte, at int, params *object) int {
	o.text, o.n, o.err = text, 0, nil
	if at == len(text) || text[at] != '{' {
		return -1
	}
	if at = space(text, at+1); at < len(text) && text[at] == '}' {
		return at + 1
	}
	for {
		name := at
		if name == len(text) || text[name] != '"' {
			return -1
		}
		nameEnd := skipString(text, name)
		if nameEnd < 0 {
			return -1
		}
		if at = space(text, nameEnd); at == len(text) || text[at] != ':' {
			return -1
		}
		value := space(text, at+1)
		end := -1
		if params != nil && value < len(text) && text[value] == '{' && params.holds(text[name:nameEnd]) {
			end = params.scan(text, value, nil)
		} else {
			end = skip(text, value)
		}
		if end < 0 {
			return -1
		}
		o.add(span{int32(name), int32(nameEnd)}, span{int32(value), int32(end)})
		if at = space(text, end); at == len(text) {
			return -1
		}
		switch text[at] {
		case ',':
			at = space(text, at+1)
		case '}':
			return at + 1
		default:
			return -1
		}
	}
}

func (o *object) holds(name []byte) bool {
	return string(name) == `"params"` || string(name) == `"result"`
}

// add refuses a name that was there before (RFC 7493, section 2.3).
func (o *object) add(name, value span) {
	if o.err != nil {
		return
	}
	if o.n == maxMembers {
		o.err = fmt.Errorf("more than %d members", maxMembers)
		return
	}
	m := &o.members[o.n]
	m.name, m.value, m.escaped = name, value, !plain(o.text[name.from:name.to])
	added := o.name(o.n)
	for i := range o.n {
		if bytes.Equal(o.name(i), added) {
			o.err = fmt.Errorf("%.64q is given twice", added)
			return
		}
	}
	o.n++
}

// IsObject reports whether text is one JSON object, whose inside is delimited and not validated.
func IsObject(text []byte) bool {
	at := space(text, 0)
	end := skip(text, at)
	return end >= 0 && text[at] == '{' && space(text, end) == len(text)
}

// member returns the i-th member; both alias the text where they can.
func (o *object) member(i int) (name []byte, v Value) {
	at := o.members[i].value
	return o.name(i), Value(o.text[at.from:at.to:at.to])
}

func (o *object) name(i int) []byte {
	m := &o.members[i]
	if !m.escaped {
		return o.text[m.name.from+1 : m.name.to-1]
	}
	b, err := jsontext.AppendUnquote(nil, o.text[m.name.from:m.name.to])
	if err != nil {
		o.err = errSyntax
	}
	return b
}

// skip returns the index after the JSON value at text[at:], -1 where there is
// none. Scalars are validated, strings and nested values only delimited.
func skip(text []byte, at int) int {
	if at == len(text) {
		return -1
	}
	switch text[at] {
	case '"':
		return skipString(text, at)
	case '{', '[':
		return skipNested(text, at)
	}
	end := at
	for end < len(text) && classes[text[end]]&delimiter == 0 {
		end++
	}
	if !scalar(text[at:end]) {
		return -1
	}
	return end
}

const (
	quote = 1 << iota
	opening
	closing
	delimiter
)

var classes = func() (c [256]uint8) {
	for class, chars := range map[uint8]string{quote: `"`, opening: "{[", closing: "}]"} {
		for _, b := range []byte(chars) {
			c[b] = class
		}
	}
	for _, b := range []byte(",]} \t\r\n") {
		c[b] |= delimiter
	}
	return c
}()

func skipNested(text []byte, at int) int {
	depth := 0
	for at < len(text) {
		switch classes[text[at]] &^ delimiter {
		case 0:
			at++
		case quote:
			if at = skipString(text, at); at < 0 {
				return -1
			}
		case opening:
			depth++
			at++
		case closing:
			at++
			if depth--; depth == 0 {
				return at
			}
		}
	}
	return -1
}

func scalar(v []byte) bool {
	switch string(v) {
	case "":
		return false
	case "null", "true", "false":
		return true
	}
	for i, c := range v {
		if c < '0' || c > '9' || i == 0 && c == '0' && len(v) > 1 {
			return jsontext.Value(v).IsValid()
		}
	}
	return true
}

// skipString returns the index after the string at text[at:], -1 if it does not
// end. A quote is its end unless an odd number of backslashes stands before it.
func skipString(text []byte, at int) int {
	first := at + 1
	for at = first; ; {
		i := bytes.IndexByte(text[at:], '"')
		if i < 0 {
			return -1
		}
		end := at + i
		at = end
		for at > first && text[at-1] == '\\' {
			at--
		}
		if (end-at)%2 == 0 {
			return end + 1
		}
		at = end + 1
	}
}

func space(text []byte, at int) int {
	for at < len(text) && (text[at] == ' ' || text[at] == '\t' || text[at] == '\r' || text[at] == '\n') {
		at++
	}
	return at
}

// plain reports whether a quoted string stands for itself: ASCII without escapes.
func plain(quoted []byte) bool {
	for _, c := range quoted[1 : len(quoted)-1] {
		if c < ' ' || c >= utf8.RuneSelf || c == '\\' {
			return false
		}
	}
	return true
}
