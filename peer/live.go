package peer

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/acpd/acpd/internal/pace"
	"github.com/acpd/acpd/wire"
)

// pingPad lifts a ping over the size under which a packet provokes no stateless reset.
const pingPad = 48

// liveness detects a dead peer while a call waits for it and, by a proof, before a stream
// is opened to it (protocol, section 2; the times are in timing.go). The connection's mu
// guards its fields. While no stream is open it has no timer.
type liveness struct {
	timer    *time.Timer
	pings    uint64 // sent
	pongs    uint64 // number of the last ping that was answered
	lastPing time.Time
	packets  uint64 // received by the last tick
	packetAt time.Time
	asking   bool // the host, whether anything listens there
	askedAt  time.Time
	nobodyAt time.Time // when a proof was last started because the link says that nobody is there
	proof    *proof
}

// proof is a ping on whose answer calls wait. The goroutine that removes it from liveness
// decides it.
type proof struct {
	n           uint64
	began       time.Time
	packets     uint64        // received before
	packetsSent uint64        // sent before
	nobody      pace.Signal   // the link says that nobody is there
	over        chan struct{} // closed when it is decided
	alive       bool          // set before over is closed
	told        atomic.Bool   // the link has said so, now or before
}

// startTimer starts the timer, if it does not run. Callers hold mu.
func (l *liveness) startTimer(c *conn) {
	if l.timer != nil {
		return
	}
	now := time.Now()
	l.packetAt, l.lastPing = now, now
	l.packets = c.qc.ConnectionStats().PacketsReceived
	l.timer = time.AfterFunc(firstTick, func() { c.checkAlive() })
}

func (l *liveness) stopTimer(c *conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if l.timer != nil {
		l.timer.Stop()
	}
}

// checkAlive closes a connection whose peer is silent, pings it, or asks its host. It runs
// at each tick of the timer, until no stream is open.
func (c *conn) checkAlive() {
	c.mu.Lock()
	l := &c.live
	if c.ownOpenStreams == 0 || c.qc.Context().Err() != nil {
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
		ask  = !dead && now.Sub(l.packetAt) >= firstTick && !l.asking && now.Sub(l.askedAt) >= c.endpoint.askEvery && c.endpoint.prober != nil
		n    uint64
	)
	if ping {
		n = l.nextPingNumber(now)
	}
	if ask {
		l.asking, l.askedAt = true, now
	}
	l.timer.Reset(liveTick)
	c.mu.Unlock()
	if dead {
		c.close(closeDead, "no answer")
	}
	if ping {
		c.sendPing(n)
	}
	if ask {
		c.node.startOnWorker(func() { c.endpoint.prober.askHost(c) })
	}
}

// stopAsking says that the host has been asked.
func (c *conn) stopAsking() {
	c.mu.Lock()
	c.live.asking = false
	c.mu.Unlock()
}

// hearNobody is called by the link when nobody is at the peer's address. It starts a proof, once
// in a second at most, and notifies one that runs.
func (c *conn) hearNobody() {
	c.mu.Lock()
	now := time.Now()
	p := c.live.proof
	start := p == nil && now.Sub(c.live.nobodyAt) >= nobodyEvery
	if start {
		c.live.nobodyAt = now
	}
	c.nobody.Store(start || p != nil)
	c.mu.Unlock()
	switch {
	case p != nil:
		p.told.Store(true)
		p.nobody.Set()
	case start:
		if p := c.joinOrStartProof(); p != nil {
			p.told.Store(true)
		}
	}
}

// isInUse reports whether a stream of this node is open on the connection, or one of the peer is
// being served, on this connection or another.
func (c *conn) isInUse() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ownOpenStreams > 0 || c.peer.streams.Used() > 0
}

// nextPingNumber returns the number of a ping that is sent now. Callers hold mu.
func (l *liveness) nextPingNumber(now time.Time) uint64 {
	l.pings++
	l.lastPing = now
	return l.pings
}

// sendPing sends a ping unless the control stream is full. A ping that could not be sent is
// unanswered too, because the peer does not read.
func (c *conn) sendPing(n uint64) {
	c.control.trySendItem(&wire.Ping{N: n, Pad: make([]byte, pingPad)})
}

// handlePong records the answer to ping n, and decides the proof that waits for it.
func (l *liveness) handlePong(c *conn, n uint64) {
	c.mu.Lock()
	if n > l.pongs && n <= l.pings {
		l.pongs = n
	}
	p := l.proof
	c.mu.Unlock()
	if p != nil && n >= p.n && c.removeProof(p) {
		if p.told.Load() {
			c.peer.noteFalseNotice()
		}
		p.alive = true
		close(p.over)
	}
}

// proveAlive reports whether the peer answers on this connection, and closes it as dead if
// not. It blocks for one round trip, proofTime at most; calls share the proof.
func (c *conn) proveAlive(ctx context.Context) bool {
	if !c.isDoubtful() {
		return true
	}
	p := c.joinOrStartProof()
	if p == nil {
		return false
	}
	select {
	case <-p.over:
		return p.alive
	case <-c.leavingBegan: // another connection may be ready sooner
		return false
	case <-ctx.Done():
		return false
	}
}

// joinOrStartProof returns the running proof, or starts one. Nil: the node is closing.
func (c *conn) joinOrStartProof() *proof {
	c.mu.Lock()
	if p := c.live.proof; p != nil {
		c.mu.Unlock()
		return p
	}
	now, stats := time.Now(), c.qc.ConnectionStats()
	p := &proof{
		n:           c.live.nextPingNumber(now),
		began:       now,
		packets:     stats.PacketsReceived,
		packetsSent: stats.PacketsSent,
		nobody:      pace.NewSignal(),
		over:        make(chan struct{}),
	}
	c.live.proof = p
	c.mu.Unlock()
	c.sendPing(p.n)
	if !c.node.startOnWorker(func() { c.runProof(p) }) {
		if c.removeProof(p) {
			close(p.over)
		}
		return nil
	}
	return p
}

// runProof waits for the pong, for the host's refusal, or for proofTime; at that time any packet
// that came is taken for a pong. It closes the connection if the peer is dead.
func (c *conn) runProof(p *proof) {
	ctx, cancel := context.WithTimeout(c.qc.Context(), proofTime)
	defer cancel()
	refusals := make(chan struct{})
	if prober := c.endpoint.prober; prober != nil {
		var asking sync.WaitGroup
		defer asking.Wait()
		defer cancel()
		asking.Go(func() {
			if prober.probeConn(ctx, c, p) == probeRefused {
				close(refusals)
			}
		})
	}
	reason := "no answer"
	select {
	case <-p.over:
		return
	case <-refusals:
		reason = "nothing listens there any more"
	case <-ctx.Done():
		if c.endCause() == nil && c.qc.ConnectionStats().PacketsReceived != p.packets {
			reason = ""
		}
	}
	if !c.removeProof(p) {
		return
	}
	if p.alive = reason == ""; !p.alive {
		c.close(closeDead, reason)
	}
	close(p.over)
}

// removeProof removes the proof and reports whether it was there: then the caller decides it.
func (c *conn) removeProof(p *proof) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.live.proof != p {
		return false
	}
	c.live.proof = nil
	c.nobody.Store(false)
	return true
}
