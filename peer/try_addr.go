package peer

import (
	"context"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
)

// TryAddr dials one address of a peer, host:port or one on a link, and ends the connection when the peer has
// proved its key there. It returns the round trip. It sends no hello and asks nothing: whether the
// peer trusts this node it does not say. Connections that there are stay. It blocks until the
// peer answers, dialTime at most (pipeDialTime if it has a pipe), or ctx ends.
func (n *Node) TryAddr(ctx context.Context, id identity.ID, addr string) (time.Duration, *kinds.Error) {
	ctx, cancel := context.WithTimeout(ctx, n.dialLimit(id))
	defer cancel()
	to, err := n.findRoute(id, addr)
	if err != nil {
		return 0, n.newUnreachableError(id, kinds.DeliveredNo, "address %s: %v", addr, err)
	}
	answers := make(chan time.Duration, maxDialIPs)
	failure := n.race(ctx, id, []route{to}, func(ctx context.Context, l leg) *dialFailure {
		qc, _, err := l.dialHandshake(ctx, id, identity.ALPN)
		if err != nil {
			return l.toDialFailure(id, err)
		}
		answers <- max(qc.ConnectionStats().SmoothedRTT, time.Microsecond)
		qc.CloseWithError(closeShutdown, "only a probe")
		return nil
	})
	if failure != nil {
		return 0, failure.Error
	}
	return <-answers, nil
}
