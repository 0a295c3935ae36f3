package budget

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/acpd/acpd/identity"
)

// Strangers is the account of all who are not trusted together: keys cost nothing,
// so each of them having its own share would be no bound.
var Strangers identity.ID

// Log writes what peers cause to a log and tells subscribers of it, [LogLines] at
// most in a minute. What is left out is counted, and told of once a minute, in one
// line and one event.
type Log struct {
	to      *slog.Logger
	account *Account

	ends    sync.WaitGroup // timers of minutes that have not been stopped
	mu      sync.Mutex     // guards minutes
	minutes map[identity.ID]*minute
}

// minute is what one peer has caused since its first line; a minute later it is
// forgotten.
type minute struct {
	timer  *time.Timer
	taken  int64
	lines  uint64            // left out
	events uint64            // left out
	tell   func(left uint64) // of the last event that was left out
}

// OpenLog opens the account of log lines. The log is closed with Close.
func (b *Book) OpenLog(to *slog.Logger) *Log {
	return &Log{to: to, account: b.Open(LogLines), minutes: make(map[identity.ID]*minute)}
}

// Add writes a line that who has caused, if it has one left.
func (l *Log) Add(who identity.ID, level slog.Level, msg string, args ...any) {
	if !l.to.Enabled(context.Background(), level) {
		return
	}
	if l.takeLine(who, func(m *minute) { m.lines++ }) {
		l.to.Log(context.Background(), level, msg, args...)
	}
}

// Tell tells subscribers of an event that who has caused, if it has one left. If
// not, the last such event of the minute is told at its end, with the number of
// those that were left out. It calls tell at once or from another goroutine.
func (l *Log) Tell(who identity.ID, tell func(left uint64)) {
	if l.takeLine(who, func(m *minute) { m.events, m.tell = m.events+1, tell }) {
		tell(0)
	}
}

// takeLine reports whether who has a line left, and notes in its minute if not.
func (l *Log) takeLine(who identity.ID, over func(*minute)) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := l.minutes[who]
	if m == nil {
		m = &minute{}
		l.ends.Add(1)
		m.timer = time.AfterFunc(time.Minute, func() {
			defer l.ends.Done()
			l.endMinute(who)
		})
		l.minutes[who] = m
	}
	if l.account.Take(who, 1) != nil {
		over(m)
		return false
	}
	m.taken++
	return true
}

// endMinute tells what was left out in a peer's minute.
func (l *Log) endMinute(who identity.ID) {
	l.mu.Lock()
	m := l.minutes[who]
	delete(l.minutes, who)
	l.mu.Unlock()
	if m == nil {
		return
	}
	if m.timer.Stop() {
		l.ends.Done()
	}
	l.account.Give(who, m.taken)
	if m.lines > 0 {
		name := "strangers"
		if who != Strangers {
			name = who.Label()
		}
		l.to.Warn("lines left out", "peer", name, "lines", m.lines, "in", time.Minute)
	}
	if m.events > 0 {
		m.tell(m.events)
	}
}

// Close tells what was left out so far, and waits until all of it is told. Nothing may
// be added after it.
func (l *Log) Close() {
	l.mu.Lock()
	var all []identity.ID
	for who := range l.minutes {
		all = append(all, who)
	}
	l.mu.Unlock()
	for _, who := range all {
		l.endMinute(who)
	}
	l.ends.Wait()
}
