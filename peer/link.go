package peer

import (
	"context"
	"net"

	"github.com/quic-go/quic-go"

	"github.com/acpd/acpd/identity"
)

// Path says how packets travel between this node and a peer.
type Path string

// The paths, the best first.
const (
	Direct   Path = "direct" // from this node's UDP socket to the peer's
	ViaPipe  Path = "pipe"   // through the standard input and output of a command
	ViaRelay Path = "relay"  // through a server that passes packets on
)

// rank orders paths: the lower, the better.
func (p Path) rank() int {
	switch p {
	case Direct:
		return 0
	case ViaPipe:
		return 1
	}
	return 2
}

// Link carries packets, as the node's own UDP socket does. The node has a quic.Transport and a
// listener of its own on each link.
//
// WriteTo must not block: like a socket, a link drops what it cannot take, and returns nil.
// ReadFrom returns packets with the address of their sender; after Close it returns
// net.ErrClosed. An address is compared by its String.
type Link interface {
	net.PacketConn

	// Name returns what tells this link from the others of the node, and begins the text of
	// its addresses: relay:NAME or pipe:NAME.
	Name() string

	// Path returns ViaPipe or ViaRelay.
	Path() Path

	// Addr returns where the peer is dialled on this link; nil: it is not to be dialled here.
	Addr(id identity.ID) net.Addr

	// Sender returns the id that the sender of packets from addr claims; the zero ID if the
	// link does not know. It is a claim, as a UDP source address is.
	Sender(addr net.Addr) identity.ID

	// Run serves the link until ctx ends, and returns when its goroutines have ended. It
	// notifies n. It returns an error if the link cannot go on at all; the node
	// logs it and removes the link.
	Run(ctx context.Context, n LinkObserver) error
}

// LinkObserver is notified by a link. Its methods do not block.
type LinkObserver interface {
	// NobodyAt is called when the link was notified that nobody takes packets at addr. A dial to
	// it ends as if the host had refused the port, unless the link is an [Opener], whose Open
	// returns that; on an open connection a proof begins.
	NobodyAt(addr net.Addr)

	// Interrupted says that packets of the last seconds may be lost, or that this host has another
	// address: every connection on the link is proven, and direct paths are tried at new addresses.
	Interrupted()
}

const (
	// A connection takes 64 streams whose readers push back, and 256 KiB of others.
	// That is three quarters of its window: QUIC gives credit back when a quarter of
	// it has been read.
	streamWindow     = 128 << 10
	connectionWindow = (64*streamWindow + 256<<10) * 4 / 3

	// On links it is the same with smaller windows, as a server that passes packets on keeps
	// what waits in memory. A stream's window grows to streamWindow while its reader keeps up.
	linkStreamWindow     = 16 << 10
	linkConnectionWindow = 2 << 20

	// linkPacketSize are the bytes of packets on links. Links carry 1,452, but quic-go's pacer assumes
	// 1,280 until path MTU discovery finds another size, and links do no such discovery (v0.65.0,
	// internal/congestion/pacer.go). With larger packets it sets no timer while it may send
	// 1,280 bytes and no whole packet, and the connection spins until then.
	linkPacketSize = 1280
)

// newQUICConfig returns the configuration of connections on a path.
func newQUICConfig(p Path) *quic.Config {
	config := &quic.Config{
		HandshakeIdleTimeout:           handshakeTimeout,
		MaxIdleTimeout:                 idleTimeout,
		KeepAlivePeriod:                keepAlive,
		MaxIncomingStreams:             maxIncomingExchanges,
		MaxIncomingUniStreams:          maxIncomingMessages,
		RequireStreamCreditRelease:     true,
		InitialStreamReceiveWindow:     streamWindow,
		MaxStreamReceiveWindow:         streamWindow,
		InitialConnectionReceiveWindow: connectionWindow,
		MaxConnectionReceiveWindow:     connectionWindow,
		InitialPacketSize:              1200,
	}
	if p == Direct {
		return config
	}
	config.InitialStreamReceiveWindow = linkStreamWindow
	config.InitialConnectionReceiveWindow = linkConnectionWindow
	config.MaxConnectionReceiveWindow = linkConnectionWindow
	config.InitialPacketSize = linkPacketSize
	config.DisablePathMTUDiscovery = true
	if p == ViaPipe {
		config.HandshakeIdleTimeout = pipeOpenTime // what a command asks of its user comes before
	}
	return config
}
