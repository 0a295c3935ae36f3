package object

import (
	"crypto/rand"
	"encoding/binary"
	"regexp"
	"strings"

	"github.com/acpd/acpd/openintent/chain"
)

// An id is prefix_host_ulid: the first ten hex digits of the daemon that made
// it, and a ULID, which sorts by time. A message's ULID carries the message's
// number in its channel in the five bytes after the time, so that it is a
// cursor even when the message is gone.
const (
	IDIntent      = "intent"
	IDChannel     = "chan"
	IDMessage     = "msg"
	IDEvent       = "evt"
	IDTask        = "task"
	IDCoordinator = "coord"
	IDEntry       = "acl"
	IDAssignment  = "asgn"
)

// HostDigits is the number of hex digits in an id that tell the daemon that made it.
const HostDigits = 10

const (
	ULIDLength = 26
	crockford  = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
)

// NewID makes an id with a prefix and a random ULID. self is the id of the daemon that makes it.
func NewID(self, prefix string, at chain.Time) string {
	var b [16]byte
	rand.Read(b[6:])
	return encodeID(self, prefix, at, b)
}

// NewMessageID makes a message's id, which carries its number in its channel.
func NewMessageID(self string, at chain.Time, number int64) string {
	var b [16]byte
	binary.BigEndian.PutUint64(b[3:], uint64(number))
	rand.Read(b[11:])
	return encodeID(self, IDMessage, at, b)
}

// encodeID makes an id of a prefix, the time, and the last ten bytes of b.
func encodeID(self, prefix string, at chain.Time, b [16]byte) string {
	var ms [8]byte
	binary.BigEndian.PutUint64(ms[:], uint64(at/1000))
	copy(b[:6], ms[2:])
	id := make([]byte, 0, len(prefix)+HostDigits+ULIDLength+2)
	id = append(append(append(append(id, prefix...), '_'), self[:HostDigits]...), '_')
	// 128 bits as 26 digits of 5, the first of 3.
	hi, lo := binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])
	for i := 125; i >= 0; i -= 5 {
		var d uint64
		switch {
		case i >= 64:
			d = hi >> (i - 64)
		default:
			d = lo >> i
			if i > 59 {
				d |= hi << (64 - i)
			}
		}
		id = append(id, crockford[d&31])
	}
	return string(id)
}

// ParseID returns the parts of an id. Of a message's id these include its time and number; the
// number is 0 if the maker of the id did not know it.
func ParseID(id string) (prefix, host string, at chain.Time, number int64, ok bool) {
	prefix, rest, ok := strings.Cut(id, "_")
	if !ok || len(rest) != HostDigits+1+ULIDLength || rest[HostDigits] != '_' {
		return "", "", 0, 0, false
	}
	host = rest[:HostDigits]
	if !IsHex(host, HostDigits) {
		return "", "", 0, 0, false
	}
	var hi, lo uint64
	for _, c := range []byte(rest[HostDigits+1:]) {
		d := strings.IndexByte(crockford, c)
		if d < 0 {
			return "", "", 0, 0, false
		}
		hi, lo = hi<<5|lo>>59, lo<<5|uint64(d)
	}
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], hi)
	binary.BigEndian.PutUint64(b[8:], lo)
	return prefix, host, chain.Time(hi>>16) * 1000, int64(binary.BigEndian.Uint64(b[3:]) & (1<<40 - 1)), true
}

// HostOfID returns the ten hex digits of the daemon that made id, and false if id has none of this
// package's forms.
func HostOfID(id string) (string, bool) {
	_, host, _, _, ok := ParseID(id)
	return host, ok
}

// IsChannelID reports whether id has the form of a channel's.
func IsChannelID(id string) bool { return strings.HasPrefix(id, IDChannel+"_") }

// IsIntentIDOf reports whether the daemon with that id can have made the id of an intent, no
// later than latest.
func IsIntentIDOf(home, id string, latest chain.Time) bool {
	prefix, digits, at, _, ok := ParseID(id)
	return ok && prefix == IDIntent && strings.HasPrefix(home, digits) && at <= latest
}

// MaxAgentID is the most bytes of an agent's id. Agent ids stand in URLs as they are, so they
// consist of letters, digits and a few signs.
const MaxAgentID = 128

var agentForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._@+~-]*(:[A-Za-z0-9._@+~-]+)*$`)

const (
	System = "system" // the sender of notices; nobody can be it
	ToAll  = "*"
	ToRole = "role:"
)

// IsAgentID reports whether an agent may have the id.
func IsAgentID(id string) bool {
	return len(id) <= MaxAgentID && agentForm.MatchString(id) && id != System && id != Operator && !strings.HasPrefix(id, ToRole)
}
