// Package wire is the format of ACP/1: what stands on a stream, byte for byte.
//
// It owns the [Envelope] in its two codings (CBOR between daemons, JSON on the
// local socket), the control items of a connection's control stream, the items of
// a mail stream, the strict CBOR modes, the stream types and the limits. Whatever
// it decodes is well formed: no duplicate keys, no indefinite lengths, no tags, no
// simple values but false, true and null, valid UTF-8, bounded depth and size,
// nothing after the end; every field is of its type, and null is of none.
// Everything else is refused with a [FormatError] that names the field. What it
// ignores (unknown fields, items of unknown types, elements past the known ones)
// it only checks for form, depth and size.
//
// It does not know which kinds exist or what their payloads mean (package kinds),
// and it opens no stream (package peer).
package wire

import (
	"errors"
	"time"
)

// StreamType is the first byte of a stream (protocol, section 3).
type StreamType byte

// The stream types. Control and Message are unidirectional, the others
// bidirectional.
const (
	StreamControl  StreamType = 0x00 // control items, one stream each way, opened first
	StreamExchange StreamType = 0x01 // one envelope and its reply
	StreamMessage  StreamType = 0x02 // one envelope, answered by a receipt
	StreamMail     StreamType = 0x03 // one OACP delivery; hello feature "mail"
	StreamHTTP     StreamType = 0x04 // one HTTP/1.1 request; hello feature "channel"
	StreamJoin     StreamType = 0x10 // joining by invitation, under ALPN acp-join/1 only
)

// Limits of the format. A receiver refuses what passes them.
const (
	Version = 1 // the envelope's v

	DefaultMaxMessage = 1 << 20  // bytes of one encoded envelope
	MinMaxMessage     = 64 << 10 // the least that a daemon may announce
	MaxMaxMessage     = 16 << 20 // the most that a daemon may announce

	MaxItem     = 16 << 10 // bytes of one control item
	MaxLabel    = 64       // bytes of agent, thread, kind, name and software
	MaxTrace    = 256      // bytes of trace
	MaxDepth    = 64       // nesting of a payload
	MaxHops     = 16       // a chain of messages longer than this is a loop
	MaxFeatures = 16       // entries of hello.features
)

// ReceiptDeadline is how long a sender waits for the receipt of a message.
const ReceiptDeadline = 5 * time.Second

// FormatError says that bytes are not what the protocol prescribes.
type FormatError struct {
	Field   string // the field or item at fault; "" where the whole is
	Problem string // what is wrong with it and what is expected instead
}

func (e *FormatError) Error() string {
	if e.Field == "" {
		return e.Problem
	}
	return e.Field + ": " + e.Problem
}

func malformed(field, problem string) error {
	return &FormatError{Field: field, Problem: problem}
}

// within says in which field err is, unless it names one itself.
func within(field string, err error) error {
	if fe, ok := errors.AsType[*FormatError](err); ok && fe.Field == "" {
		return malformed(field, fe.Problem)
	}
	return err
}
