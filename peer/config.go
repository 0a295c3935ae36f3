package peer

import (
	"context"
	"log/slog"
	"net"
	"time"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// Config holds a node's identity, its settings and its handlers. Key and Trust are
// required; the zero value of every other field works.
type Config struct {
	Key   *identity.Key
	Trust *identity.TrustStore

	Name       string // what the node calls itself: a claim, at most 64 bytes
	Software   string // name and version of the program
	MaxMessage int    // bytes of the largest envelope; 0: wire.DefaultMaxMessage
	RequirePQ  bool   // refuse peers and key exchanges without the post-quantum half

	Features []string // announced in the hello, in addition to those of [Node.Handle]

	Listen string         // UDP host:port; "": any free port on all addresses
	Conn   net.PacketConn // when set, the socket to use instead; the node closes it
	Links  []Link         // further links that are there from the start; the node closes them

	// STUN names servers, host:port, that say at which address the world sees the UDP socket
	// (RFC 8489). They learn that address. None: nobody is asked.
	STUN []string

	// NoUpgrade keeps connections on the relay on which they became ready: peers get no
	// addresses of this machine, and none of theirs is dialled. While there is a relay, they are not
	// dialled either where they were connected before.
	NoUpgrade bool

	// HasRelays reports whether there is a relay for NoUpgrade, also if it cannot be used or is about to be. It must
	// not block. Nil: there is one among the links.
	HasRelays func() bool

	// Addrs returns where a peer may be dialled, best first, as host:port. It must
	// not block. Nil: what the trust store says.
	Addrs func(identity.ID) []string

	// Exchange answers a request of a trusted peer with a reply of [wire.NewReply]. A
	// *kinds.Error becomes an error envelope, any other error `internal`. The context
	// ends when the sender gives up or its connection ends. Nil: unknown_kind.
	Exchange func(ctx context.Context, request *Passing) (*wire.Envelope, error)

	// Message takes a message of a trusted peer; the state becomes its receipt, a
	// *kinds.Error a refusal. Nil: unknown_kind.
	Message func(ctx context.Context, message *Passing) (wire.ReceiptState, error)

	// Observer is notified of each message that passes. It may be nil.
	Observer Observer

	// AwaitsWork reports whether work is open between this node and a peer that ends with a stream
	// of either, as a delegation does. Meanwhile a connection through a command stays, for an hour
	// after its last stream at most. It must not block. Nil: nothing is ever open.
	AwaitsWork func(identity.ID) bool

	Budget  *budget.Book // what peers may cost; nil: one of its own
	PeerLog *budget.Log  // for lines that peers cause; nil: one of its own, over Logger
	Event   func(Event)  // called with each event; must not block; may be nil
	Logger  *slog.Logger
}

// EventType names an Event.
type EventType string

// The events of a node.
const (
	EventUp               EventType = "up"                // the first connection to a peer is ready
	EventMoved            EventType = "moved"             // another one is in use, at another address
	EventDown             EventType = "down"              // the last one ended
	EventRefused          EventType = "refused"           // the peer, its key proven, does not trust this node
	EventPending          EventType = "pending"           // a stranger proved its key and waits for a person
	EventTrust            EventType = "trust"             // a peer was trusted by invitation
	EventIdentityConflict EventType = "identity_conflict" // two processes show one key, or a peer another key
	EventDialEnded        EventType = "dial_ended"        // a dial that had an address ended: without Err if a connection is ready, whichever side dialled
	EventAgents           EventType = "agents"            // the peer says that an agent has come for which it refused a message of this node. It may say so at any rate: one while the last one is being handled has to cost nothing
	EventDecertified      EventType = "decertified"       // a key lost the certificate by which it was a peer, and its connections are closed
)

// Event is something that happened to a peer.
type Event struct {
	Type   EventType
	Peer   identity.ID
	Name   string // what the peer calls itself: a claim
	Addr   string
	At     time.Time
	Detail string // up, moved, down: the connection's path; others: what a person may want to know
	Err    *kinds.Error
}
