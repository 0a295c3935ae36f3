package jsonrpc

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/internal/jsonscan"
	"github.com/acpd/acpd/internal/ownwords"
)

// maxMembers bounds the members of an object that is scanned: their names are
// compared pairwise.
const maxMembers = 32

// scannedObject says where the members of one JSON object stand in a text. Nested values
// are delimited by counting brackets and not validated, which is many times faster.
type scannedObject struct {
	text    []byte
	count   int
	members [maxMembers]struct {
		name, value textRange
		escaped     bool // the name does not stand for itself
	}
	err error // what is wrong beyond the syntax
}

type textRange struct{ from, to int32 }

var errSyntax = ownwords.New("not one well-formed JSON object")

// scan reads the object that begins at text[at]. It returns the index after the object,
// or -1 if the syntax is broken. If params is not nil, the same pass scans the member
// params or result into it.
func (o *scannedObject) scan(text []byte, at int, params *scannedObject) int {
	o.text, o.count, o.err = text, 0, nil
	if at == len(text) || text[at] != '{' {
		return -1
	}
	if at = jsonscan.SkipSpace(text, at+1); at < len(text) && text[at] == '}' {
		return at + 1
	}
	for {
		name := at
		if name == len(text) || text[name] != '"' {
			return -1
		}
		nameEnd := jsonscan.SkipString(text, name)
		if nameEnd < 0 {
			return -1
		}
		if at = jsonscan.SkipSpace(text, nameEnd); at == len(text) || text[at] != ':' {
			return -1
		}
		value, end := jsonscan.SkipSpace(text, at+1), -1
		isParams := string(text[name:nameEnd]) == `"params"` || string(text[name:nameEnd]) == `"result"`
		if params != nil && isParams && value < len(text) && text[value] == '{' {
			end = params.scan(text, value, nil)
		} else {
			end = skipValue(text, value)
		}
		if end < 0 {
			return -1
		}
		o.addMember(textRange{int32(name), int32(nameEnd)}, textRange{int32(value), int32(end)})
		if at = jsonscan.SkipSpace(text, end); at == len(text) {
			return -1
		}
		switch text[at] {
		case ',':
			at = jsonscan.SkipSpace(text, at+1)
		case '}':
			return at + 1
		default:
			return -1
		}
	}
}

// addMember adds a member. A name that the object has already is an error (RFC 7493,
// section 2.3).
func (o *scannedObject) addMember(name, value textRange) {
	if o.err != nil {
		return
	}
	if o.count == maxMembers {
		o.err = ownwords.Errorf("more than %d members", maxMembers)
		return
	}
	m := &o.members[o.count]
	m.name, m.value, m.escaped = name, value, !isPlainString(o.text[name.from:name.to])
	added := o.memberNameAt(o.count)
	for i := range o.count {
		if bytes.Equal(o.memberNameAt(i), added) {
			o.err = ownwords.Errorf("%.64q is given twice", added)
			return
		}
	}
	o.count++
}

// IsObject reports whether text is one JSON object. It delimits the inside and does not
// validate it.
func IsObject(text []byte) bool {
	at := jsonscan.SkipSpace(text, 0)
	end := skipValue(text, at)
	return end >= 0 && text[at] == '{' && jsonscan.SkipSpace(text, end) == len(text)
}

// memberAt returns the name and the value of the i-th member. Both alias the text if they
// can.
func (o *scannedObject) memberAt(i int) (name []byte, v Value) {
	at := o.members[i].value
	return o.memberNameAt(i), Value(o.text[at.from:at.to:at.to])
}

func (o *scannedObject) memberNameAt(i int) []byte {
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

// skipValue returns the index after the JSON value at text[at:], or -1 if there is none.
// It validates scalars, and only delimits strings and nested values.
func skipValue(text []byte, at int) int {
	if at == len(text) {
		return -1
	}
	switch text[at] {
	case '"':
		return jsonscan.SkipString(text, at)
	case '{', '[':
		return skipNested(text, at)
	}
	end := at
	for end < len(text) && strings.IndexByte(",]} \t\r\n", text[end]) < 0 {
		end++
	}
	if !isScalar(text[at:end]) {
		return -1
	}
	return end
}

// skipNested returns the index after the object or array at text[at:], or -1 if it does not
// end.
func skipNested(text []byte, at int) int {
	for depth := 0; at < len(text); at++ {
		switch text[at] {
		case '"':
			end := jsonscan.SkipString(text, at)
			if end < 0 {
				return -1
			}
			at = end - 1
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return at + 1
			}
		}
	}
	return -1
}

// isScalar reports whether v is null, true, false or a number.
func isScalar(v []byte) bool {
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

// isPlainString reports whether a quoted string stands for itself: ASCII without escapes.
func isPlainString(quoted []byte) bool {
	for _, c := range quoted[1 : len(quoted)-1] {
		if c < ' ' || c >= utf8.RuneSelf || c == '\\' {
			return false
		}
	}
	return true
}
