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

// unreadWatch measures the unread data on the connections, often while much comes and rarely
// otherwise, and closes those of a peer over its bound (protocol, section 6).
type unreadWatch struct {
	account *budget.Account
	resting atomic.Bool // it measures rarely
	sooner  pace.Signal // signals that it shall count often again
}

const (
	lookOften  = 10 * time.Millisecond // what comes meanwhile is bounded by the speed of a core
	lookRarely = 250 * time.Millisecond
	soonerAt   = 3        // streams of a peer that are served: two can hold 35 MiB unread
	muchBytes  = 64 << 10 // on a connection, since its frames were counted: 10,000 at most, each with little data
	manyFrames = 1024     // are counted at each look; fewer when much came, or nothing more comes

	// frameCost bounds the memory of a frame that waits for its reader: a buffer of the
	// size of a packet, its place in a map that has doubled, and what comes between
	// two looks.
	frameCost = 2 << 10
)

// shortenPause makes the watch measure often, if it measures rarely.
func (w *unreadWatch) shortenPause() {
	if w.resting.Load() {
		w.sooner.Set()
	}
}

// watchUnreadFrames measures unread data until the node is closed.
func (n *Node) watchUnreadFrames() {
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
			if pause = min(2*pause, lookRarely); n.enforceUnreadBounds() {
				pause = lookOften
			}
		}
		timer.Reset(pause)
	}
}

// enforceUnreadBounds measures the unread data on all connections, closes those over a bound,
// and reports whether much came since the last time. It also gives back what peers have
// left of their shares.
func (n *Node) enforceUnreadBounds() (much bool) {
	peers := n.listStates()
	var sum int64
	for _, state := range peers {
		for _, share := range state.listShares() {
			share.ReleaseUnused()
		}
		much = state.recountUnread(n.unread.resting.Load()) || much
		for state.unread > n.unread.account.Row().Peer {
			state.closeMostUnreadConn()
		}
		sum += state.unread
	}
	for sum > n.unread.account.Row().All {
		sum -= slices.MaxFunc(peers, func(a, b *peerState) int { return cmp.Compare(a.unread, b.unread) }).closeMostUnreadConn()
	}
	return much
}

// recountUnread measures the unread data on a peer's connections, and reports whether much
// came. It skips a connection on which little came and which had little before; with all, only
// one that had none.
func (state *peerState) recountUnread(all bool) (much bool) {
	var unread int64
	for _, c := range state.listConns() {
		if c.qc.Context().Err() != nil {
			continue // its unread data is gone with it
		}
		received := c.qc.ConnectionStats().BytesReceived
		if came := received - c.bytesAtCount; came >= muchBytes || c.unreadFrames >= manyFrames || all && c.unreadFrames > 0 {
			much = much || came >= muchBytes
			c.bytesAtCount, c.unreadFrames = received, countUnreadFrames(c.qc)
		}
		unread += int64(c.unreadFrames) * frameCost
	}
	state.setUnread(unread)
	return much
}

func (state *peerState) setUnread(unread int64) {
	if unread != state.unread {
		state.node.unread.account.AddUnchecked(state.id, unread-state.unread)
		state.unread = unread
	}
}

// closeMostUnreadConn closes the connection of a peer on which most lies unread, and returns
// how many bytes that frees.
func (state *peerState) closeMostUnreadConn() int64 {
	var c *conn
	for _, o := range state.listConns() {
		if o.unreadFrames > 0 && (c == nil || o.unreadFrames > c.unreadFrames) {
			c = o
		}
	}
	if c == nil { // it ended by itself since it was counted
		was := state.unread
		state.setUnread(0)
		return was
	}
	row := state.node.unread.account.Row()
	state.node.unread.account.CountRefusal(state.id)
	state.node.peerLog.WriteLimited(state.id, slog.LevelWarn, "connection closed: too much lies unread on it", "peer", state.id.Label(), "frames", c.unreadFrames, "row", row.Name)
	freed := int64(c.unreadFrames) * frameCost
	c.unreadFrames = 0
	c.close(closeOverloaded, "budget: "+row.Name+": too much lies unread")
	state.setUnread(state.unread - freed)
	return freed
}
