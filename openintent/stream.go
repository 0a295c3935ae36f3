package openintent

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/acpd/acpd/store"
)

func (e *Engine) streamIntent(c *call) (int, any, error) {
	in, err := e.intent(c, c.arg(0), levelRead)
	if err != nil {
		return 0, nil, err
	}
	return e.stream(c, &subscriber{who: c.who, about: topicIntent(in.id), intent: in.id})
}

func (e *Engine) streamChannel(c *call) (int, any, error) {
	ch, err := e.channel(c, c.arg(0))
	if err != nil {
		return 0, nil, err
	}
	e.mu.RLock()
	err = e.reads(ch, c.who)
	e.mu.RUnlock()
	if err != nil {
		return 0, nil, err
	}
	return e.stream(c, &subscriber{who: c.who, about: topicChannel(ch.id), intent: ch.in.id, channel: ch.id})
}

func (e *Engine) streamAgent(c *call) (int, any, error) {
	who, err := c.as("agent_id", c.arg(0))
	if err != nil {
		return 0, nil, err
	}
	if who.Home == "" {
		e.awaitFollow(c.Context(), "")
	}
	return e.stream(c, &subscriber{who: who, about: topicAgent(agentKey{who.Home, who.Agent}), agent: true, quiet: e.cfg.QuietAgents})
}

// stream serves s until its reader leaves, does not keep up, or the daemon stops.
func (e *Engine) stream(c *call, s *subscriber) (int, any, error) {
	s.in = make(chan *entry, streamBacklog)
	s.upper = strings.HasSuffix(c.URL.Path, "/subscribe")
	if err := e.subscribe(s); err != nil {
		return 0, nil, err
	}
	defer func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.unsubscribe(s)
	}()
	e.mu.RLock()
	from := e.settled // what comes later comes through s.in
	e.mu.RUnlock()

	h := c.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no")
	c.w.WriteHeader(http.StatusOK)
	out := http.NewResponseController(c.w)
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
	for {
		select {
		case n, ok := <-s.in:
			if !ok {
				return 0, nil, errAnswered
			}
			b = e.frames(b[:0], s, n, from)
			if len(b) > 0 && !write(b) {
				return 0, nil, errAnswered
			}
			if cap(b) > 64<<10 {
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

// frames appends everything that is there, n first, so that it goes out in one write.
func (e *Engine) frames(b []byte, s *subscriber, n *entry, from int64) []byte {
	at := now()
	e.mu.RLock()
	defer e.mu.RUnlock()
	for more := true; more; {
		if n.seq > from {
			b = e.frame(b, s, n, at)
		}
		select {
		case n, more = <-s.in:
		default:
			more = false
		}
	}
	return b
}

// resume writes what the stream has missed, from the store.
func (e *Engine) resume(ctx context.Context, s *subscriber, after, upTo int64, write func([]byte) bool) bool {
	for after < upTo {
		var page []entry
		end := upTo
		err := e.db.Read(ctx, func(stx *store.Tx) (err error) {
			page, end, err = e.entriesAfter(stx, s, after, upTo, resumePage)
			return err
		})
		if err != nil {
			if ctx.Err() == nil {
				e.cfg.Log.Error("openintent: resuming a stream failed", "error", err)
			}
			return false
		}
		after = end
		var b []byte
		at := now()
		e.mu.RLock()
		for i := range page {
			b = e.frame(b, s, &page[i], at)
		}
		e.mu.RUnlock()
		if len(b) > 0 && !write(b) {
			return false
		}
	}
	return true
}
