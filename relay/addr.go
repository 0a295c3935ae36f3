package relay

import "github.com/acpd/acpd/identity"

const addrPrefix = "relay:"

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
