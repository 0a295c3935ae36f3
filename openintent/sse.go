package openintent

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"time"
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
	home  bool // about the agents of another daemon
	in    chan *entry
}

const (
	streamBacklog = 256 // entries that may wait for a reader; then its stream ends, to be resumed
	streamPing    = 15 * time.Second
	streamStall   = 30 * time.Second // a reader that takes nothing for so long is gone
	maxStreams    = 10_000
	resumePage    = 64
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
	if r := n.relayed; r != nil {
		e.pushTo(topicIntent(r.IntentID), n)
		e.pushTo(topicChannel(r.ChannelID), n)
		for _, agent := range r.Own {
			e.pushTo(topicAgent(agentKey{"", agent}), n)
		}
		return
	}
	e.pushTo(topicIntent(n.in.id), n)
	for topic := range e.subs {
		if strings.HasPrefix(topic, "home ") {
			e.pushTo(topic, n)
		}
	}
	if m := n.message; m != nil {
		e.pushTo(topicChannel(m.ch.id), n)
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
		return tooMany("event streams", maxStreams, "end some")
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
	if n.relayed != nil {
		return n.relayed.concernsHere(s)
	}
	if m := n.message; m != nil {
		return !s.quiet && !m.expired(at) && m.kept(at) && m.sender != s.who.Agent &&
			(s.intent == "" || s.intent == n.in.id) && (s.channel == "" || s.channel == m.ch.id) &&
			e.channels[m.ch.id] == m.ch && e.fits(m.ch, s.who, at) &&
			(s.who.Operator && !s.agent || e.receives(m, s.who.Agent, at))
	}
	if s.channel != "" || n.event.Type == kindMessage {
		return false // an audited message is told of as a message
	}
	if !s.agent {
		return s.intent == n.in.id && e.level(n.in, s.who, at) >= levelRead
	}
	if !slices.Contains(agentEvents, n.event.Type) {
		return false
	}
	if n.event.Type == "agent_assigned" && !bytes.Contains(n.event.Payload, quote([]byte(`"agent_id":`), s.who.Agent)) {
		return false
	}
	home, bound := n.in.Homes[s.who.Agent]
	return slices.ContainsFunc(n.in.Assignments, func(a Assignment) bool {
		return a.AgentID == s.who.Agent && (bound && home == s.who.Home || !bound && a.Home == s.who.Home)
	})
}

// upperNames are the names that the Python runtime listens for where they are
// not the log's in capitals.
var upperNames = map[string]string{"state_patched": "STATE_CHANGED"}

// frame appends the entry as the stream tells it, if it concerns it.
func (e *Engine) frame(b []byte, s *subscriber, n *entry, at stamp) []byte {
	var name string
	var data []byte
	switch {
	case s.home:
		r, ok := e.relay(s, n, at)
		if !ok {
			return b
		}
		name, data = "relay", []byte(text(r))
	case !e.concerns(s, n, at):
		return b
	case n.relayed != nil:
		name, data = n.relayed.Event, n.relayed.Data
	case n.message != nil:
		name, data = kindMessage, n.message.append(nil, s.who.Agent, at, true)
	default:
		name, data = n.event.Type, n.event.append(nil)
	}
	if s.upper && name != kindMessage {
		if upper, ok := upperNames[name]; ok {
			name = upper
		} else {
			name = strings.ToUpper(strings.ReplaceAll(name, ".", "_"))
		}
	}
	b = append(append(b, "event: "...), name...)
	b = append(append(b, "\ndata: "...), oneLine(data)...)
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
