package peer

import (
	"context"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/acpd/acpd/identity"
)

// What a connection may cost until its hello is in, and one that joins in all.
const (
	strangerTime  = time.Second
	strangerBytes = 64 << 10             // handshake and hello take a quarter of it
	strangerTick  = 5 * time.Millisecond // between looks at how many there are
)

// acceptConns accepts connections until the node ends. It waits for none of them, since
// one could stall all others.
func (n *Node) acceptConns() error {
	for {
		ctx, wake := context.WithCancel(n.ctx)
		n.wakeAccept.Store(&wake)
		n.acceptRounds.ComeRound()
		qc, err := n.listener.Accept(ctx)
		woken := ctx.Err() != nil
		wake()
		switch {
		case err != nil && n.ctx.Err() != nil:
			return nil
		case err != nil && woken:
			continue
		case err != nil:
			return err
		}
		n.handshakes.endHandshake(qc.Context())
		if !n.startTask(func() { n.acceptConn(qc) }) {
			qc.CloseWithError(closeShutdown, "shutting down")
		}
	}
}

// AwaitAcceptRound blocks until the loop that accepts connections has come round, or returns
// ctx's error. Before [Node.Serve] and after it, there is no such loop.
func (n *Node) AwaitAcceptRound(ctx context.Context) error {
	next := n.acceptRounds.Next()
	if wake := n.wakeAccept.Load(); wake != nil {
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
// connection is closed.
func (n *Node) acceptConn(qc *quic.Conn) {
	defer n.closeConnWithNode(qc)()
	state := qc.ConnectionState().TLS
	id, err := identity.PeerID(state)
	if err != nil {
		qc.CloseWithError(closeProtocolError, err.Error())
		return
	}
	if state.NegotiatedProtocol == identity.ALPNJoin {
		n.serveJoin(qc, id)
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
		newConn(n, qc, id).run()
		return
	}
	if !n.strangers.tryAddStranger(qc.RemoteAddr()) {
		qc.CloseWithError(closeNotTrusted, "not trusted")
		return
	}
	defer n.strangers.removeStranger(qc.RemoteAddr())
	n.acceptStranger(qc, id)
}

// acceptStranger reads a stranger's hello and refuses it.
func (n *Node) acceptStranger(qc *quic.Conn, id identity.ID) {
	n.tasks.Go(func() { limitGreetingBytes(qc, nil, closeNotTrusted, "not trusted") })
	c := &conn{node: n, qc: qc, id: id}
	if _, err := c.exchangeHellos(strangerTime, false); err != nil {
		c.closeFailedGreeting(err)
		return
	}
	c.refuseHello(&helloRefusal{code: closeNotTrusted, reason: "not trusted", event: EventPending})
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
