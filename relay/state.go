package relay

import (
	"errors"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// Standing says what a link can do at the moment.
type Standing string

// The standings.
const (
	Connecting Standing = "connecting" // no connection to the server; LastError says why
	Connected  Standing = "connected"  // packets come and go
	Deaf       Standing = "deaf"       // connected, but the server refuses the subscription: nothing comes in
	Closed     Standing = "closed"     // Run has ended
)

// State is what a link knows of itself. It holds no secret.
type State struct {
	Name      string
	URL       string // all servers, without credentials
	Account   string // how the link authenticates, without the secret
	PublicKey string // of the derived nkey, for the server's configuration

	Standing Standing
	Since    time.Time     // when the standing began, or what was refused ended
	Server   string        // name and version of the server that is or was connected
	RTT      time.Duration // to the server and back, when last measured; 0: not yet
	ClientIP netip.Addr    // this host as the server sees it, if that is a public address; what the server says, nothing more
	Proxy    string        // host and port of the HTTP proxy in use; "": none

	LastError   error // of the connection, or what the server has said since; nil: none yet
	LastErrorAt time.Time
	Limit       error     // what does not work, though packets come and go; nil: nothing
	Refused     time.Time // since when each error has been one of ErrRefused; zero if the last is another one, or what it refused is permitted now
	Reconnects  uint64    // connections after the first
	Clone       time.Time // when another process with this identity last answered; zero: never

	In, Out    Traffic
	DroppedIn  uint64 // packets of refused senders, of full queues, and messages that are not packets, such as long ones of any member of the account
	DroppedOut uint64 // packets beyond the queue, or larger than MTU, while there was a connection
	Refusals   uint64 // answers of the server that nobody takes packets at an address
}

// Traffic is a number of packets, and their bytes.
type Traffic struct{ Packets, Bytes uint64 }

// counts are those parts of a State that change with each packet.
type counts struct {
	packetsIn, bytesIn, droppedIn    atomic.Uint64
	packetsOut, bytesOut, droppedOut atomic.Uint64
	refusals                         atomic.Uint64
}

// State returns what the link knows of itself now. It does not block.
func (l *Link) State() State {
	l.mu.Lock()
	s := l.state
	l.mu.Unlock()
	s.In = Traffic{l.counts.packetsIn.Load(), l.counts.bytesIn.Load()}
	s.Out = Traffic{l.counts.packetsOut.Load(), l.counts.bytesOut.Load()}
	s.DroppedIn, s.DroppedOut = l.counts.droppedIn.Load(), l.counts.droppedOut.Load()
	s.Refusals = l.counts.refusals.Load()
	return s
}

// updateState changes the state by f and tells whoever wants to know.
func (l *Link) updateState(f func(*State)) {
	l.mu.Lock()
	f(&l.state)
	l.mu.Unlock()
	if l.config.Changed != nil {
		l.config.Changed()
	}
}

func (l *Link) setStanding(standing Standing) {
	l.updateState(func(s *State) {
		if s.Standing != standing {
			s.Standing, s.Since = standing, time.Now()
		}
	})
}

// noteError records what went wrong.
func (l *Link) noteError(err error) {
	l.updateState(func(s *State) {
		s.LastError, s.LastErrorAt = err, time.Now()
		switch refused := errors.Is(err, ErrRefused); {
		case !refused:
			s.Refused = time.Time{}
		case s.Refused.IsZero():
			s.Refused = s.LastErrorAt
		}
	})
	l.logError(err)
}

// logError has the log tell what went wrong, each text once a minute at most.
func (l *Link) logError(err error) {
	if l.errorPace.mayTell(err.Error(), time.Now()) {
		l.log.Warn("relay", "error", err)
	}
}

const (
	errorPause = time.Minute
	maxErrors  = 32 // texts that the log has in that time
)

// errorPace keeps errors from filling the log: it lets each text through once in a minute, and maxErrors of
// them. Its owner's goroutines share it.
type errorPace struct {
	mu    sync.Mutex
	began time.Time // of the minute
	told  map[string]bool
}

func (p *errorPace) mayTell(text string, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now.Sub(p.began) >= errorPause {
		p.began, p.told = now, make(map[string]bool)
	}
	if p.told[text] || len(p.told) >= maxErrors {
		return false
	}
	p.told[text] = true
	return true
}
