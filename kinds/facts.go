package kinds

import (
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/wire"
)

// Facts are what a daemon itself needs of a payload. They are found while it is
// validated, so that nobody reads it again for them.
type Facts struct {
	Domain   string        // of a query or delegate
	Topic    string        // of a notify
	Deadline time.Duration // of a query or delegate; 0: the payload names none

	// What they were found in. Facts that no check made fit no envelope.
	kind    *Kind
	payload wire.Payload
}

// Learn returns the facts of an envelope's payload. They stay with the envelope,
// and with copies of it: as long as it has this very payload, neither Learn nor
// [Check] reads that again. So the bytes of a payload are not changed once it is in
// an envelope. The error is an *Error with the code invalid or unknown_kind.
func Learn(e *wire.Envelope) (*Facts, error) {
	if f, ok := e.Facts.(*Facts); ok && f.fit(e) {
		return f, nil
	}
	k, err := lookup(e.Kind)
	if err != nil {
		return nil, err
	}
	f, err := k.learn(e.Payload)
	if err != nil {
		return nil, err
	}
	e.Facts = f
	return f, nil
}

// fit reports whether the facts are those of the envelope's payload.
func (f *Facts) fit(e *wire.Envelope) bool {
	p, q := f.payload, e.Payload
	return f.kind != nil && f.kind.Name == e.Kind && len(p) == len(q) && (len(p) == 0 || &p[0] == &q[0])
}

// note keeps what a field says that is valid. In every kind that has it, a name
// means the same.
func (f *Facts) note(name string, v jsontext.Value) {
	switch name {
	case "domain":
		f.Domain = string(unquote(v))
	case "topic":
		f.Topic = string(unquote(v))
	case "deadline_ms":
		ms, _ := strconv.ParseUint(string(v), 10, 64) // cannot fail: the rule has read it
		f.Deadline = time.Duration(ms) * time.Millisecond
	}
}
