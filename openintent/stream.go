package openintent

import "time"

// EventWriter writes an event stream to its reader. Its methods return false if the reader does
// not take what is written; until it does they may block.
type EventWriter interface {
	// Begin begins the stream. at is the last number of the feed; later entries are written.
	Begin(at int64) bool
	// Append appends to b an event with its number in the feed. It does not block.
	Append(b []byte, event string, data []byte, number int64) []byte
	// Write writes events that Append has made.
	Write(b []byte) bool
	// Ping writes a comment that keeps the stream alive.
	Ping() bool
	// HangUp ends a write to a reader that does not read. It may be called from any goroutine.
	HangUp()
}

// StreamIntent writes the stream of an intent. It begins with the entries after a number of the
// feed; -1: with new entries. It blocks until the reader leaves or does not keep up, or the
// daemon stops.
func (e *Engine) StreamIntent(c *Call, id string, after int64, out EventWriter) error {
	in, err := e.findIntentAndRecordUse(c, id, levelRead)
	if err != nil {
		return err
	}
	return e.serveStream(c, &subscriber{who: c.Caller, intent: in.id, out: out}, after)
}

// StreamChannel is [Engine.StreamIntent] for a channel.
func (e *Engine) StreamChannel(c *Call, id string, after int64, out EventWriter) error {
	ch, err := e.findChannelAndRecordUse(c, id)
	if err != nil {
		return err
	}
	e.withReadLock(func() { err = ch.checkReader(c.Caller) })
	if err != nil {
		return err
	}
	return e.serveStream(c, &subscriber{who: c.Caller, intent: ch.in.id, channel: ch.id, out: out}, after)
}

// StreamAgent is [Engine.StreamIntent] for the entries that concern an agent.
func (e *Engine) StreamAgent(c *Call, agent string, after int64, out EventWriter) error {
	who, err := c.resolveActingCaller("agent_id", agent)
	if err != nil {
		return err
	}
	if who.Home == "" {
		e.FollowHostBriefly(c.Context(), "")
	}
	return e.serveStream(c, &subscriber{who: who, agent: true, quiet: e.cfg.QuietAgents, out: out}, after)
}

// StreamHome is [Engine.StreamIntent] for the entries that concern any agent of the caller's
// daemon.
func (e *Engine) StreamHome(c *Call, after int64, out EventWriter) error {
	return e.serveStream(c, &subscriber{who: c.Caller, home: true, out: out}, after)
}

// StreamRelayed is [Engine.StreamIntent] for an intent of another host, or a channel of it, with
// the entries that the host relays. The host decides whether the caller may have them.
func (e *Engine) StreamRelayed(c *Call, intentID, channelID string, after int64, out EventWriter) error {
	return e.serveStream(c, &subscriber{who: c.Caller, intent: intentID, channel: channelID, out: out}, after)
}

const streamPing = 15 * time.Second

// serveStream writes the stream s until it ends. It returns an error if the stream does not
// begin.
func (e *Engine) serveStream(c *Call, s *subscriber, after int64) error {
	s.in, s.payer = make(chan *feedEntry, streamBacklog), peerAccountKey(s.who.Home)
	if err := e.addSubscriber(s); err != nil {
		return err
	}
	defer e.removeSubscriber(s)
	var from int64
	e.withReadLock(func() { from = e.settled }) // later entries come through s.in
	if !s.out.Begin(from) {
		return nil
	}
	if after >= 0 && after < from && !e.writeMissedEntries(c.Context(), s, after, from, s.out.Write) {
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
				e.refundWaitingEntry(s, n)
				told[i] = nil
			}
			if !taken {
				return nil
			}
			if cap(b) > 2*writeBytes {
				b = nil
			}
		case <-ping.C:
			e.MarkAgentSeen(s.who)
			if !s.out.Ping() {
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
		if n.seq > from {
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
