package peer

import (
	"context"
	"errors"
	"net"
	"slices"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/acpd/acpd/identity"
)

// Opener is a Link whose addresses are opened before they are dialled: a pipe, which starts a
// command.
type Opener interface {
	Link

	// Open makes addr take packets, and blocks until it does, ctx ends, or it cannot. The error
	// says why, in words for the caller. open ends when addr takes no more packets, and its cause says
	// why, likewise. release ends what Open has begun. It is called once,
	// when the connection that was dialled at addr has ended, or the dial has failed.
	//
	// Open is called for dials on which a call waits, never in the background.
	Open(ctx context.Context, addr net.Addr) (open context.Context, release func(), err error)

	// IsOpening reports whether Open has begun at addr, and waits for what is there. It does not block.
	IsOpening(addr net.Addr) bool
}

// findOpening returns the address of a peer that is being opened, for people. It returns "" if no peer is.
func (n *Node) findOpening(id identity.ID) string {
	for _, e := range n.links.snapshot() {
		if o, ok := e.link.(Opener); ok {
			if addr := o.Addr(id); addr != nil && o.IsOpening(addr) {
				return shortAddr(addr.String())
			}
		}
	}
	return ""
}

// open opens the leg's address, if it has to be; else the context that it returns never ends. The caller
// calls release.
func (l leg) open(ctx context.Context) (open context.Context, release func(), err error) {
	if err := ctx.Err(); err != nil { // another leg was quicker
		return nil, nil, err
	}
	if o, ok := l.on.link.(Opener); ok {
		return o.Open(ctx, l.addr)
	}
	return context.Background(), func() {}, nil
}

// isOpened reports whether the leg's address was opened for the connection, and so ends with it.
func (l leg) isOpened() bool {
	_, ok := l.on.link.(Opener)
	return ok
}

// mayCome reports whether a connection with that key may come from addr. A pipe that this node has
// opened leads to one peer, and nobody else comes by it. On a relay whoever claims an id must
// prove it: the link has let the packets in because of the claim.
func (e *endpoint) mayCome(addr net.Addr, id identity.ID) bool {
	if e.link == nil {
		return true
	}
	bound := e.link.Sender(addr)
	return bound.IsZero() || bound == id
}

// hearPipeEnd is called by the link when the pipe of this connection has ended: nothing can come any
// more but what has come already and waits to be read.
func (c *conn) hearPipeEnd() {
	c.node.startOnWorker(func() {
		read := time.NewTimer(pipeEndTime)
		defer read.Stop()
		select {
		case <-c.qc.Context().Done():
		case <-read.C:
			c.close(closeDead, pipeEnded)
		}
	})
}

// DrainOpened ends this node's connections to peers at addresses that were opened for them, as
// [Node.RemoveLink] ends those on a link: they take no new calls from now on, and drain for up to 5 s. It does
// not wait for that; ended is closed then.
func (n *Node) DrainOpened(ids []identity.ID) (ended <-chan struct{}) {
	left, told := make(chan struct{}), make(chan struct{})
	begun := n.startTask(func() {
		defer close(left)
		conns := slices.DeleteFunc(n.listConns(), func(c *conn) bool { return !c.endsUnused || !slices.Contains(ids, c.id) })
		for _, c := range conns {
			c.sendGoaway(closeReplaced)
		}
		close(told)
		endConns(conns, drainTime)
	})
	if !begun { // all connections end with the node
		close(left)
		return left
	}
	<-told
	return left
}

// pipeEnded is the reason with which this node closes a connection whose pipe has ended.
const pipeEnded = "its pipe has ended"

// hasLostPipe reports whether the connection has ended because its pipe had: the pipe also ends because the
// connection has.
func (c *conn) hasLostPipe() bool {
	app, ok := errors.AsType[*quic.ApplicationError](c.endCause())
	return ok && !app.Remote && app.ErrorMessage == pipeEnded
}

// awaitsWork reports whether something is open between this node and the peer about which one of them will
// notify the other by a stream of its own.
func (c *conn) awaitsWork() bool {
	awaits := c.node.cfg.AwaitsWork
	return awaits != nil && awaits(c.id)
}

// endUnused ends the connection pipeIdleTime after its last stream, so that the command ends which
// carries it; pipeAwaitTime after it at the latest, while work between the two is open. It returns
// when the connection has ended.
func (c *conn) endUnused() {
	tick := time.NewTicker(pipeIdleTime / pipeIdleTicks)
	defer tick.Stop()
	for seen, idle := c.uses.Load(), 0; ; {
		select {
		case <-c.qc.Context().Done():
			return
		case <-tick.C:
		}
		switch now := c.uses.Load(); {
		case now != seen || c.isInUse():
			seen, idle = now, 0
		case idle < pipeIdleTicks, idle < pipeAwaitTicks && c.awaitsWork():
			idle++
		default:
			c.sendGoaway(closeShutdown)
		}
	}
}
