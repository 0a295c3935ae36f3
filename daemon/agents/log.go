package agents

import (
	"log/slog"
	"sync"
	"time"
)

// maxAgentLines bounds the lines of an agentLog in a minute.
const maxAgentLines = 60

// agentLog writes the lines about agents that come and go. A program may attach as often as it likes,
// so agentLog writes maxAgentLines in a minute. It counts the lines that it leaves out, and writes that
// count before the first line of a later minute.
type agentLog struct {
	to *slog.Logger

	mu      sync.Mutex // guards what follows
	since   time.Time  // of the minute
	written int
	left    int // out
}

func (l *agentLog) write(msg string, args ...any) {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Sub(l.since) >= time.Minute {
		if l.left > 0 {
			l.to.Warn("lines about agents left out", "lines", l.left, "since", l.since.UTC())
		}
		l.since, l.written, l.left = now, 0, 0
	}
	if l.written >= maxAgentLines {
		l.left++
		return
	}
	l.written++
	l.to.Info(msg, args...)
}
