package peer

import "time"

// noteFalseNotice records that the peer has answered though its link said that nobody is there.
func (state *peerState) noteFalseNotice() {
	state.falseNotice.Store(time.Now().UnixNano())
}

// noticePatience returns for how long the answer to a proof is awaited, from its begin, before a
// link's notice that nobody is there ends the connection: one and a half round trips, and leastNotice
// at least. For falseNoticeMemory after a false notice it is falseNoticeWait at least,
// because anybody with an account at a relay who can receive what others send there can send such notices
// again and again, and at some time one of them meets a machine that is only slow to answer.
func (c *conn) noticePatience() time.Duration {
	patience := max(leastNotice, c.qc.ConnectionStats().SmoothedRTT*3/2)
	if at := c.peer.falseNotice.Load(); at != 0 && time.Since(time.Unix(0, at)) < falseNoticeMemory {
		return max(patience, falseNoticeWait)
	}
	return patience
}
