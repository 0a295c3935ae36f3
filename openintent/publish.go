package openintent

import (
	"github.com/acpd/acpd/openintent/chain"
	"github.com/acpd/acpd/openintent/object"
)

// feedEntry is a message or an event with its number in the feed.
type feedEntry struct {
	seq     int64
	in      *intentRecord
	message *message
	event   *chain.Event
	relayed *relayedEntry // then there is no intent
}

// feed is the one order of messages and events, with the streams and memory that follow it.
type feed struct {
	next    int64                  // the number that is given out next
	settled int64                  // every number up to it is published
	early   map[int64]writeOutcome // writes that were committed before those with lower numbers

	about        streams          // about an intent or a channel, by its id
	ofAgents     streams          // about an agent
	ofHomes      streams          // about a daemon's agents, by its home
	reached      map[string]int64 // the last number that each host has sent, by its digits
	streams      int              // that agents here have open
	guestStreams int              // that others have open

	memory []*message // the recent messages of all channels, the oldest first
	bytes  int        // of them
}

// writeOutcome is the outcome of the write that got the numbers up to last.
type writeOutcome struct {
	last int64
	out  []feedEntry
}

// The bytes of memory that a message takes in addition to its head: for itself, and for each of its
// recipients.
const (
	messageBytes   = 300
	recipientBytes = 16
)

// publishEntries settles the numbers from first to last. Entries become visible in the order of
// their numbers, in whatever order the writes return.
func (e *Engine) publishEntries(first, last int64, out []feedEntry) {
	e.early[first] = writeOutcome{last, out}
	for {
		s, ok := e.early[e.settled+1]
		if !ok {
			return
		}
		delete(e.early, e.settled+1)
		e.settled = s.last
		for i := range s.out {
			e.announceEntry(&s.out[i])
		}
	}
}

// announceEntry wakes all that wait for a message, and hands the entry to the streams.
func (e *Engine) announceEntry(n *feedEntry) {
	if m := n.message; m != nil {
		m.ch.bell.Ring()
		if m.kind == object.KindResponse {
			if a := m.ch.asks[m.correlation]; a != nil {
				a.addResponse(e, m)
			}
			if m.ch.news == nil {
				m.ch.news = make(map[string]bool)
			}
			m.ch.news[m.to] = true
		}
	}
	e.pushEntryToStreams(n)
}

// size returns about how many bytes of memory a message takes.
func (m *message) size() int { return len(m.head) + messageBytes + recipientBytes*len(m.recipients) }
