package jsonrpc

import (
	"bytes"
	"unicode/utf8"

	"github.com/acpd/acpd/internal/jsonscan"
	"github.com/acpd/acpd/internal/ownwords"
)

// maxMembers bounds the members of an object that is scanned: their names are
// compared pairwise.
const maxMembers = 32

// scannedObject has the members of one JSON object, which alias its text. Nested values
// are delimited by counting brackets and not validated, which is many times faster.
type scannedObject struct {
	count   int
	members [maxMembers]struct {
		name    []byte // with its quotes
		value   Value
		escaped bool // the name is written with escapes
	}
	err error // what is wrong beyond the syntax
}

var errSyntax = ownwords.New("not one well-formed JSON object")

// scan reads the object that begins at text[at]. It returns the index after the object,
// or -1 if the syntax is broken. If params is not nil, the same pass scans the member
// params or result into it.
func (o *scannedObject) scan(text []byte, at int, params *scannedObject) int {
	o.count, o.err = 0, nil
	return jsonscan.Members(text, at, func(name []byte, value int) (end int) {
		isParams := string(name) == `"params"` || string(name) == `"result"`
		if params != nil && isParams && value < len(text) && text[value] == '{' {
			end = params.scan(text, value, nil)
		} else {
			end = jsonscan.SkipValue(text, value)
		}
		if end >= 0 {
			o.addMember(name, text[value:end:end])
		}
		return end
	})
}

// addMember adds a member. A name that the object has already is an error (RFC 7493,
// section 2.3).
func (o *scannedObject) addMember(name []byte, value Value) {
	if o.err != nil {
		return
	}
	if o.count == maxMembers {
		o.err = ownwords.Errorf("more than %d members", maxMembers)
		return
	}
	m := &o.members[o.count]
	m.name, m.value, m.escaped = name, value, !isPlainString(name)
	added := o.memberNameAt(o.count)
	for i := range o.count {
		if bytes.Equal(o.memberNameAt(i), added) {
			o.err = ownwords.Errorf("%.64q is given twice", added)
			return
		}
	}
	o.count++
}

// memberAt returns the name and the value of the i-th member. Both alias the text if they
// can.
func (o *scannedObject) memberAt(i int) (name []byte, v Value) {
	return o.memberNameAt(i), o.members[i].value
}

func (o *scannedObject) memberNameAt(i int) []byte {
	m := &o.members[i]
	if !m.escaped {
		return m.name[1 : len(m.name)-1]
	}
	b, err := jsonscan.Unquote(m.name)
	if err != nil {
		o.err = errSyntax
	}
	return b
}

// isPlainString reports whether a quoted string is ASCII without escapes.
func isPlainString(quoted []byte) bool {
	for _, c := range quoted[1 : len(quoted)-1] {
		if c < ' ' || c >= utf8.RuneSelf || c == '\\' {
			return false
		}
	}
	return true
}
