package peer

import (
	"context"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/internal/pace"
)

// endpoint is this node's end of a link: its own QUIC transport and listener, and what it grants
// strangers there. The UDP socket has one too.
type endpoint struct {
	node *Node
	name string // of the link; "": the UDP socket
	path Path
	link Link // nil: the UDP socket

	socket    net.PacketConn
	transport *quic.Transport
	listener  *quic.Listener
	config    *quic.Config
	prober    prober        // nil on a socket that is not the system's
	askEvery  time.Duration // between calls of prober.askHost
	gates     gates
	notices   notices // of addresses where nobody is

	acceptRounds pace.Rounds
	wakeAccept   atomic.Pointer[context.CancelFunc] // has acceptConns go round
	accepting    context.Context                    // ends when nothing is to be accepted any more
	stopAccept   context.CancelFunc

	running sync.WaitGroup // Link.Run
	runCtx  context.Context
	stopRun context.CancelFunc

	closeOnce sync.Once
	removing  atomic.Bool   // nothing is dialled or admitted here any more
	closed    chan struct{} // closed when all of it has ended
}

// openEndpoint makes a transport and a listener on the endpoint's socket. If that fails, the
// socket is still the caller's.
func (n *Node) openEndpoint(e *endpoint) error {
	e.node = n
	e.config = newQUICConfig(e.path)
	if _, opens := e.link.(Opener); opens {
		e.config.HandshakeIdleTimeout = handshakeTimeout // it begins when the link is open
	}
	e.closed = make(chan struct{})
	e.accepting, e.stopAccept = context.WithCancel(n.ctx)
	e.runCtx, e.stopRun = context.WithCancel(context.Background()) // it outlasts the connections, whose last packets are to leave
	// Each link has keys of its own. With those of another, whoever can send packets there could
	// ask for the reset of a connection that this link does not have, and end it where it is
	// (RFC 9000, section 21.11).
	label := func(purpose string) string {
		if e.name == "" {
			return purpose
		}
		return purpose + " " + e.name
	}
	reset := quic.StatelessResetKey(n.cfg.Key.DeriveSecret(label("acp stateless reset v1")))
	token := quic.TokenGeneratorKey(n.cfg.Key.DeriveSecret(label("acp address token v1")))
	e.transport = &quic.Transport{
		Conn:                e.socket,
		ConnectionIDLength:  8,
		StatelessResetKey:   &reset,
		TokenGeneratorKey:   &token,
		VerifySourceAddress: e.gates.handshakes.mustProveAddr,
		ConnContext:         e.gates.handshakes.beginHandshake,
	}
	conf, err := n.cfg.Key.ServerTLS(n.cfg.RequirePQ, n.listOfferedALPN)
	if err == nil {
		e.listener, err = e.transport.Listen(conf, e.config)
	}
	if err != nil {
		e.stopAccept()
		e.stopRun()
		return ownwords.Errorf("listen: %w", err)
	}
	return nil
}

// openUDP opens the socket, unless Config.Conn is set, and listens on it.
func (n *Node) openUDP() error {
	e := &endpoint{path: Direct, socket: n.cfg.Conn, askEvery: askEvery, gates: n.newUDPGates()}
	if e.socket == nil {
		addr, err := net.ResolveUDPAddr("udp", n.cfg.Listen)
		if err != nil {
			return ownwords.Errorf("listen: address %q: %w; write host:port, for example 127.0.0.1:0", n.cfg.Listen, err)
		}
		conn, err := (&net.ListenConfig{Control: ListenEarly}).ListenPacket(n.ctx, "udp", addr.String())
		if err != nil {
			return ownwords.Errorf("listen on UDP %s: %w", n.cfg.Listen, err)
		}
		if e.socket, err = newUDPSocket(conn.(*net.UDPConn)); err != nil {
			conn.Close()
			return ownwords.Errorf("listen on UDP %s: %w", n.cfg.Listen, err)
		}
		e.prober = hostProber(probeAddr)
	}
	if err := n.openEndpoint(e); err != nil {
		e.socket.Close()
		return err
	}
	n.udp = e
	n.stun = stunClient{servers: n.cfg.STUN, socket: e.transport}
	return nil
}

// linkSocket is a link as QUIC reads and writes it. The buffers whose sizes QUIC sets are the
// link's own affair; without these methods quic-go would print a warning.
type linkSocket struct{ net.PacketConn }

func (linkSocket) SetReadBuffer(int) error  { return nil }
func (linkSocket) SetWriteBuffer(int) error { return nil }

// newLinkEndpoint makes the endpoint of a link, and listens there.
func (n *Node) newLinkEndpoint(link Link) (*endpoint, error) {
	e := &endpoint{name: link.Name(), path: link.Path(), link: link, socket: linkSocket{link}, askEvery: linkAskEvery, gates: n.newLinkGates(link)}
	e.prober = noticeProber{&e.notices}
	return e, n.openEndpoint(e)
}

// close ends the endpoint at once, and returns when it has ended. Connections that are left are
// lost.
func (e *endpoint) close() {
	e.closeOnce.Do(func() {
		e.stopAccept()
		e.stopRun()
		e.running.Wait()
		e.socket.Close() // first, so that nothing waits in ReadFrom
		e.transport.Close()
		close(e.closed)
	})
}

// NobodyAt implements [LinkObserver].
func (e *endpoint) NobodyAt(addr net.Addr) { e.notices.tell(addr) }

// Interrupted implements [LinkObserver].
func (e *endpoint) Interrupted() {
	e.node.AddrsChanged() // its server may see another one
	for _, c := range e.listConns() {
		c.joinOrStartProof()
	}
}

// listConns returns the ready connections on the link.
func (e *endpoint) listConns() []*conn {
	return slices.DeleteFunc(e.node.listConns(), func(c *conn) bool { return c.endpoint != e })
}
