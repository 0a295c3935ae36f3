package relay

import (
	"strings"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
)

const (
	addrPrefix = "relay:"
	maxName    = 32
)

// Addr is where a peer is on a relay: the relay's name and the peer's id. Two are equal if
// both parts are.
type Addr struct {
	relay string
	id    identity.ID
	text  string // of the other two: quic-go asks for it often
}

func newAddr(relay string, id identity.ID) Addr {
	return Addr{relay, id, addrPrefix + relay + "/" + id.String()}
}

// Network returns "relay".
func (Addr) Network() string { return "relay" }

// String returns relay:NAME/ID with the whole id.
func (a Addr) String() string { return a.text }

// Relay returns the name of the relay.
func (a Addr) Relay() string { return a.relay }

// ID returns the id of the peer.
func (a Addr) ID() identity.ID { return a.id }

// ParseAddr reads what [Addr.String] returns. The error has the code invalid.
func ParseAddr(s string) (Addr, error) {
	rest, ok := strings.CutPrefix(s, addrPrefix)
	name, digits, whole := strings.Cut(rest, "/")
	if !ok || !whole {
		return Addr{}, kinds.Errorf(kinds.Invalid, "relay address %.120q: expected relay:NAME/ID", s)
	}
	if err := CheckName(name); err != nil {
		return Addr{}, err
	}
	id, err := identity.ParseID(digits)
	if err == nil && id.IsZero() {
		err = kinds.Errorf(kinds.Invalid, "zero: no peer has it")
	}
	if err != nil {
		return Addr{}, kinds.Errorf(kinds.Invalid, "relay address %.120q: %s", s, err)
	}
	return newAddr(name, id), nil
}

// CheckName reports what is wrong with the name of a relay. The error has the code invalid.
func CheckName(name string) error {
	const form = "expected a lower-case letter, then letters, digits and hyphens, 32 in all"
	if name == "" || len(name) > maxName || name[0] < 'a' || name[0] > 'z' {
		return kinds.Errorf(kinds.Invalid, "relay: name %.40q: %s", name, form)
	}
	for _, c := range []byte(name) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return kinds.Errorf(kinds.Invalid, "relay: name %.40q: character %q: %s", name, c, form)
		}
	}
	return nil
}
