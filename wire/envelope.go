package wire

import (
	"bytes"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/jsonscan"
	"github.com/acpd/acpd/internal/ownwords"
)

// Envelope is one message (protocol, section 4). The same struct is CBOR between
// daemons and JSON on the local socket. Unknown fields are ignored.
type Envelope struct {
	V       uint64      `cbor:"v" json:"v"`
	ID      MessageID   `cbor:"id" json:"id"`
	From    identity.ID `cbor:"from" json:"from"`
	To      identity.ID `cbor:"to" json:"to"`
	TS      uint64      `cbor:"ts" json:"ts"` // the sender's unix milliseconds; advisory
	Kind    string      `cbor:"kind" json:"kind"`
	Ref     *MessageID  `cbor:"ref,omitempty" json:"ref"` // the message that this one answers
	Payload Payload     `cbor:"payload,omitempty" json:"payload"`

	Trace  string `cbor:"trace,omitempty" json:"trace,omitzero"`   // W3C traceparent
	Agent  string `cbor:"agent,omitempty" json:"agent,omitzero"`   // the attached agent that is meant
	Thread string `cbor:"thread,omitempty" json:"thread,omitzero"` // conversation; a label, never authority
	Hops   uint64 `cbor:"hops,omitempty" json:"hops,omitzero"`     // messages that led to this one

	FromAgent string `cbor:"from_agent,omitempty" json:"from_agent,omitzero"` // the attached agent that sent it; at the receiver a claim of the sender's daemon
}

// NewEnvelope returns an envelope with a new id and all that a sender has to set. The
// caller may set the optional fields, and another id to repeat a call.
func NewEnvelope(from, to identity.ID, kind string, payload Payload) *Envelope {
	return &Envelope{
		V: Version, ID: NewMessageID(), From: from, To: to, TS: uint64(time.Now().UnixMilli()),
		Kind: kind, Payload: payload,
	}
}

// NewReply returns the envelope that answers request: from its receiver to its sender,
// with its thread. Its Ref is the request's ID and not a copy.
func NewReply(request *Envelope, kind string, payload Payload) *Envelope {
	reply := NewEnvelope(request.To, request.From, kind, payload)
	reply.Ref, reply.Thread = &request.ID, request.Thread
	return reply
}

// Payload is the sender's JSON object as it was written; it is spliced, never
// transcoded, so every digit and every unknown field survives. Empty means {}.
type Payload []byte

// MarshalJSONTo splices the text.
func (p Payload) MarshalJSONTo(enc *jsontext.Encoder) error {
	if len(p) == 0 {
		return enc.WriteValue(jsontext.Value("{}"))
	}
	return enc.WriteValue(jsontext.Value(p))
}

// UnmarshalJSONFrom keeps the text of one JSON object; it takes null for {}.
func (p *Payload) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	v, err := dec.ReadValue()
	if err != nil {
		return err
	}
	switch v.Kind() {
	case '{':
		*p = append((*p)[:0], v...)
		return checkDepth(v)
	case 'n':
		*p = nil
		return nil
	}
	return newFormatError("payload", "expected a JSON object")
}

// Object returns the payload's text, or {} if it is empty.
func (p Payload) Object() jsontext.Value {
	if len(p) == 0 {
		return jsontext.Value("{}")
	}
	return jsontext.Value(p)
}

// CheckShape returns an error unless the payload begins an object and stays within the
// depth limit. It does not parse it: package kinds checks that its JSON is valid (RFC
// 7493).
func (p Payload) CheckShape() error {
	if len(p) == 0 {
		return nil
	}
	if jsontext.Value(p).Kind() != '{' {
		return newFormatError("payload", "expected a JSON object")
	}
	return checkDepth(p)
}

// checkDepth returns an error if v nests beyond MaxDepth.
func checkDepth(v []byte) error {
	if jsonscan.IsNestedDeeper(v, MaxDepth) {
		return newFormatError("payload", fmt.Sprintf("nested deeper than %d levels", MaxDepth))
	}
	return nil
}

// Append appends only the encoded envelope, without the type of a stream. The coding is deterministic
// (RFC 8949, section 4.2.1). It returns an error if a text is not UTF-8, which is a bug of the caller.
func (e *Envelope) Append(buf *bytes.Buffer) error {
	_, err := e.append(buf, e.Payload)
	return err
}

// AppendAroundPayload appends what [Envelope.Append] does, without the bytes of the payload. They
// belong before buf.Bytes()[at].
func (e *Envelope) AppendAroundPayload(buf *bytes.Buffer) (at int, err error) {
	return e.append(buf, nil)
}

