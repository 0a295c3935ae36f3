package wire

import (
	"crypto/rand"
	"encoding/hex"
)

// Chain holds the fields that a message hands on to the messages that it leads to.
type Chain struct {
	Thread string
	Hops   uint64
	Trace  string
}

// Chain returns what the envelope hands on.
func (env *Envelope) Chain() Chain { return Chain{env.Thread, env.Hops, env.Trace} }

// TraceID is the name of a chain, which is the same at all daemons that its messages reach. A peer may write
// that of any chain into its messages: so it names, and proves nothing. The zero value is that of none.
type TraceID [16]byte

// The parts of a W3C traceparent of version 00: 00-TRACE-PARENT-FLAGS.
const (
	traceAt, traceEnd = 3, 3 + 2*len(TraceID{})
	traceLength       = traceEnd + 1 + 2*8 + 1 + 2
)

// NewTrace returns the trace of a chain that begins: a W3C traceparent whose ids are random.
func NewTrace() string {
	var ids [len(TraceID{}) + 8]byte
	rand.Read(ids[:])
	b := append(make([]byte, 0, traceLength), "00-"...)
	b = append(hex.AppendEncode(b, ids[:len(TraceID{})]), '-')
	return string(append(hex.AppendEncode(b, ids[len(TraceID{}):]), "-00"...))
}

// TraceID returns the trace id of the chain, zero unless its trace is a traceparent.
func (c Chain) TraceID() (id TraceID) {
	t := c.Trace
	if len(t) < traceLength || t[traceAt-1] != '-' || t[traceEnd] != '-' {
		return TraceID{}
	}
	if _, err := hex.Decode(id[:], []byte(t[traceAt:traceEnd])); err != nil {
		return TraceID{}
	}
	return id
}

// String returns the id as 32 hex digits, "" if it is zero.
func (id TraceID) String() string {
	if id == (TraceID{}) {
		return ""
	}
	return hex.EncodeToString(id[:])
}
