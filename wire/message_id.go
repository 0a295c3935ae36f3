package wire

import (
	"crypto/rand"
	"encoding/hex"

	"github.com/acpd/acpd/internal/ownwords"
)

// MessageID names one message. The sender draws it, a random UUID version 4
// (RFC 9562, section 5.4) unless the caller gives one; a receiver takes any 16
// bytes but zeros. Its text form is the UUID's.
type MessageID [16]byte

// NewMessageID draws a random UUID version 4.
func NewMessageID() MessageID {
	var id MessageID
	rand.Read(id[:]) // never fails: crypto/rand aborts the program instead
	id[6] = id[6]&0x0f | 0x40
	id[8] = id[8]&0x3f | 0x80
	return id
}

// ParseMessageID reads the text form, lower or upper case, with its hyphens.
func ParseMessageID(s string) (MessageID, error) {
	var id MessageID
	err := id.UnmarshalText([]byte(s))
	return id, err
}

// IsZero reports whether id is the nil UUID, which names nothing.
func (id MessageID) IsZero() bool { return id == MessageID{} }

func (id MessageID) String() string {
	text, _ := id.AppendText(make([]byte, 0, 36))
	return string(text)
}

// AppendText appends the UUID form.
func (id MessageID) AppendText(b []byte) ([]byte, error) {
	b = hex.AppendEncode(b, id[:4])
	for at := 4; at < 10; at += 2 {
		b = hex.AppendEncode(append(b, '-'), id[at:at+2])
	}
	return hex.AppendEncode(append(b, '-'), id[10:]), nil
}

// MarshalText returns the UUID form.
func (id MessageID) MarshalText() ([]byte, error) { return id.AppendText(make([]byte, 0, 36)) }

// UnmarshalText reads the UUID form; the nil UUID is refused.
func (id *MessageID) UnmarshalText(text []byte) error {
	bad := func() error {
		return ownwords.Errorf("message id %.40q: expected a UUID like 3f2b8c1e-6f0a-4d3c-9e57-0c1d2e3f4a5b", text)
	}
	if len(text) != 36 || text[8] != '-' || text[13] != '-' || text[18] != '-' || text[23] != '-' {
		return bad()
	}
	var raw [32]byte
	n := 0
	for _, part := range [][]byte{text[0:8], text[9:13], text[14:18], text[19:23], text[24:36]} {
		n += copy(raw[n:], part)
	}
	var out MessageID
	if _, err := hex.Decode(out[:], raw[:]); err != nil || out.IsZero() {
		return bad()
	}
	*id = out
	return nil
}
