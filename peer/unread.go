package peer

import (
	"cmp"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/internal/pace"
)

// unreadWatch counts what lies unread on the connections, often while much comes and rarely
// otherwise, and closes those of a peer over its bound (protocol, section 6).
type unreadWatch struct {
	account *budget.Account
	resting atomic.Bool // it counts rarely
	sooner  pace.Signal // signals that it shall count often again
}

const (
	lookOften  = 10 * time.Millisecond // what comes meanwhile is bounded by the speed of a core
	lookRarely = 250 * time.Millisecond
	soonerAt   = 3        // streams of a peer that are served: two can hold 35 MiB unread
	muchBytes  = 64 << 10 // on a connection, since its frames were counted: 10,000 at most, of which each takes little
	manyFrames = 1024     // are counted at each look; fewer when much came, or nothing more comes

	// frameCost is what a frame may take that waits for its reader: a buffer of the
	// size of a packet, its place in a map that has doubled, and what comes between
	// two looks.
	frameCost = 2 << 10
)

// lookSooner makes the watch count often, if it counts rarely.
func (w *unreadWatch) lookSooner() {
	if w.resting.Load() {
		w.sooner.Set()
	}
}

// watchUnread counts what lies unread until the node is closed.
func (n *Node) watchUnread() {
	pause := lookRarely
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		n.unread.resting.Store(pause > lookOften)
		select {
		case <-n.ctx.Done():
			return
		case <-n.unread.sooner:
			pause = lookOften
		case <-timer.C:
			if pause = min(2*pause, lookRarely); n.countAllUnread() {
				pause = lookOften
			}
		}
		timer.Reset(pause)
	}
}

// countAllUnread counts what lies unread on all connections, closes those over a bound,
// and reports whether much came since the last time. It also gives back what peers have
// left of their shares.
func (n *Node) countAllUnread() (much bool) {
	n.mu.RLock()
	peers := make([]*peerState, 0, len(n.peers))
	for _, r := range n.peers {
		peers = append(peers, r)
	}
	n.mu.RUnlock()
	var sum int64
	for _, r := range peers {
		r.streams.Trim()
		r.envelopes.Trim()
		r.replies.Trim()
		much = r.countUnread(n.unread.resting.Load()) || much
		for r.unread > n.unread.account.Row().Peer {
			r.closeMostUnread()
		}
		sum += r.unread
	}
	for sum > n.unread.account.Row().All {
		sum -= slices.MaxFunc(peers, func(a, b *peerState) int { return cmp.Compare(a.unread, b.unread) }).closeMostUnread()
	}
	return much
}

// countUnread counts what lies unread on a peer's connections, and reports whether much
// came. It skips a connection on which little came and little lay before; with all, only
// one on which nothing lay.
func (s *peerState) countUnread(all bool) (much bool) {
	s.mu.Lock()
	conns := slices.Clone(s.conns)
	s.mu.Unlock()
	var unread int64
	for _, c := range conns {
		if c.qc.Context().Err() != nil {
			continue // and with it goes what lay there
		}
		received := c.qc.ConnectionStats().BytesReceived
		if came := received - c.received; came >= muchBytes || c.frames >= manyFrames || all && c.frames > 0 {
			much = much || came >= muchBytes
			c.received, c.frames = received, unreadFrames(c.qc)
		}
		unread += int64(c.frames) * frameCost
	}
	s.setUnread(unread)
	return much
}

func (s *peerState) setUnread(unread int64) {
	if unread != s.unread {
		s.node.unread.account.Add(s.id, unread-s.unread)
		s.unread = unread
	}
}

// closeMostUnread closes the connection of a peer on which most lies unread, and returns
// how many bytes that frees.
func (s *peerState) closeMostUnread() int64 {
	s.mu.Lock()
	conns := slices.Clone(s.conns)
	s.mu.Unlock()
	var c *conn
	for _, o := range conns {
		if o.frames > 0 && (c == nil || o.frames > c.frames) {
			c = o
		}
	}
	if c == nil { // it ended by itself since it was counted
		was := s.unread
		s.setUnread(0)
		return was
	}
	row := s.node.unread.account.Row()
	s.node.unread.account.Refuse(s.id)
	s.node.lines.Add(s.id, slog.LevelWarn, "connection closed: too much lies unread on it", "peer", s.id.Label(), "frames", c.frames, "row", row.Name)
	freed := int64(c.frames) * frameCost
	c.frames = 0
	c.close(closeOverloaded, "budget: "+row.Name+": too much lies unread")
	s.setUnread(s.unread - freed)
	return freed
}
