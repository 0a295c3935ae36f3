package transfer

import "time"

// Limits of the tables that are kept in memory.
const (
	maxBindings    = 1024
	maxReportsKept = 1000 // reports for a peer; the store has the others
	maxParsing     = 2    // files of peers that are read at a time
)

// How many streams a peer is sent at a time: deliveries, and beside them reports.
const (
	maxSending = 8
	maxReports = 4
)

// maxPostponed bounds the reports that wait by themselves: if a peer does not take so many,
// all wait with them. The store is read for more than that at once, so that it always gives
// some that do not wait.
const maxPostponed = maxReportsKept / 2

// refillPause is between two looks at all that waits for a peer, if nothing but pauses end:
// a peer that refuses each of many messages for now causes no such look for each.
const refillPause = 100 * time.Millisecond

// Times.
const (
	rescanEvery       = 5 * time.Second        // events get lost: the folder is the truth
	scanShare         = 50                     // looking through a folder takes one part in so many of the time
	scanTimePerName   = 100 * time.Microsecond // that a name may take of it
	settleTime        = 300 * time.Millisecond // that a file has to rest which somebody may still be writing
	settleTick        = 100 * time.Millisecond
	invalidRestTime   = 10 * time.Second // the same, of one that is no valid message
	firstPause        = 250 * time.Millisecond
	longestPause      = 30 * time.Second // between tries to reach a peer
	longestRetry      = time.Minute      // between tries of what a peer does not take for now
	retryRefusedEvery = time.Minute      // of what a peer has refused, at its word
	refusedPause      = 5 * time.Minute  // after a refusal that should be permanent
	idleTime          = 30 * time.Second
	streamTime        = 2 * time.Minute // of one stream, from its opening to the answer
	retention         = 90 * 24 * time.Hour

	// shortRetention is for a peer that has used up its share of the arrivals in the store.
	shortRetention = 30 * 24 * time.Hour

	pruneEvery    = 24 * time.Hour
	announceEvery = time.Minute
	statusEvery   = 30 * time.Minute // readers take a status for stale after an hour
	statusPause   = time.Second      // peers say how their agents are as often as they like
)
