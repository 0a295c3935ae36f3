// Package wire is the format of ACP/1: the bytes of a stream.
//
// It owns the [Envelope] in its two codings (CBOR between daemons, JSON on the
// local socket), the control items of a connection's control stream, the items of
// a mail stream, the strict CBOR modes, the stream types and the limits. Whatever
// it decodes is well formed: no duplicate keys, no indefinite lengths, no tags, no
// simple values but false, true and null, valid UTF-8, bounded depth and size,
// nothing after the end; every field is of its type, and null is of no type.
// Everything else is refused with a [FormatError] that names the field. What it
// ignores (unknown fields, items of unknown types, elements past the known ones)
// it only checks for form, depth and size.
//
// It does not know which kinds exist or what their payloads mean (package kinds),
// and it opens no stream (package peer).
package wire
