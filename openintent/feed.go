package openintent

import (
	"sync"

	"github.com/acpd/acpd/openintent/chain"
)

// entry is a message or an event with its number in the feed.
type entry struct {
	seq     int64
	in      *intent
	message *message
	event   *chain.Event
	relayed *relayed // then there is no intent
}

// feed is the one order of messages and events, and who follows it.
type feed struct {
	next    int64                // the number that is given out next
	settled int64                // every number up to it is published
	early   map[int64]settlement // writes that were committed before those with lower numbers

	about        map[string]subscribers   // streams about an intent or a channel, by its id
	ofAgents     map[agentKey]subscribers // about an agent
	ofHomes      map[string]subscribers   // about a daemon's agents
	streams      int                      // that agents here have open
	guestStreams int                      // that others have open

	memory []*message // the recent messages of all channels, the oldest first
	bytes  int        // of them
}

// settlement is the outcome of the write that got the numbers up to last.
type settlement struct {
	last int64
	out  []entry
}

// recentBytes bounds the messages that are kept in memory, all channels
// together. Others are read from the store.
const recentBytes = 8 << 20

// What a message costs beyond its head: by itself, and for each of its recipients.
const (
	messageBytes   = 300
	recipientBytes = 16
)

func (f *feed) start() {
	f.next = 1
	f.early = make(map[int64]settlement)
	f.about, f.ofAgents, f.ofHomes = make(map[string]subscribers), make(map[agentKey]subscribers), make(map[string]subscribers)
}

// publish settles the numbers from first to last. Entries become visible in the
// order of their numbers, whatever the order in which their writes return.
func (e *Engine) publish(first, last int64, out []entry) {
	e.early[first] = settlement{last, out}
	for {
		s, ok := e.early[e.settled+1]
		if !ok {
			return
		}
		delete(e.early, e.settled+1)
		e.settled = s.last
		for i := range s.out {
			e.tell(&s.out[i])
		}
	}
}

// tell wakes who waits for a message, and hands the entry to the streams.
func (e *Engine) tell(n *entry) {
	if m := n.message; m != nil {
		m.ch.bell.ring()
		if m.kind == kindResponse {
			if a := m.ch.asks[m.correlation]; a != nil {
				a.hear(e, m)
			}
			if e.cfg.HeldList > 0 {
				if m.ch.news == nil {
					m.ch.news = make(map[string]bool)
				}
				m.ch.news[m.to] = true
			}
		}
	}
	e.push(n)
}

// remember keeps a message in memory.
func (e *Engine) remember(m *message) {
	ch := m.ch
	for len(ch.recent) > 0 && !ch.recent[0].kept(m.at) {
		ch.forget()
	}
	ch.recent = append(ch.recent, m)
	e.memory = append(e.memory, m)
	for e.bytes += m.size(); e.bytes > recentBytes; {
		old := e.memory[0]
		e.memory[0] = nil
		e.memory = e.memory[1:]
		e.bytes -= old.size()
		if c := old.ch; len(c.recent) > 0 && c.recent[0] == old {
			c.forget()
			c.dropped = m.at
		}
	}
}

// unremember takes back the last message that was remembered.
func (e *Engine) unremember(m *message) {
	if n := len(e.memory); n > 0 && e.memory[n-1] == m {
		e.memory[n-1] = nil
		e.memory = e.memory[:n-1]
		e.bytes -= m.size()
	}
	ch := m.ch
	if n := len(ch.recent); n > 0 && ch.recent[n-1] == m {
		ch.recent[n-1] = nil
		ch.recent = ch.recent[:n-1]
	}
}

func (m *message) size() int { return len(m.head) + messageBytes + recipientBytes*len(m.recipients) }

// forget takes the oldest message out of memory.
func (ch *channel) forget() {
	ch.recent[0] = nil
	ch.recent = ch.recent[1:]
}

// remembered returns the message with that number, if it is in memory.
func (ch *channel) remembered(number int64) *message {
	if len(ch.recent) == 0 {
		return nil
	}
	i := number - ch.recent[0].number
	if i < 0 || i >= int64(len(ch.recent)) {
		return nil
	}
	return ch.recent[i]
}

// bell wakes everybody who waits for it.
type bell struct {
	mu sync.Mutex
	c  chan struct{} // nil while nobody waits
}

// wait returns a channel that the next ring closes.
func (b *bell) wait() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.c == nil {
		b.c = make(chan struct{})
	}
	return b.c
}

func (b *bell) ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.c != nil {
		close(b.c)
		b.c = nil
	}
}
