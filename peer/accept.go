package peer

import (
	"bufio"
	"context"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/acpd/acpd/identity"
)

// Bounds on a connection until its hello has come, and on all joining connections together.
const (
	strangerTime  = time.Second
	strangerBytes = 64 << 10             // handshake and hello take a quarter of it
	strangerTick  = 5 * time.Millisecond // between looks at how many there are
)

// acceptConns accepts connections on a link until the node ends or the link is removed. It waits
// for none of them, since one could stall all others.
func (e *endpoint) acceptConns() error {
	for {
		ctx, wake := context.WithCancel(e.accepting)
		e.wakeAccept.Store(&wake)
		e.acceptRounds.ComeRound()
		qc, err := e.listener.Accept(ctx)
		woken := ctx.Err() != nil
		wake()
		switch {
		case err != nil && e.accepting.Err() != nil:
			return nil
		case err != nil && woken:
			continue
		case err != nil:
			return err
		}
		e.gates.handshakes.endHandshake(qc.Context())
		if !e.node.startTask(func() { e.acceptConn(qc) }) {
			qc.CloseWithError(closeShutdown, "shutting down")
		}
	}
}

// AwaitAcceptRound blocks until the loops that accept connections, one for each link, have come
// round, or returns ctx's error. Before [Node.Serve] and after it, there are no such loops.
func (n *Node) AwaitAcceptRound(ctx context.Context) error {
	if err := n.udp.awaitAcceptRound(ctx); err != nil {
		return err
	}
	for _, e := range n.links.snapshot() {
		if err := e.awaitAcceptRound(ctx); err != nil && e.accepting.Err() == nil {
			return err
		}
	}
	return nil
}

func (e *endpoint) awaitAcceptRound(ctx context.Context) error {
	next := e.acceptRounds.Next()
	if wake := e.wakeAccept.Load(); wake != nil {
		(*wake)()
	}
	select {
	case <-next:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// acceptConn serves a connection whose client has proved its key. A trusted peer gets
// our hello. A stranger gets none: its hello is read, it becomes pending, and the
// connection is closed. If its hello makes it a peer, by a certificate, it gets our hello then.
func (e *endpoint) acceptConn(qc *quic.Conn) {
	n := e.node
	defer n.closeConnWithNode(qc)()
	state := qc.ConnectionState().TLS
	id, err := identity.PeerID(state)
	if err != nil {
		qc.CloseWithError(closeProtocolError, describeCause(err))
		return
	}
	if !e.mayCome(qc.RemoteAddr(), id) {
		qc.CloseWithError(closeNotTrusted, "not trusted")
		return
	}
	if state.NegotiatedProtocol == identity.ALPNJoin {
		e.serveJoin(qc, id)
		return
	}
	if id == n.self {
		qc.CloseWithError(closeIdentityConflict, "the dialler shows this daemon's own key")
		return
	}
	if n.cfg.Trust.IsBlocked(id) {
		qc.CloseWithError(closeNotTrusted, "not trusted")
		return
	}
	if _, trusted := n.cfg.Trust.FindPeer(id); trusted {
		c := newConn(e, qc, id)
		n.startConn(c, nil)
		return
	}
	from := e.gates.sourceOf(qc.RemoteAddr())
	if !e.gates.strangers.tryAddStranger(from) {
		if n.cfg.Trust.HasAuthorities() { // it may be a peer, which not_trusted would have given up
			qc.CloseWithError(closeOverloaded, "too many strangers at a time")
		} else {
			qc.CloseWithError(closeNotTrusted, "not trusted")
		}
		return
	}
	c, reader := e.acceptStranger(qc, id)
	e.gates.strangers.removeStranger(from)
	if c != nil {
		n.startConn(c, reader)
	}
}

// acceptStranger reads a stranger's hello and refuses it, unless a certificate makes it a peer.
func (e *endpoint) acceptStranger(qc *quic.Conn, id identity.ID) (*conn, *bufio.Reader) {
	c := &conn{node: e.node, endpoint: e, qc: qc, id: id}
	var admitted chan struct{} // nil while no certificate is valid here
	if e.node.cfg.Trust.HasAuthorities() {
		admitted = make(chan struct{})
		defer close(admitted)
	}
	e.node.tasks.Go(func() { limitGreetingBytes(qc, admitted, closeNotTrusted, "not trusted") })
	return e.greetStranger(c)
}

// limitGreetingBytes closes a connection on which more comes than a hello or a request
// to join takes. It returns when the connection has ended or is admitted. QUIC's windows
// do not do this: they are set, for a peer, before the key is known.
func limitGreetingBytes(qc *quic.Conn, admitted <-chan struct{}, code quic.ApplicationErrorCode, reason string) {
	look := time.NewTicker(strangerTick)
	defer look.Stop()
	for {
		select {
		case <-qc.Context().Done():
			return
		case <-admitted:
			return
		case <-look.C:
			if qc.ConnectionStats().BytesReceived > strangerBytes {
				qc.CloseWithError(code, reason)
			}
		}
	}
}
