package peer

import (
	"cmp"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/acpd/acpd/budget"
)

// watch looks how much lies unread on the connections, often while much comes and
// rarely otherwise, and closes those of a peer over its bound (protocol, section 6).
type watch struct {
	account *budget.Account
	resting atomic.Bool   // it looks rarely
	woken   chan struct{} // to look often again
}

const (
	lookOften  = 10 * time.Millisecond // what comes meanwhile is bounded by the speed of a core
	lookRarely = 250 * time.Millisecond
	wakeAt     = 3        // streams of a peer that are served: two can hold 35 MiB unread
	muchBytes  = 64 << 10 // on a connection, since its frames were counted: 10,000 at most, of which each takes little
	manyFrames = 1024     // are counted at each look; fewer when much came, or nothing more comes

	// frameCost is what a frame may take that waits for its reader: a buffer of the
	// size of a packet, its place in a map that has doubled, and what comes between
	// two looks.
	frameCost = 2 << 10
)

// wake has the watch look often, if it rests.
func (w *watch) wake() {
	if w.resting.Load() {
		select {
		case w.woken <- struct{}{}:
		default:
		}
	}
}

// watchUnread runs until the node is closed.
func (n *Node) watchUnread() {
	pause := lookRarely
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		n.watch.resting.Store(pause > lookOften)
		select {
		case <-n.ctx.Done():
			return
		case <-n.watch.woken:
			pause = lookOften
		case <-timer.C:
			if pause = min(2*pause, lookRarely); n.look() {
				pause = lookOften
			}
		}
		timer.Reset(pause)
	}
}

// look counts what lies unread on all connections, and reports whether much came
// since the last time. It gives back, too, what peers keep of their shares.
func (n *Node) look() (much bool) {
	n.mu.RLock()
	remotes := make([]*remote, 0, len(n.remotes))
	for _, r := range n.remotes {
		remotes = append(remotes, r)
	}
	n.mu.RUnlock()
	var sum int64
	for _, r := range remotes {
		r.streams.Trim()
		r.envelopes.Trim()
		r.replies.Trim()
		much = r.count(n.watch.resting.Load()) || much
		for r.unread > n.watch.account.Row().Peer {
			r.shed()
		}
		sum += r.unread
	}
	for sum > n.watch.account.Row().All {
		sum -= slices.MaxFunc(remotes, func(a, b *remote) int { return cmp.Compare(a.unread, b.unread) }).shed()
	}
	return much
}

// count counts what lies unread on a peer's connections, where much came or lay there
// before, or with all anything did, and reports whether much came.
func (r *remote) count(all bool) (much bool) {
	r.mu.Lock()
	conns := slices.Clone(r.conns)
	r.mu.Unlock()
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
	r.setUnread(unread)
	return much
}

func (r *remote) setUnread(unread int64) {
	if unread != r.unread {
		r.node.watch.account.Add(r.id, unread-r.unread)
		r.unread = unread
	}
}

// shed closes the connection of a peer on which most lies unread, and returns how
// much that was.
func (r *remote) shed() int64 {
	r.mu.Lock()
	conns := slices.Clone(r.conns)
	r.mu.Unlock()
	var c *conn
	for _, o := range conns {
		if o.frames > 0 && (c == nil || o.frames > c.frames) {
			c = o
		}
	}
	if c == nil { // it ended by itself since it was counted
		was := r.unread
		r.setUnread(0)
		return was
	}
	row := r.node.watch.account.Row()
	r.node.watch.account.Refuse(r.id)
	r.node.lines.Add(r.id, slog.LevelWarn, "connection closed: too much lies unread on it", "peer", r.id.Label(), "frames", c.frames, "row", row.Name)
	freed := int64(c.frames) * frameCost
	c.frames = 0
	c.close(closeOverloaded, "budget: "+row.Name+": too much lies unread")
	r.setUnread(r.unread - freed)
	return freed
}
