package peer

import (
	"context"
	"maps"
	"net"
	"slices"
	"sync"

	"github.com/acpd/acpd/internal/pace"
)

// notices passes on what a link says of its addresses: that nobody takes packets there.
type notices struct {
	mu      sync.Mutex // guards waiting
	waiting map[string]map[*func()]struct{}
}

// onNobodyAt has f called whenever nobody is at addr, until stop is called. f must not block.
func (s *notices) onNobodyAt(addr net.Addr, f func()) (stop func()) {
	key := addr.String()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting == nil {
		s.waiting = make(map[string]map[*func()]struct{})
	}
	if s.waiting[key] == nil {
		s.waiting[key] = make(map[*func()]struct{})
	}
	s.waiting[key][&f] = struct{}{}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if delete(s.waiting[key], &f); len(s.waiting[key]) == 0 {
			delete(s.waiting, key)
		}
	}
}

// tell calls the functions that wait for addr.
func (s *notices) tell(addr net.Addr) {
	s.mu.Lock()
	all := slices.Collect(maps.Keys(s.waiting[addr.String()]))
	s.mu.Unlock()
	for _, f := range all {
		(*f)()
	}
}

// noticeProber learns from a link whether anybody is at an address. It sends nothing of its own:
// the link answers the packets that the dial or proof sends anyway.
type noticeProber struct{ notices *notices }

func (p noticeProber) probeAddr(ctx context.Context, addr net.Addr) probeResult {
	nobody := pace.NewSignal()
	defer p.notices.onNobodyAt(addr, nobody.Set)()
	select {
	case <-nobody:
		return probeRefused
	case <-ctx.Done():
		return probeSilent
	}
}

// probeConn believes the link only when the pong has had the time to come, since anybody who passes
// packets on can claim that a peer is away. It ends the connection only if nothing is
// lost when the link is wrong: among the open calls it ends those from which the peer has
// acknowledged nothing.
func (noticeProber) probeConn(ctx context.Context, c *conn, p *proof) probeResult {
	for {
		select {
		case <-p.nobody:
		case <-ctx.Done():
			return probeSilent
		}
		if c.qc.ConnectionStats().PacketsSent == p.packetsSent {
			continue
		}
		if !p.waitFor(ctx, c.noticePatience()) {
			return probeSilent
		}
		if !c.isInUse() {
			return probeRefused
		}
		if c.awaitWord(ctx, p) {
			c.endUnheardCalls(p)
		}
	}
}

// askHost sends a ping whose answer proves nothing: it provokes a packet of the peer, or the link's
// notice. It does so only for calls, since bridges keep streams open for days.
func (noticeProber) askHost(c *conn) {
	if c.peer.callSlots.exchanges.Load() > 0 || c.countReceiptsOwed() > 0 {
		c.sendPing(0)
	}
	c.stopAsking()
}
