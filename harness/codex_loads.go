package harness

import (
	"strconv"
	"strings"
	"sync"
	"time"
)

// startMargin is how long before this process its thread was loaded at most. The app-server starts
// the MCP servers of a thread when it loads it, before its terminal can have another one loaded.
const startMargin = 500 * time.Millisecond

// processStart is when this process began.
var processStart = time.Now()

// maxLoads bounds how many threads are remembered, in number.
const maxLoads = 4 * maxLoadedThreads

// codexLoads remembers when threads of the app-server were loaded.
type codexLoads struct {
	began    time.Time // when this process began
	mu       sync.Mutex
	at       map[string]time.Time // of the threads that are loaded
	complete bool                 // no load is missed
}

func newCodexLoads() codexLoads {
	return codexLoads{began: processStart, at: make(map[string]time.Time)}
}

// begin notes the threads that are loaded when no load is missed any more. Each was loaded when it
// was made, or later.
func (l *codexLoads) begin(loaded []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.complete {
		return
	}
	l.complete = true
	for _, id := range loaded {
		if _, seen := l.at[id]; seen {
			continue // by a notification that came before
		}
		made, ok := readThreadTime(id)
		if !ok {
			made = time.Now()
		}
		l.at[id] = made
	}
}

// note takes a notification: a thread is loaded, or not any more.
func (l *codexLoads) note(n *codexNotice) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, seen := l.at[n.params.Thread]
	switch {
	case n.method == noticeStarted:
		l.add(n.params.Started.ID)
	case n.method == noticeClosed, n.method == noticeStatus && n.params.Status.Type == "notLoaded":
		delete(l.at, n.params.Thread)
	case n.method == noticeStatus && !seen:
		l.add(n.params.Thread)
	}
}

// add notes that a thread is loaded now, if there is room. One that is not remembered counts as loaded
// later than all others.
func (l *codexLoads) add(thread string) {
	if len(l.at) < maxLoads {
		l.at[thread] = time.Now()
	}
}

// end says that loads may be missed from now on.
func (l *codexLoads) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.complete = false
	clear(l.at)
}

// isLater reports whether a thread was loaded later than that of this process, or may have been.
func (l *codexLoads) isLater(thread, own string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	at, seen := l.at[thread]
	if !seen {
		made, ok := readThreadTime(thread)
		if l.complete || !ok {
			return true
		}
		at = made
	}
	since := l.began.Add(-startMargin)
	for _, t := range []time.Time{l.at[own], madeAt(own)} {
		if t.After(since) {
			since = t
		}
	}
	return !at.Before(since)
}

// madeAt is readThreadTime, of which an id that is none gives the zero time.
func madeAt(thread string) time.Time {
	t, _ := readThreadTime(thread)
	return t
}

// readThreadTime returns when a thread was made, which its id says, a UUID of version 7.
func readThreadTime(id string) (time.Time, bool) {
	digits := strings.ReplaceAll(id, "-", "")
	if len(digits) != 32 || digits[12] != '7' {
		return time.Time{}, false
	}
	ms, err := strconv.ParseInt(digits[:12], 16, 64)
	return time.UnixMilli(ms), err == nil
}
