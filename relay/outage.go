package relay

import (
	"math/rand/v2"
	"sync"
	"time"
)

const (
	toldAfter  = 3 * time.Second // without a connection: packets of the last seconds are lost
	provenGood = 10 * time.Second
	minPause   = 250 * time.Millisecond
	firstPause = 2 * time.Second // the longest in the first minute
	maxPause   = 30 * time.Second
	pauseShare = 32 // a pause is at most this part of the outage
)

// outage is a time without a connection to the server: when it began, and whether the
// observer was notified. It is notified after 3 s, and again when the connection is back.
type outage struct {
	observer Observer

	mu    sync.Mutex
	since time.Time   // begin of the time by which pauses grow; it outlives connections shorter than 10 s; zero if there is no outage
	timer *time.Timer // nil: not down, or never up
	told  bool
	wasUp bool
}

func newOutage(observer Observer) *outage { return &outage{observer: observer} }

// begin records that there is no connection any more, or still none. up is how long there was one.
func (o *outage) begin(up time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.since.IsZero() || up >= provenGood {
		o.since = time.Now()
	}
	if o.wasUp && o.timer == nil {
		o.timer = time.AfterFunc(toldAfter, o.tell)
	}
}

func (o *outage) tell() {
	o.mu.Lock()
	tell := o.timer != nil && !o.told
	o.told = o.told || tell
	o.mu.Unlock()
	if tell {
		o.observer.Interrupted()
	}
}

// end records that there is a connection.
func (o *outage) end() {
	o.mu.Lock()
	if o.timer != nil {
		o.timer.Stop()
		o.timer = nil
	}
	told := o.told
	o.told, o.wasUp = false, true
	o.mu.Unlock()
	if told {
		o.observer.Interrupted()
	}
}

// stop ends the outage without a word.
func (o *outage) stop() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.timer != nil {
		o.timer.Stop()
		o.timer = nil
	}
}

// pickPause returns how long to wait before the next attempt: at random, up to 2 s in the
// first minute, later up to a share of the outage and 30 s. So daemons do not come back to a
// server that was restarted all at once.
func (o *outage) pickPause() time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	longest := min(max(firstPause, time.Since(o.since)/pauseShare), maxPause)
	return minPause + rand.N(longest-minPause)
}
