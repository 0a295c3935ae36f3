package peer

import "time"

// How long a call to a dead peer takes (protocol, section 2):
//
//	connection     the peer's host       the call fails within
//	none           answers               milliseconds: it refuses the port
//	none           is silent             dialTime
//	ready, silent  answers               milliseconds: reset or refusal, then a new dial
//	ready, silent  is silent             proofTime, and dialTime in all
//	call open      answers               askEvery, and a round trip
//	call open      is silent             deadAfter, and a liveTick
//
// On a link that says of an address that nobody is there:
//
//	none           a round trip to where that is known
//	ready, silent  1.5 round trips to the peer, then a dial
//	call unheard   unheardRTTs round trips to the peer, from the first notice
//	call open      linkAskEvery and proofTime, and a round trip
//
// Without any call an idle connection is found dead after idleTimeout.
const (
	dialTime         = 2800 * time.Millisecond // of all addresses: a call has its answer within 3 s
	dialStagger      = 100 * time.Millisecond  // between the addresses of a race
	handshakeTimeout = 2 * time.Second         // of one address
	linkDelay        = 250 * time.Millisecond  // after the first address on UDP, links are dialled
	pipeOpenTime     = 15 * time.Second        // for the first byte of a command, which may log in before
	pipeDialTime     = pipeOpenTime + dialTime // dialTime where a command is started
	pipeEndTime      = 100 * time.Millisecond  // for what a pipe that has ended had carried
	pipeIdleTime     = time.Minute             // after its last stream, a connection through a command ends
	pipeIdleTicks    = 12                      // looks in that time
	pipeAwaitTime    = time.Hour               // the same, while work with the peer is open
	pipeAwaitTicks   = int(pipeAwaitTime / (pipeIdleTime / pipeIdleTicks))

	silentAfter = 500 * time.Millisecond  // without a word; then a connection is proven before it is used
	proofTime   = 2500 * time.Millisecond // for the answer

	// On a relay a connection is proven after less silence, so that more calls to a peer that is
	// gone have sent nothing. Calls that come closer together than this pay no round trip for it.
	silentRTTs   = 2
	leastSilence = 50 * time.Millisecond

	// How long a proof runs before it ends calls from which the peer has acknowledged nothing, if the link
	// reports that nobody is there.
	unheardRTTs  = 3
	leastUnheard = 50 * time.Millisecond

	firstTick    = 100 * time.Millisecond  // after a stream is open: by then its packet should be acknowledged
	liveTick     = 250 * time.Millisecond  // between checks of an open connection from then on
	askEvery     = time.Second             // between questions to a silent peer's host
	linkAskEvery = 750 * time.Millisecond  // the same on links other than UDP, where a proof follows
	nobodyEvery  = time.Second             // between proofs that a link's word starts
	pingEvery    = 4 * time.Second         // while a stream is open
	deadAfter    = 7400 * time.Millisecond // without a packet, while a stream is open

	leastNotice       = 20 * time.Millisecond   // for the answer to a proof, before a link is believed
	falseNoticeWait   = 1500 * time.Millisecond // for the answer, before a link that was wrong is believed
	falseNoticeMemory = 10 * time.Minute        // of that

	keepAlive   = 6 * time.Second // QUIC's own, without streams
	idleTimeout = 14 * time.Second
)

// probeWaits is how long a probe waits for an answer to each of its packets.
var probeWaits = [...]time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second}
