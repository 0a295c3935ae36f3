package peer

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/pace"
	"github.com/acpd/acpd/wire"
)

// From a relay to a direct path (protocol, section 2): both sides tell each other their addresses
// on the relayed connection, and dial each other at the same moment. So each side's packets open
// its own NAT for those of the other. The choice among connections then prefers the direct one,
// and the relayed one drains.

// FeaturePaths is the feature of a hello whose sender takes part in rounds. Without it, no
// addresses are sent.
const FeaturePaths = "paths"

const (
	pathAnswerTime = 5 * time.Second // for the peer's addresses
	punchTime      = 3 * time.Second // for the dials of a round
	punchStagger   = 20 * time.Millisecond
)

// canUpgrade reports whether the connection's peer may be asked to change to a direct path.
func (c *conn) canUpgrade() bool {
	return c.endpoint.path == ViaRelay && !c.node.cfg.NoUpgrade && slices.Contains(c.peerHello.Features, FeaturePaths)
}

// upgradePath begins rounds when they are due, until the connection is leaving, as it does when a
// direct one is ready.
func (c *conn) upgradePath() {
	for {
		wait, due, changed := c.peer.rounds.nextRound()
		var begin <-chan time.Time
		if due {
			begin = time.After(wait)
		}
		select {
		case <-begin:
			c.runOwnRound()
		case <-changed:
		case <-c.leavingBegan:
			return
		case <-c.qc.Context().Done():
			return
		}
	}
}

// runOwnRound tells the peer this node's addresses, and dials those of its answer.
func (c *conn) runOwnRound() {
	own := c.node.listOwnPaths(c.qc.Context())
	round := c.peer.rounds.beginRound(c.qc.Context())
	if round == nil {
		return
	}
	defer c.peer.rounds.endRound(round)
	if len(own) == 0 {
		return
	}
	c.control.sendItem(&wire.Paths{Round: round.number, Addrs: toTexts(own)})
	select {
	case named := <-round.answer:
		c.punch(round, named, own)
	case <-time.After(pathAnswerTime):
	case <-round.ctx.Done():
	}
}

// handlePaths takes the peer's addresses: the answer to an own round, or the beginning of one of
// the peer's. One that comes too early is answered without addresses.
func (c *conn) handlePaths(item *wire.Paths) {
	switch rounds := c.peer.rounds; {
	case !c.canUpgrade():
	case rounds.isOwn(item.Round):
		rounds.takeAnswer(item.Round, item.Addrs)
	default:
		round := rounds.acceptRound(c.qc.Context(), item.Round)
		if round == nil {
			c.control.trySendItem(&wire.Paths{Round: item.Round})
			return
		}
		if !c.node.startTask(func() { c.runPeerRound(round, item.Addrs) }) {
			rounds.endRound(round)
		}
	}
}

// runPeerRound answers with this node's addresses, and dials the peer's when the answer should
// have arrived.
func (c *conn) runPeerRound(round *pathRound, named []string) {
	defer c.peer.rounds.endRound(round)
	own := c.node.listOwnPaths(round.ctx)
	c.control.sendItem(&wire.Paths{Round: round.number, Addrs: toTexts(own)})
	if pace.Sleep(round.ctx, c.qc.ConnectionStats().SmoothedRTT/2) == nil {
		c.punch(round, named, own)
	}
}

// punch dials those of the named addresses that may be dialled, punchStagger apart. It blocks
// until a direct connection is ready, whoever dialled it, or for punchTime.
func (c *conn) punch(round *pathRound, named []string, own []netip.AddrPort) {
	ctx, cancel := context.WithTimeout(round.ctx, punchTime)
	defer cancel()
	local := c.node.localNetwork()
	local.own = own
	targets := c.peer.rounds.chooseTargets(named, local)
	c.node.log.Debug("try a direct path", "peer", c.id.Label(), "named", len(named), "dialled", len(targets))
	var dialling sync.WaitGroup
	for i, target := range targets {
		dialling.Go(func() {
			if pace.Sleep(ctx, time.Duration(i)*punchStagger) == nil {
				c.peer.dialBeside(ctx, target)
			}
		})
	}
	dialling.Wait()
	<-ctx.Done()
}

// dialBeside dials one address in addition to a ready connection. It blocks until the new one is ready
// or has failed. A failure has no effect: no call waits for the dial. It
// sends no probe, so that the peer cannot have ports tried.
func (state *peerState) dialBeside(ctx context.Context, target netip.AddrPort) {
	n := state.node
	conf, err := n.cfg.Key.ClientTLS(state.id, n.cfg.RequirePQ, identity.ALPN)
	if err != nil {
		return
	}
	qc, err := n.udp.transport.Dial(ctx, net.UDPAddrFromAddrPort(target), conf, n.udp.config)
	if err != nil {
		return
	}
	c := newConn(n.udp, qc, state.id)
	c.dialled = true
	if !n.startConn(c, nil) {
		return
	}
	select {
	case <-c.ready:
	case <-c.runReturned:
	case <-ctx.Done():
	}
}

// wasLost reports whether the connection ended without a word: it was found dead, or the peer knew
// nothing of it any more.
func (c *conn) wasLost() bool {
	app, closed := errors.AsType[*quic.ApplicationError](c.endCause())
	return !closed || app.ErrorCode == closeDead
}
