// Package identity holds a daemon's key and the keys that it trusts.
//
// A daemon is one Ed25519 key, and an [ID] is the public half of it. The other
// half is a [Key]: it is made once, kept in one file, never replaced silently
// and never printed. Everything else that the daemon must prove or derive comes
// from it: the certificate for TLS, the post-quantum half of the identity
// (ML-DSA-65, [Key.SignHello]) and the keys that must survive a restart
// ([Key.DeriveSecret]).
//
// A [TrustStore] holds the peers that the owner trusted, under petnames that are
// local and unique, and the keys that the owner blocked. It lives in two files
// so that a damaged one neither loses the peers nor brings back a blocked key.
// [Invitations] are the open offers to become trusted; an [Invitation] is such
// an offer as a line of text.
//
// TLS as configured here proves possession of a key and checks the form of the
// certificate, on the dialling side also that the key is the expected one. It
// does not decide which peers may connect: a listener sees a certificate before the
// other end has proved the key, so the caller asks the trust store after the handshake.
//
// The package knows no network and no messages. It does no I/O but on the key
// file and on the two trust files, and starts no goroutine.
package identity

import (
	"bytes"
	"encoding/hex"
	"strings"

	"github.com/acpd/acpd/internal/ownwords"
)

// ID is the identity of a daemon: an Ed25519 public key (RFC 8032,
// section 5.1.5). The zero ID means no daemon; no peer can have it.
type ID [32]byte

const hexDigits = "0123456789abcdef"

// ParseID reads the text form: exactly 64 lower-case hex digits.
func ParseID(s string) (ID, error) {
	var id ID
	if err := parseHex(id[:], s); err != nil {
		return ID{}, ownwords.Errorf("agent id: %w", err)
	}
	return id, nil
}

// String returns 64 lower-case hex digits.
func (id ID) String() string { return hex.EncodeToString(id[:]) }

// Label returns the first 10 hex digits. It tells ids apart in output and
// proves nothing.
func (id ID) Label() string { return id.String()[:10] }

// Fingerprint returns the first 32 hex digits in groups of four: what two people
// compare over another channel.
func (id ID) Fingerprint() string {
	digits := id.String()[:32]
	groups := make([]string, 0, 8)
	for ; digits != ""; digits = digits[4:] {
		groups = append(groups, digits[:4])
	}
	return strings.Join(groups, " ")
}

// IsZero reports whether id is the zero ID.
func (id ID) IsZero() bool { return id == ID{} }

// Compare orders ids by their bytes, as [bytes.Compare] does.
func (id ID) Compare(other ID) int { return bytes.Compare(id[:], other[:]) }

// AppendText appends the form that [ParseID] reads.
func (id ID) AppendText(b []byte) ([]byte, error) { return hex.AppendEncode(b, id[:]), nil }

// MarshalText returns the form that [ParseID] reads.
func (id ID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText is [ParseID]. On an error id is unchanged.
func (id *ID) UnmarshalText(text []byte) error {
	var parsed ID
	if err := parseHex(parsed[:], text); err != nil {
		return ownwords.Errorf("agent id: %w", err)
	}
	*id = parsed
	return nil
}

// hasHexPrefix reports whether the text form begins with digits, 64 at most.
func (id *ID) hasHexPrefix(digits string) bool {
	var text [2 * len(ID{})]byte
	hex.Encode(text[:], id[:])
	return string(text[:len(digits)]) == digits
}

// parseHex fills dst from exactly twice as many lower-case hex digits. Upper
// case is refused so that every value has one text.
func parseHex[T string | []byte](dst []byte, s T) error {
	if len(s) != 2*len(dst) {
		return ownwords.Errorf("expected %d lower-case hex digits, and there are %d characters", 2*len(dst), len(s))
	}
	for i := range len(s) {
		d := s[i] - '0'
		if d > 9 {
			if d = s[i] - 'a' + 10; d < 10 || d > 15 {
				return ownwords.New("not only lower-case hex digits")
			}
		}
		dst[i/2] = dst[i/2]<<4 | d
	}
	return nil
}
