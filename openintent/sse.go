package openintent

import (
	"bytes"
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/acpd/acpd/store"
)

// subscriber is an open event stream.
type subscriber struct {
	who   Caller
	about string // what it is about, in the form of topic
	intent,
	channel string
	agent bool // about an agent: who
	upper bool // event names as the Python runtime wants them
	quiet bool // no messages
	in    chan *entry
}

const (
	streamBacklog = 256 // entries that may wait for a reader; then its stream ends, to be resumed
	streamPing    = 15 * time.Second
	streamStall   = 30 * time.Second // a reader that takes nothing for so long is gone
	maxStreams    = 10_000
	resumePage    = 256
)

func topicIntent(id string) string  { return "intent " + id }
func topicChannel(id string) string { return "channel " + id }
func topicAgent(k agentKey) string  { return "agent " + k.home + " " + k.id }

// push hands an entry to the streams that it may concern. A stream that does
// not keep up is ended, cleanly: its reader resumes where it was.
func (e *Engine) push(n *entry) {
	if len(e.subs) == 0 {
		return
	}
	e.pushTo(topicIntent(n.in.doc.ID), n)
	if m := n.message; m != nil {
		e.pushTo(topicChannel(m.ch.doc.ID), n)
		if m.direct() {
			e.pushTo(topicAgent(agentKey{n.in.Homes[m.to], m.to}), n)
			return
		}
		at := now()
		for topic, subs := range e.subs {
			if !strings.HasPrefix(topic, "agent ") {
				continue
			}
			for s := range subs {
				if e.concerns(s, n, at) {
					e.pushTo(topic, n)
				}
				break // all of a topic are the same agent
			}
		}
		return
	}
	for _, a := range n.in.Assignments {
		e.pushTo(topicAgent(agentKey{n.in.Homes[a.AgentID], a.AgentID}), n)
	}
}

func (e *Engine) pushTo(topic string, n *entry) {
	for s := range e.subs[topic] {
		select {
		case s.in <- n:
		default:
			e.unsubscribe(s)
			close(s.in)
		}
	}
}

func (e *Engine) subscribe(s *subscriber) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	total := 0
	for _, subs := range e.subs {
		total += len(subs)
	}
	if total >= maxStreams {
		return tooMany("event streams", maxStreams)
	}
	if e.subs[s.about] == nil {
		e.subs[s.about] = make(map[*subscriber]bool)
	}
	e.subs[s.about][s] = true
	return nil
}

// unsubscribe takes s out; the world is locked.
func (e *Engine) unsubscribe(s *subscriber) {
	delete(e.subs[s.about], s)
	if len(e.subs[s.about]) == 0 {
		delete(e.subs, s.about)
	}
}

// agentEvents are what the stream of an agent tells of its intents.
var agentEvents = []string{"agent_assigned", "status_changed", "state_patched"}

// concerns decides whether the stream shows the entry now. The world is read-locked.
func (e *Engine) concerns(s *subscriber, n *entry, at stamp) bool {
	if m := n.message; m != nil {
		return !s.quiet && !m.expired(at) && m.kept(at) && m.sender != s.who.Agent &&
			(s.intent == "" || s.intent == n.in.doc.ID) && (s.channel == "" || s.channel == m.ch.doc.ID) &&
			e.channels[m.ch.doc.ID] == m.ch && e.fits(m.ch, s.who, at) &&
			(s.who.Operator && !s.agent || e.receives(m, s.who.Agent, at))
	}
	if s.channel != "" || n.event.Type == kindMessage {
		return false // an audited message is told of as a message
	}
	if !s.agent {
		return s.intent == n.in.doc.ID && e.level(n.in, s.who, at) >= levelRead
	}
	if !slices.Contains(agentEvents, n.event.Type) || n.in.Homes[s.who.Agent] != s.who.Home {
		return false
	}
	if n.event.Type == "agent_assigned" && !bytes.Contains(n.event.Payload, quote([]byte(`"agent_id":`), s.who.Agent)) {
		return false
	}
	return slices.ContainsFunc(n.in.Assignments, func(a Assignment) bool { return a.AgentID == s.who.Agent })
}

