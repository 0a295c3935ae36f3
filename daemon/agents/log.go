package agents

import (
	"log/slog"
	"sync"
	"time"
)

// maxAgentLines bounds the lines of an agentLog in a minute.
const maxAgentLines = 60

// agentLog writes the lines about agents that come and go: at most maxAgentLines in a minute, since a program may
// attach as often as it likes. It writes the number of lines that it left out before the first line of a later
// minute.
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
