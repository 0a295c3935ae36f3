package openintent

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

func (e *Engine) streamIntent(c *call) (int, any, error) {
	in, err := e.intent(c, c.arg(0), levelRead)
	if err != nil {
		return 0, nil, err
	}
	return e.stream(c, &subscriber{who: c.who, intent: in.id})
}

func (e *Engine) streamChannel(c *call) (int, any, error) {
	ch, err := e.channel(c, c.arg(0))
	if err != nil {
		return 0, nil, err
	}
	e.rlocked(func() { err = e.reads(ch, c.who) })
	if err != nil {
		return 0, nil, err
	}
	return e.stream(c, &subscriber{who: c.who, intent: ch.in.id, channel: ch.id})
}

func (e *Engine) streamAgent(c *call) (int, any, error) {
	who, err := c.as("agent_id", c.arg(0))
	if err != nil {
		return 0, nil, err
	}
	if who.Home == "" {
		e.awaitFollow(c.Context(), "")
	}
	return e.stream(c, &subscriber{who: who, agent: true, quiet: e.cfg.QuietAgents})
}

// stream serves s until its reader leaves, does not keep up, or the daemon stops.
func (e *Engine) stream(c *call, s *subscriber) (int, any, error) {
	s.in, s.payer = make(chan *entry, streamBacklog), peerOf(s.who.Home)
	s.upper = strings.HasSuffix(c.URL.Path, "/subscribe")
	out := http.NewResponseController(&c.w)
	s.hangUp = func() { out.SetWriteDeadline(time.Now()) }
	if err := e.subscribe(s); err != nil {
		return 0, nil, err
	}
	defer e.unsubscribe(s)
	var from int64
	e.rlocked(func() { from = e.settled }) // what comes later comes through s.in

	h := c.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no")
	c.w.WriteHeader(http.StatusOK)
	write := func(b []byte) bool {
		out.SetWriteDeadline(time.Now().Add(streamStall)) // where the transport has one
		if _, err := c.w.Write(b); err != nil {
			return false
		}
		return out.Flush() == nil
	}
	defer out.SetWriteDeadline(time.Time{}) // the connection may serve other requests
	hello := []byte(": ok\n\n")
	if s.home && c.Header.Get("Last-Event-ID") == "" { // so that it misses nothing from now on
		hello = fmt.Appendf(hello, "id: %d\n\n", from)
	}
	if !write(hello) {
		return 0, nil, errAnswered
	}
	if last, err := strconv.ParseInt(c.Header.Get("Last-Event-ID"), 10, 64); err == nil && last >= 0 && last < from {
		if !e.resume(c.Context(), s, last, from, write) {
			return 0, nil, errAnswered
		}
	}
	ping := time.NewTicker(streamPing)
	defer ping.Stop()
	var b []byte
	var told []*entry
	for {
		select {
		case n, ok := <-s.in:
			if !ok {
				return 0, nil, errAnswered
			}
			b, told = e.frames(b[:0], told[:0], s, n, from)
			taken := len(b) == 0 || write(b)
			for i, n := range told {
				e.drop(s, n)
				told[i] = nil
			}
			if !taken {
				return 0, nil, errAnswered
			}
			if cap(b) > 2*writeBytes {
				b = nil
			}
		case <-ping.C:
			e.saw(s.who)
			if !write([]byte(": ping\n\n")) {
				return 0, nil, errAnswered
			}
		case <-c.Context().Done():
			return 0, nil, errAnswered
		case <-e.done:
			return 0, nil, errAnswered
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
