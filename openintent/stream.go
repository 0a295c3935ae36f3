package openintent

import (
	"time"

	"github.com/acpd/acpd/openintent/object"
)

// EventWriter writes an event stream to its reader. Its methods return false if the reader does
// not take what is written; until it does they may block.
type EventWriter interface {
	// Begin begins the stream, with the entries after that number of the feed.
	Begin(after int64) bool
	// Append appends to b an event with its id. It does not block.
	Append(b []byte, event string, data []byte, id string) []byte
	// Write writes events that Append has made.
	Write(b []byte) bool
	// Ping writes a comment that keeps the stream alive.
	Ping() bool
	// HangUp ends a write to a reader that does not read. It may be called from any goroutine.
	HangUp()
}

// newSubscriber makes a stream of the caller: of a channel, or of an intent, or, if both are "", of
// the caller itself. It refuses what the caller may not read.
func (c *Call) newSubscriber(intentID, channelID string) (*subscriber, error) {
	e := c.e
	s := &subscriber{who: c.Caller, intent: intentID, channel: channelID}
	switch {
	case channelID != "":
		ch, err := e.findChannelAndRecordUse(c, channelID)
		if err != nil {
			return nil, err
		}
		s.intent = ch.in.id
		e.withReadLock(func() { err = ch.checkReader(c.Caller) })
		return s, err
	case intentID != "":
		_, err := e.findIntentAndRecordUse(c, intentID, levelRead)
		return s, err
	}
	s.agent = true
	return s, nil
}

// StreamIntent writes the stream of an intent. It begins after the event with the id last, or, if
// last is "", with new entries. It blocks until the reader leaves or does not keep up, or the
// daemon stops.
func (e *Engine) StreamIntent(c *Call, id, last string, out EventWriter) error {
	s, err := c.newSubscriber(id, "")
	if err != nil {
		return err
	}
	return e.serveStream(c, s, last, out)
}

// StreamChannel is [Engine.StreamIntent] for a channel.
func (e *Engine) StreamChannel(c *Call, id, last string, out EventWriter) error {
	s, err := c.newSubscriber("", id)
	if err != nil {
		return err
	}
	return e.serveStream(c, s, last, out)
}

// StreamAgent is [Engine.StreamIntent] for the entries that concern an agent.
func (e *Engine) StreamAgent(c *Call, agent, last string, out EventWriter) error {
	who, err := c.resolveActingCaller("agent_id", agent)
	if err != nil {
		return err
	}
	if who.Home == "" {
		e.FollowHostBriefly(c.Context(), "")
	}
	return e.serveStream(c, &subscriber{who: who, agent: true}, last, out)
}

// StreamHome is [Engine.StreamIntent] for the entries that concern any agent of the caller's
// daemon.
func (e *Engine) StreamHome(c *Call, last string, out EventWriter) error {
	return e.serveStream(c, &subscriber{who: c.Caller, home: true}, last, out)
}

// StreamRelayed is [Engine.StreamIntent] for an intent of another host, or a channel of it, with
// the entries that the host relays. The host decides whether the caller may have them.
func (e *Engine) StreamRelayed(c *Call, intentID, channelID, last string, out EventWriter) error {
	return e.serveStream(c, &subscriber{who: c.Caller, intent: intentID, channel: channelID}, last, out)
}

const streamPing = 15 * time.Second

// serveStream writes the stream s until it ends. It returns an error if the stream does not
// begin.
func (e *Engine) serveStream(c *Call, s *subscriber, last string, out EventWriter) error {
	s.out, s.in, s.payer = out, make(chan *feedEntry, streamBacklog), peerAccountKey(s.who.Home)
	s.at, s.behind = object.ParseCursor(last), make(map[string]bool)
	if err := e.addSubscriber(s); err != nil {
		return err
	}
	defer e.removeSubscriber(s)
	var from int64
	e.withReadLock(func() { // later entries come through s.in
		from = e.settled
		s.beginHosts(e.reached)
	})
	after := s.at.Here
	if s.at.Here < 0 || s.at.Here > from {
		after = from
	}
	if !s.out.Begin(after) {
		return nil
	}
	if after < from && !e.writeMissedEntries(c.Context(), s, after, from, s.out.Write) {
		return nil
	}
	if s.at.Here = from; !e.catchUp(c.Context(), s) {
		return nil
	}
	ping := time.NewTicker(streamPing)
	defer ping.Stop()
	var b []byte
	var told []*feedEntry
	for {
		select {
		case n, ok := <-s.in:
			if !ok {
				return nil
			}
			b, told = e.appendWaitingFrames(b[:0], told[:0], s, n, from)
			taken := len(b) == 0 || s.out.Write(b)
			for i, n := range told {
				e.entries.refund(s, n)
				told[i] = nil
			}
			if !taken || s.retry && !e.catchUp(c.Context(), s) {
				return nil
			}
			if cap(b) > 2*writeBytes {
				b = nil
			}
		case <-ping.C:
			e.MarkAgentSeen(s.who)
			if !s.out.Ping() || !e.catchUp(c.Context(), s) {
				return nil
			}
		case <-c.Context().Done():
			return nil
		case <-e.done:
			return nil
		}
	}
}

// writeBytes is the length from which frames for a stream are written.
const writeBytes = 64 << 10

// appendWaitingFrames appends frames of the entry n and of those that wait behind it, as long as
// they are short enough for one write. It also returns these entries.
func (e *Engine) appendWaitingFrames(b []byte, told []*feedEntry, s *subscriber, n *feedEntry, from int64) ([]byte, []*feedEntry) {
	at := now()
	e.mu.RLock()
	defer e.mu.RUnlock()
	for more := true; more; {
		told = append(told, n)
		if n.relayed != nil && s.takesRelayed(n.relayed) || n.relayed == nil && n.seq > from {
			b = e.appendEntryFrame(b, s, n, at)
		}
		if len(b) >= writeBytes {
			break
		}
		select {
		case n, more = <-s.in:
		default:
			more = false
		}
	}
	return b, told
}
