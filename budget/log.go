package budget

import (
	"bytes"
	"context"
	"crypto/sha256"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/acpd/acpd/identity"
)

// Strangers is the id under which all strangers on the UDP socket are counted together: keys cost
// nothing, so a share for each of them would be no bound.
var Strangers identity.ID

// strangersPrefix begins the ids under which strangers on links are counted. Nobody has the time
// to find a key whose id begins so.
const strangersPrefix = "strangers on "

// StrangersOn returns the id under which all strangers on a link are counted together, so that a
// flood on one link takes nothing from the strangers of another. "" is the UDP socket.
func StrangersOn(link string) identity.ID {
	if link == "" {
		return Strangers
	}
	hash := sha256.Sum256([]byte(link))
	return identity.ID(append([]byte(strangersPrefix), hash[len(strangersPrefix):]...))
}

// AreStrangers reports whether an id is that of all strangers on a link.
func AreStrangers(id identity.ID) bool {
	return id == Strangers || bytes.HasPrefix(id[:], []byte(strangersPrefix))
}

// Log writes lines that peers cause to a log and passes on events that they cause,
// [LogLines] of each peer at most in a minute. Once a minute it reports how many it has left
// out, in one line and one event.
type Log struct {
	to      *slog.Logger
	account *Account

	ends    sync.WaitGroup // timers of minutes that have not been stopped
	mu      sync.Mutex     // guards minutes
	minutes map[identity.ID]*minute
}

// minute holds what one peer has caused since its first line, for a minute.
type minute struct {
	timer  *time.Timer
	taken  int64
	lines  uint64            // left out
	events uint64            // left out
	tell   func(left uint64) // of the last event that was left out
}

// OpenLog opens the account of log lines. The log is closed with Close.
func (b *Book) OpenLog(to *slog.Logger) *Log {
	return &Log{to: to, account: b.OpenAccount(LogLines), minutes: make(map[identity.ID]*minute)}
}

// WriteLimited writes a line that who has caused, unless it has used up its share.
func (l *Log) WriteLimited(who identity.ID, level slog.Level, msg string, args ...any) {
	if !l.to.Enabled(context.Background(), level) {
		return
	}
	if l.reserveLine(who, func(m *minute) { m.lines++ }) {
		l.to.Log(context.Background(), level, msg, args...)
	}
}

// NotifyLimited passes on an event that who has caused: it calls tell at once. If who has used up
// its share, only the last such event of a minute is passed on, at the end of that and
// from another goroutine, with the number of those that were left out.
func (l *Log) NotifyLimited(who identity.ID, tell func(left uint64)) {
	if l.reserveLine(who, func(m *minute) { m.events, m.tell = m.events+1, tell }) {
		tell(0)
	}
}

// reserveLine reports whether who may cause one more line, and calls over if not.
func (l *Log) reserveLine(who identity.ID, over func(*minute)) bool {
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
	if l.account.Reserve(who, 1) != nil {
		over(m)
		return false
	}
	m.taken++
	return true
}

// endMinute ends a peer's minute and reports what was left out in it.
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
	l.account.Release(who, m.taken)
	if m.lines > 0 {
		name := "strangers"
		if !AreStrangers(who) {
			name = who.Label()
		}
		l.to.Warn("lines left out", "peer", name, "lines", m.lines, "in", time.Minute)
	}
	if m.events > 0 {
		m.tell(m.events)
	}
}

// Close reports what was left out so far, and returns when that is done. Nothing may be
// added after it.
func (l *Log) Close() {
	l.mu.Lock()
	all := slices.Collect(maps.Keys(l.minutes))
	l.mu.Unlock()
	for _, who := range all {
		l.endMinute(who)
	}
	l.ends.Wait()
}
