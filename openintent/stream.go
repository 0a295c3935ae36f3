package openintent

import "time"

// EventWriter writes an event stream to its reader. Its methods report whether the reader
// takes what is written; then they may block until it does.
type EventWriter interface {
	// Begin begins the stream. at is where the feed is: what comes later is written.
	Begin(at int64) bool
	// Append appends to b an event with its number in the feed. It does not block.
	Append(b []byte, event string, data []byte, number int64) []byte
	Write(b []byte) bool
	Ping() bool
	// HangUp ends a write to a reader that does not read. It may be called from any goroutine.
	HangUp()
}

// StreamIntent writes the stream of an intent until its reader leaves or does not keep up, or
// the daemon stops. It begins with what came after a number of the feed; -1: with what comes
// now.
func (e *Engine) StreamIntent(c *Call, id string, after int64, out EventWriter) error {
	in, err := e.intent(c, id, levelRead)
	if err != nil {
		return err
	}
	return e.stream(c, &subscriber{who: c.Caller, intent: in.id, out: out}, after)
}

// StreamChannel is [Engine.StreamIntent] for a channel.
func (e *Engine) StreamChannel(c *Call, id string, after int64, out EventWriter) error {
	ch, err := e.channel(c, id)
	if err != nil {
		return err
	}
	e.rlocked(func() { err = e.reads(ch, c.Caller) })
	if err != nil {
		return err
	}
	return e.stream(c, &subscriber{who: c.Caller, intent: ch.in.id, channel: ch.id, out: out}, after)
}

// StreamAgent is [Engine.StreamIntent] for what concerns an agent.
func (e *Engine) StreamAgent(c *Call, agent string, after int64, out EventWriter) error {
	who, err := c.as("agent_id", agent)
	if err != nil {
		return err
	}
	if who.Home == "" {
		e.AwaitFollow(c.Context(), "")
	}
	return e.stream(c, &subscriber{who: who, agent: true, quiet: e.cfg.QuietAgents, out: out}, after)
}

// StreamHome is [Engine.StreamIntent] for what concerns any agent of the caller's daemon.
func (e *Engine) StreamHome(c *Call, after int64, out EventWriter) error {
	return e.stream(c, &subscriber{who: c.Caller, home: true, out: out}, after)
}

// StreamRelayed is [Engine.StreamIntent] for an intent of another host, or for a channel of
// it, from what that host relays. Whether the caller may have it is for the host to say.
func (e *Engine) StreamRelayed(c *Call, intentID, channelID string, after int64, out EventWriter) error {
	return e.stream(c, &subscriber{who: c.Caller, intent: intentID, channel: channelID, out: out}, after)
}

const streamPing = 15 * time.Second

// stream serves s. It returns an error if the stream does not begin.
func (e *Engine) stream(c *Call, s *subscriber, after int64) error {
	s.in, s.payer = make(chan *entry, streamBacklog), peerOf(s.who.Home)
	if err := e.subscribe(s); err != nil {
		return err
	}
	defer e.unsubscribe(s)
	var from int64
	e.rlocked(func() { from = e.settled }) // what comes later comes through s.in
	if !s.out.Begin(from) {
		return nil
	}
	if after >= 0 && after < from && !e.resume(c.Context(), s, after, from, s.out.Write) {
		return nil
	}
	ping := time.NewTicker(streamPing)
	defer ping.Stop()
	var b []byte
	var told []*entry
	for {
		select {
		case n, ok := <-s.in:
			if !ok {
				return nil
			}
			b, told = e.frames(b[:0], told[:0], s, n, from)
			taken := len(b) == 0 || s.out.Write(b)
			for i, n := range told {
				e.drop(s, n)
				told[i] = nil
			}
			if !taken {
				return nil
			}
			if cap(b) > 2*writeBytes {
				b = nil
			}
		case <-ping.C:
			e.Saw(s.who)
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

// writeBytes is when what is there for a stream goes out.
const writeBytes = 64 << 10

// frames appends what is there, n first, so that it goes out in one write, if it is not
// too long, and says which entries these were.
func (e *Engine) frames(b []byte, told []*entry, s *subscriber, n *entry, from int64) ([]byte, []*entry) {
	at := now()
	e.mu.RLock()
	defer e.mu.RUnlock()
	for more := true; more; {
		told = append(told, n)
		if n.seq > from {
			b = e.frame(b, s, n, at)
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