// upperNames are the names that the Python runtime listens for where they are
// not the log's in capitals.
var upperNames = map[string]string{"state_patched": "STATE_CHANGED"}

// frame appends the entry as the stream tells it.
func (s *subscriber) frame(b []byte, n *entry, at stamp) []byte {
	b = append(b, "event: "...)
	start := 0
	if m := n.message; m != nil {
		b = append(append(b, kindMessage...), "\ndata: "...)
		start = len(b)
		b = m.append(b, s.who.Agent, at, true)
	} else {
		name := n.event.Type
		if s.upper {
			if name = upperNames[n.event.Type]; name == "" {
				name = strings.ToUpper(strings.ReplaceAll(n.event.Type, ".", "_"))
			}
		}
		b = append(append(b, name...), "\ndata: "...)
		start = len(b)
		b = n.event.append(b)
	}
	b = append(b[:start], oneLine(b[start:])...)
	b = strconv.AppendInt(append(b, "\nid: "...), n.seq, 10)
	return append(b, "\n\n"...)
}

// append appends what streams say of an event: where the server wrote it the
// members of its payload beside those of the event.
func (ev *Event) append(b []byte) []byte {
	b = quote(append(b, `{"intent_id":`...), ev.IntentID)
	b = quote(append(b, `,"event_id":`...), ev.ID)
	b = quote(append(b, `,"event_type":`...), ev.Type)
	b = quote(append(b, `,"actor":`...), ev.Actor)
	b = ev.CreatedAt.append(append(b, `,"created_at":`...))
	switch {
	case !slices.Contains(ownKinds, ev.Type):
		b = append(append(b, `,"payload":`...), ev.Payload...)
	case len(ev.Payload) > len("{}"):
		b = append(append(b, ','), ev.Payload[1:len(ev.Payload)-1]...)
	}
	return append(b, '}')
}

// oneLine escapes what Python's splitlines takes for the end of a line. In
// JSON these stand in strings alone.
func oneLine(b []byte) []byte {
	for sign, escape := range map[string]string{"\u0085": `\u0085`, "\u2028": `\u2028`, "\u2029": `\u2029`} {
		if bytes.Contains(b, []byte(sign)) {
			b = bytes.ReplaceAll(b, []byte(sign), []byte(escape))
		}
	}
	return b
}

func (e *Engine) streamIntent(c *call) (int, any, error) {
	in, err := e.intent(c, c.arg(0), levelRead)
	if err != nil {
		return 0, nil, err
	}
	return e.stream(c, &subscriber{who: c.who, about: topicIntent(in.doc.ID), intent: in.doc.ID})
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
	return e.stream(c, &subscriber{who: c.who, about: topicChannel(ch.doc.ID), intent: ch.in.doc.ID, channel: ch.doc.ID})
}

func (e *Engine) streamAgent(c *call) (int, any, error) {
	who, err := c.as("agent_id", c.arg(0))
	if err != nil {
		return 0, nil, err
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
	if !write([]byte(": ok\n\n")) {
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
			// Everything that is there goes out in one write.
			b = b[:0]
			at := now()
			e.mu.RLock()
			for more := true; more; {
				if n.seq > from && e.concerns(s, n, at) {
					b = s.frame(b, n, at)
				}
				select {
				case n, more = <-s.in:
				default:
					more = false
				}
			}
			e.mu.RUnlock()
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

// resume writes what the stream has missed, from the store.
func (e *Engine) resume(ctx context.Context, s *subscriber, after, upTo int64, write func([]byte) bool) bool {
	for after < upTo {
		var page []entry
		err := e.db.Read(ctx, func(stx *store.Tx) (err error) {
			page, err = e.entriesAfter(stx, s, after, upTo, resumePage)
			return err
		})
		if err != nil {
			e.cfg.Log.Error("openintent: resuming a stream failed", "error", err)
			return false
		}
		if len(page) == 0 {
			return true
		}
		var b []byte
		at := now()
		e.mu.RLock()
		for i := range page {
			after = page[i].seq
			if e.concerns(s, &page[i], at) {
				b = s.frame(b, &page[i], at)
			}
		}
		e.mu.RUnlock()
		if len(b) > 0 && !write(b) {
			return false
		}
	}
	return true
}
