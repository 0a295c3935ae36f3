package mcp

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// parentFor is how long a message that was shown to the session is the parent of its calls.
const parentFor = 10 * time.Minute

// seenMessages knows the messages that the session was shown last, or woken for: what its calls follow from,
// how it replies, and which need no wake. The daemon knows which messages of the inbox may be removed.
type seenMessages struct {
	mu      sync.Mutex
	last    memory[messageKey, sight]
	n       int // numbers that were given
	endedAt int // nothing follows from messages up to this number
	watches []watch
}

// watch is of a wake that waits, for a message of the inbox. It lasts until unread ends.
type watch struct {
	key    messageKey
	ts     uint64
	unread context.Context
	end    context.CancelFunc
}

// sight is what is known of one message.
type sight struct {
	number int       // which message was shown first; 0 if it was not shown
	at     time.Time // when it was shown last
	woke   bool      // the session was woken for it, or is to be, and was not shown it since
	reply  replyWay  // zero if it is an open request
	readTS uint64    // the TS of the message of the inbox that was shown to its end: one that comes again under its id has another
}

// replyWay is how a message that is no open request is replied to.
type replyWay struct {
	question bool   // about a delegation of the session's: it is answered
	to       string // else a message goes there: peer, or peer/agent
	topic    string // of that message
}

// newReplyWay returns how a message of the inbox is replied to, the zero value if it is the daemon's own.
func newReplyWay(e *wire.Envelope) replyWay {
	if client.IsOwnReport(e) {
		return replyWay{}
	}
	way := replyWay{to: e.From.String(), topic: "reply"} // not the petname, which can pass to another peer
	if client.IsPlainAgentName(e.FromAgent) {
		way.to += "/" + e.FromAgent
	}
	if n, err := kinds.ParsePayload[kinds.Notify](e.Payload); e.Kind == kinds.KindNotify && err == nil && n.Topic != "" && !strings.HasPrefix(n.Topic, client.ReservedTopic) {
		way.topic = n.Topic
	}
	return way
}

// get returns what is known of a message, the zero value if nothing is.
func (m *seenMessages) get(key messageKey) sight {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, _ := m.last.get(key)
	return s
}

// change changes what is known of a message.
func (m *seenMessages) change(key messageKey, do func(*sight)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, _ := m.last.get(key)
	do(&s)
	m.last.keep(key, s)
}

// show notes that a message is shown now. A message that is shown again does not become newer than those
// that came after it, unless the session was woken for it since then: its peer pays for that turn. If only
// part of a message was shown, the session is woken once more for it.
func (m *seenMessages) show(key messageKey) {
	m.change(key, func(s *sight) {
		if s.number == 0 || s.woke {
			m.n++
			s.number = m.n
		}
		s.woke, s.at = false, time.Now()
	})
}

// wake notes that the session is woken for a message, and returns whether it was noted before.
func (m *seenMessages) wake(key messageKey) (before bool) {
	m.change(key, func(s *sight) { before, s.woke = s.woke, true })
	return before
}

// unwake notes that the session was not woken for a message after all.
func (m *seenMessages) unwake(key messageKey) { m.change(key, func(s *sight) { s.woke = false }) }

// keepReply keeps how a message is replied to.
func (m *seenMessages) keepReply(key messageKey, way replyWay) {
	m.change(key, func(s *sight) { s.reply = way })
}

// keysOf returns the messages with that id for which it is known how they are replied to.
func (m *seenMessages) keysOf(id wire.MessageID) []messageKey {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.last.keysOf(func(key messageKey, s sight) bool { return key.id == id && s.reply != replyWay{} })
}

// follow makes the message of that id, which the model has named, the newest, if it was shown.
func (m *seenMessages) follow(id wire.MessageID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, key := range m.last.keysOf(func(key messageKey, s sight) bool { return key.id == id && s.number > 0 }) {
		s, _ := m.last.get(key)
		m.n++
		s.number, s.at = m.n, time.Now()
		m.last.keep(key, s)
	}
}

// end ends what follows from the messages that were shown, also if they are shown again.
func (m *seenMessages) end() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.endedAt = m.n
}

// newest returns the newest message that was shown in the last ten minutes, or zero.
func (m *seenMessages) newest() (key messageKey) {
	m.mu.Lock()
	defer m.mu.Unlock()
	number := m.endedAt
	for other, s := range m.last.values {
		if s.number > number && time.Since(s.at) <= parentFor {
			key, number = other, s.number
		}
	}
	return key
}

// watch returns a context that ends when a message of the inbox was shown to its end. The caller calls done when
// it waits no more.
func (m *seenMessages) watch(e *wire.Envelope) (unread context.Context, done context.CancelFunc) {
	unread, done = context.WithCancel(context.Background())
	m.mu.Lock()
	defer m.mu.Unlock()
	if s, known := m.last.get(keyOf(e)); known && s.readTS == e.TS {
		done()
		return unread, done
	}
	m.watches = slices.DeleteFunc(m.watches, func(w watch) bool { return w.unread.Err() != nil })
	m.watches = append(m.watches, watch{keyOf(e), e.TS, unread, done})
	return unread, done
}

// read notes that a message of the inbox was shown to its end.
func (m *seenMessages) read(e *wire.Envelope) {
	key := keyOf(e)
	m.change(key, func(s *sight) {
		s.readTS = e.TS
		for _, w := range m.watches {
			if w.key == key && w.ts == e.TS {
				w.end()
			}
		}
	})
}
