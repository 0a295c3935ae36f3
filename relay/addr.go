package relay

import (
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