// append appends the encoded envelope, with written in place of the payload's bytes, and returns where
// in buf these end.
func (e *Envelope) append(buf *bytes.Buffer, written []byte) (at int, err error) {
	for _, s := range [...]string{e.Kind, e.Agent, e.Trace, e.Thread, e.FromAgent} {
		if !utf8.ValidString(s) {
			return 0, ownwords.Errorf("encode envelope: %.40q is not UTF-8: expected text", s)
		}
	}
	buf.Grow(256 + len(e.Kind) + len(e.Agent) + len(e.Trace) + len(e.Thread) + len(e.FromAgent) + len(written))
	p := newMapWriter(buf.AvailableBuffer())
	p.addUint("v", e.V) // the shorter key first, then the lower
	p.addBytes("id", e.ID[:])
	p.addBytes("to", e.To[:])
	p.addUint("ts", e.TS)
	if e.Ref != nil {
		p.addBytes("ref", e.Ref[:])
	}
	p.addBytes("from", e.From[:])
	if e.Hops > 0 {
		p.addUint("hops", e.Hops)
	}
	p.addText("kind", e.Kind)
	if e.Agent != "" {
		p.addText("agent", e.Agent)
	}
	if e.Trace != "" {
		p.addText("trace", e.Trace)
	}
	if e.Thread != "" {
		p.addText("thread", e.Thread)
	}
	if len(e.Payload) > 0 {
		p.addKey("payload")
		p = appendCBORHead(p, majorBytes, uint64(len(e.Payload)))
	}
	if e.FromAgent != "" {
		p.countPair() // it follows the payload
	}
	buf.Write(p)
	buf.Write(written)
	at = buf.Len()
	if e.FromAgent == "" {
		return at, nil
	}
	last := appendCBORHead(buf.AvailableBuffer(), majorText, uint64(len(fromAgentKey)))
	last = appendCBORHead(append(last, fromAgentKey...), majorText, uint64(len(e.FromAgent)))
	buf.Write(append(last, e.FromAgent...))
	return at, nil
}

const fromAgentKey = "from_agent"

// ParseEnvelope decodes one envelope and checks its form; the result aliases
// nothing of b. Package kinds checks the meaning of the payload, and also
// validates its JSON: until then treat it as bytes.
func ParseEnvelope(b []byte) (*Envelope, error) {
	e, err := parseEnvelope(b)
	if err == nil {
		e.Payload = bytes.Clone(e.Payload)
	}
	return e, err
}

// maxAround is how many bytes without its payload an envelope may keep in memory. All fields that are
// known take less.
const maxAround = 1 << 10

// ParseOwnEnvelope decodes as [ParseEnvelope] does, bytes that nobody else uses from then on. The payload
// aliases b. It is a copy if more than 1 KiB surrounds it: unknown fields may have any size, and those who
// keep a payload account only for its own bytes.
func ParseOwnEnvelope(b []byte) (*Envelope, error) {
	e, err := parseEnvelope(b)
	if err == nil && len(b)-len(e.Payload) > maxAround {
		e.Payload = bytes.Clone(e.Payload)
	}
	return e, err
}

func parseEnvelope(b []byte) (*Envelope, error) {
	whole, err := parseValue(b)
	if err != nil {
		return nil, err
	}
	e := new(Envelope)
	if err := whole.readFields("", e.readField, "v", "id", "from", "to", "ts", "kind"); err != nil {
		return nil, err
	}
	if err := e.Check(); err != nil {
		return nil, err
	}
	return e, nil
}

func (e *Envelope) readField(key []byte, v cborValue) (err error) {
	switch string(key) {
	case "v":
		e.V, err = v.readUint()
	case "id":
		err = v.readBytesInto(e.ID[:])
	case "from":
		err = v.readBytesInto(e.From[:])
	case "to":
		err = v.readBytesInto(e.To[:])
	case "ts":
		e.TS, err = v.readUint()
	case "kind":
		e.Kind, err = v.readText()
	case "ref":
		e.Ref = new(MessageID)
		err = v.readBytesInto(e.Ref[:])
	case "payload":
		var p []byte
		if p, err = v.readBytes(); err == nil && len(p) == 0 {
			return newFormatError("", "empty: expected a JSON object, or leave it out")
		}
		e.Payload = p
	case "trace":
		e.Trace, err = v.readText()
	case "agent":
		e.Agent, err = v.readText()
	case "thread":
		e.Thread, err = v.readText()
	case "hops":
		e.Hops, err = v.readUint()
	case fromAgentKey:
		e.FromAgent, err = v.readText()
	}
	return err
}

// Check returns an error for the first field that is missing or out of bounds. It does not
// check the payload, nor hops: too many of those have a code of their own.
func (e *Envelope) Check() error {
	switch {
	case e.V != Version:
		return newFormatError("v", fmt.Sprintf("expected %d, got %d", Version, e.V))
	case e.ID.IsZero():
		return newFormatError("id", "all zeros or not set: expected 16 bytes")
	case e.From.IsZero():
		return newFormatError("from", "all zeros or not set: expected the sender's id")
	case e.To.IsZero():
		return newFormatError("to", "all zeros or not set: expected the receiver's id")
	case e.Kind == "":
		return newFormatError("kind", "empty")
	case e.Ref != nil && e.Ref.IsZero():
		return newFormatError("ref", "all zeros")
	}
	for _, l := range [...]struct {
		field, text string
		max         int
	}{{"kind", e.Kind, MaxLabel}, {"agent", e.Agent, MaxLabel}, {"thread", e.Thread, MaxLabel}, {"trace", e.Trace, MaxTrace}, {fromAgentKey, e.FromAgent, MaxLabel}} {
		if err := checkLabel(l.field, l.text, l.max); err != nil {
			return err
		}
	}
	return nil
}

func checkLabel(field, s string, limit int) error {
	if len(s) > limit {
		return newFormatError(field, fmt.Sprintf("%d bytes: the limit is %d", len(s), limit))
	}
	if !utf8.ValidString(s) {
		return newFormatError(field, "invalid UTF-8")
	}
	return nil
}
