package pipe

import (
	"strings"

	"github.com/acpd/acpd/identity"
)

const (
	network      = "pipe"
	textPrefix   = network + ":"
	inPrefix     = "in-"
	joinedPrefix = textPrefix + inPrefix
)

// Addr is the address of a pipe: pipe:NAME of one that is dialled, pipe:in-N of one that came
// in. It is comparable. N is never used again, so what was known of a pipe concerns no other.
type Addr struct {
	text string
	id   identity.ID // to which the pipe is bound; zero: it came in
}

// Network returns "pipe".
func (Addr) Network() string { return network }

func (a Addr) String() string { return a.text }

// newDialAddr returns the address of the pipe to a peer. A peer whose name reads like a pipe that
// came in has its id in the address.
func newDialAddr(name string, id identity.ID) Addr {
	if name == "" || strings.HasPrefix(name, inPrefix) {
		name = id.String()
	}
	return Addr{text: textPrefix + name, id: id}
}
