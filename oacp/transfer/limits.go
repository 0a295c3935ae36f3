package transfer

import "time"

// Limits of the tables in memory.
const (
	maxBindings = 1024
	maxParsing  = 2 // files of peers that are read at a time
)

// Streams to one peer at a time: deliveries, and beside them reports.
const (
	maxSending = 8
	maxReports = 4
)

// refillPause is the least time between two refills of a queue that only ended pauses cause. So a
// peer that refuses many messages does not cause a refill for each.
const refillPause = 100 * time.Millisecond

// Times.
const (
	rescanEvery       = 5 * time.Second        // events get lost: the folder is the truth
	scanShare         = 50                     // full scans of an inbox take at most one part in so many of the time
	scanTimePerName   = 100 * time.Microsecond // the most that is counted for each name of a scan
	settleTime        = 300 * time.Millisecond // for which a file must be unchanged before it is read
	settleTick        = 100 * time.Millisecond
	invalidRestTime   = 10 * time.Second // the same, for a file that is no valid message
	firstPause        = 250 * time.Millisecond
	longestPause      = 30 * time.Second // between tries to reach a peer
	longestRetry      = time.Minute      // between tries of an entry that a peer does not take
	retryRefusedEvery = time.Minute      // between offers of refused entries for which a peer gives a reason
	refusedPause      = 5 * time.Minute  // after a refusal that should be permanent
	idleTime          = 30 * time.Second
	streamTime        = 2 * time.Minute // of one stream, from its opening to the answer
	retention         = 90 * 24 * time.Hour

	// shortRetention is for a peer that has used up its share of the arrivals in the store.
	shortRetention = 30 * 24 * time.Hour

	pruneEvery    = 24 * time.Hour
	announceEvery = time.Minute
	statusEvery   = 30 * time.Minute // tools take a status for stale after an hour
	statusPause   = time.Second      // between writes of a status.yaml, however often a peer sends another
)
