package openintent

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
	idIntent      = "intent"
	idChannel     = "chan"
	idMessage     = "msg"
	idEvent       = "evt"
	idTask        = "task"
	idCoordinator = "coord"
	idEntry       = "acl"
	idAssignment  = "asgn"
)

// HostDigits is how many hex digits of its maker's id an id has.
const HostDigits = 10

const (
	ulidLen   = 26
	crockford = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
)

func (e *Engine) newID(prefix string, at chain.Time) string {
	var b [16]byte
	rand.Read(b[6:])
	return e.formID(prefix, at, b)
}

func (e *Engine) messageID(at chain.Time, number int64) string {
	var b [16]byte
	binary.BigEndian.PutUint64(b[3:], uint64(number))
	rand.Read(b[11:])
	return e.formID(idMessage, at, b)
}

func (e *Engine) formID(prefix string, at chain.Time, b [16]byte) string {
	var ms [8]byte
	binary.BigEndian.PutUint64(ms[:], uint64(at/1000))
	copy(b[:6], ms[2:])
	id := make([]byte, 0, len(prefix)+HostDigits+ulidLen+2)
	id = append(append(append(append(id, prefix...), '_'), e.host...), '_')
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

// splitID returns the parts of an id: of a message id also its time and the
// number in it, 0 where its maker did not know the number.
func splitID(id string) (prefix, host string, at chain.Time, number int64, ok bool) {
	prefix, rest, ok := strings.Cut(id, "_")
	if !ok || len(rest) != HostDigits+1+ulidLen || rest[HostDigits] != '_' {
		return "", "", 0, 0, false
	}
	host = rest[:HostDigits]
	if !isHost(host) {
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

// HostOf returns the ten hex digits of the daemon where id was made, and false
// where id is none of this package's forms.
func HostOf(id string) (string, bool) {
	_, host, _, _, ok := splitID(id)
	return host, ok
}

// IsChannelID reports whether id has the form of a channel's.
func IsChannelID(id string) bool { return strings.HasPrefix(id, idChannel+"_") }

// IsIntentOf reports whether the daemon with that id can have made the id of an intent, no
// later than latest.
func IsIntentOf(home, id string, latest chain.Time) bool {
	prefix, digits, at, _, ok := splitID(id)
	return ok && prefix == idIntent && strings.HasPrefix(home, digits) && at <= latest
}

func isHost(s string) bool {
	if len(s) != HostDigits {
		return false
	}
	for _, c := range []byte(s) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// Agent ids stand in URLs as they are, so they are letters, digits and a few signs.
const maxAgentID = 128

var agentForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._@+~-]*(:[A-Za-z0-9._@+~-]+)*$`)

const (
	system   = "system"   // the sender of notices; nobody can be it
	operator = "operator" // who acts with an operator's rights and under no agent's id
	toAll    = "*"
	toRole   = "role:"
)

func ValidAgentID(id string) bool {
	return len(id) <= maxAgentID && agentForm.MatchString(id) && id != system && id != operator && !strings.HasPrefix(id, toRole)
}
