package peer

import (
	"context"
	"time"

	"github.com/acpd/acpd/wire"
)

const (
	silence   = 500 * time.Millisecond // after it, a connection is proven before it is used
	proofTime = 2500 * time.Millisecond
	tick      = time.Second     // how often an open connection is looked at
	pingEvery = 4 * time.Second // while anything is open
	deadAfter = 7 * time.Second // without a packet; found within a tick more
	pingPad   = 48              // lifts the packet over the size that provokes no stateless reset
)

// liveness finds out that a peer is dead while something waits for it, and, by a
// proof, before something is sent to it (protocol, section 2). Its fields are
// guarded by the connection's mu. While nothing is open it has no timer.
type liveness struct {
	timer    *time.Timer
	pings    uint64 // sent
	pongs    uint64 // number of the last ping that was answered
	lastPing time.Time
	packets  uint64 // received by the last tick
	packetAt time.Time
	proof    *proof
}

// proof is a ping whose answer calls wait for.
type proof struct {
	n     uint64
	over  chan struct{} // closed when it is decided
	alive bool          // set before over is closed
}

// watch arms the timer. Callers hold mu.
func (l *liveness) watch(c *conn) {
	if l.timer != nil {
		return
	}
	now := time.Now()
	l.packetAt, l.lastPing = now, now
	l.packets = c.qc.ConnectionStats().PacketsReceived
	l.timer = time.AfterFunc(tick, func() { c.tick() })
}

func (l *liveness) stop(c *conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if l.timer != nil {
		l.timer.Stop()
	}
}

// tick looks whether the peer still answers; with nothing open it is the last.
func (c *conn) tick() {
	c.mu.Lock()
	l := &c.live
	if c.open == 0 || c.qc.Context().Err() != nil {
		l.timer = nil
		c.mu.Unlock()
		return
	}
	now := time.Now()
	if p := c.qc.ConnectionStats().PacketsReceived; p != l.packets {
		l.packets, l.packetAt = p, now
	}
	var (
		dead = now.Sub(l.packetAt) >= deadAfter || l.pings-l.pongs > 2
		ping = !dead && now.Sub(l.lastPing) >= pingEvery
		ask  = !dead && !ping && l.pings > l.pongs && now.Sub(l.packetAt) >= tick && l.proof == nil
		n    uint64
	)
	if ping {
		n = l.nextPing(now)
	}
	l.timer.Reset(tick)
	c.mu.Unlock()
	switch {
	case dead:
		c.close(closeDead, "no answer")
	case ping:
		c.control.trySend(&wire.Ping{N: n, Pad: make([]byte, pingPad)})
	case ask: // a ping has been unanswered for a second: ask the host too
		c.startProof()
	}
}

// nextPing numbers a ping. Callers hold mu.
func (l *liveness) nextPing(now time.Time) uint64 {
	l.pings++
	l.lastPing = now
	return l.pings
}

func (l *liveness) pong(c *conn, n uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n > l.pongs && n <= l.pings {
		l.pongs = n
	}
	if l.proof != nil && n >= l.proof.n {
		l.proof.alive = true
		close(l.proof.over)
		l.proof = nil
	}
}

// prove reports whether the peer answers on this connection, which is closed as
// dead if it does not. It blocks for one round trip, 2.5 s at most; calls share it.
func (c *conn) prove(ctx context.Context) bool {
	if !c.silentFor(silence) {
		return true
	}
	p := c.startProof()
	if p == nil {
		return false
	}
	select {
	case <-p.over:
		return p.alive
	case <-ctx.Done():
		return false
	}
}

// startProof joins the running proof or starts one; nil: the node is closing.
func (c *conn) startProof() *proof {
	c.mu.Lock()
	if p := c.live.proof; p != nil {
		c.mu.Unlock()
		return p
	}
	p := &proof{n: c.live.nextPing(time.Now()), over: make(chan struct{})}
	c.live.proof = p
	c.mu.Unlock()
	c.control.trySend(&wire.Ping{N: p.n, Pad: make([]byte, pingPad)})
	if !c.node.begin(func() { c.runProof(p) }) {
		c.decide(p, false)
		return nil
	}
	return p
}

// runProof waits for the pong, for the host's refusal, or for 2.5 s.
func (c *conn) runProof(p *proof) {
	ctx, cancel := context.WithTimeoutCause(c.qc.Context(), proofTime, context.DeadlineExceeded)
	defer cancel()
	verdicts := make(chan verdict, 1)
	if c.node.probe != nil {
		c.node.begin(func() { verdicts <- c.node.probe(ctx, c.qc.RemoteAddr()) })
	}
	for {
		select {
		case <-p.over:
			return
		case v := <-verdicts:
			if v != refused {
				continue // an answer proves the host, not this connection
			}
			c.close(closeDead, "nothing listens there any more")
		case <-ctx.Done():
			c.close(closeDead, "no answer")
		}
		c.decide(p, false)
		return
	}
}

func (c *conn) decide(p *proof, alive bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.live.proof == p {
		p.alive = alive
		c.live.proof = nil
		close(p.over)
	}
}
