package openintent

import (
	"cmp"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/openintent/chain"
)

// subscriber is an open event stream.
type subscriber struct {
	who     Caller
	intent  string // what it is about, and
	channel string // of the intent
	agent   bool   // about an agent: who
	quiet   bool   // no messages
	home    bool   // about the agents of another daemon
	in      chan *entry
	payer   identity.ID // who is charged for what waits, if that is another daemon
	ended   bool        // in is closed; guarded by the engine's mu
	out     EventWriter
}

const (
	streamBacklog  = 256    // entries that may wait for a reader; then its stream ends, to be resumed
	maxStreams     = 10_000 // of the agents here, and as many of all others
	maxHomeStreams = 2      // of one daemon: the one that it has, and the one that this replaces
)

// subscribers are the open streams about one thing.
type subscribers map[*subscriber]bool

// push hands an entry to the streams that it may concern. A stream that does
// not keep up is ended, cleanly: its reader resumes where it was.
func (e *Engine) push(n *entry) {
	if e.streams == 0 && e.guestStreams == 0 {
		return
	}
	if r := n.relayed; r != nil {
		e.keepRelayed(n)
		defer e.dropRelayed(n)
		e.pushTo(e.about[r.IntentID], n)
		e.pushTo(e.about[r.ChannelID], n)
		for _, agent := range r.Own {
			e.pushTo(e.ofAgents[agentKey{"", agent}], n)
		}
		return
	}
	e.pushTo(e.about[n.in.id], n)
	for _, subs := range e.ofHomes {
		e.pushTo(subs, n)
	}
	if m := n.message; m != nil {
		e.pushTo(e.about[m.ch.id], n)
		if m.direct() {
			e.pushTo(e.ofAgents[e.key(m.to)], n)
			return
		}
		at := now()
		for _, subs := range e.ofAgents {
			for s := range subs {
				if e.concerns(s, n, at) {
					e.pushTo(subs, n)
				}
				break // all of them are the same agent's
			}
		}
		return
	}
	for _, a := range n.in.Assignments {
		e.pushTo(e.ofAgents[agentKey{a.Home, a.AgentID}], n)
	}
}

func (e *Engine) pushTo(subs subscribers, n *entry) {
	for s := range subs {
		if s.ended {
			continue
		}
		if !e.keep(s, n) {
			s.end()
			continue
		}
		select {
		case s.in <- n:
		default:
			e.drop(s, n)
			s.end()
		}
	}
}

// keep charges for an entry that is to wait for the reader of a stream: the daemon
// whose stream it is, or, for readers here, the host that has relayed it. It refuses
// one for which there is no room; of a host's entries those alone that would wait
// behind others.
func (e *Engine) keep(s *subscriber, n *entry) bool {
	switch {
	case s.who.Home != "":
		return e.entries.Take(s.payer, int64(n.size())) == nil
	case n.relayed != nil && n.relayed.late && len(s.in) > 0:
		return false
	case n.relayed != nil:
		n.relayed.waits.Add(1)
	}
	return true
}

// drop takes back what keep has charged.
func (e *Engine) drop(s *subscriber, n *entry) {
	switch {
	case s.who.Home != "":
		e.entries.Give(s.payer, int64(n.size()))
	case n.relayed != nil:
		e.dropRelayed(n)
	}
}

// keepRelayed charges the host once for an entry, whoever waits for it.
func (e *Engine) keepRelayed(n *entry) {
	n.relayed.waits.Add(1)
	if n.relayed.late = e.entries.Take(n.relayed.payer, int64(n.size())) != nil; n.relayed.late {
		e.entries.Add(n.relayed.payer, int64(n.size()))
	}
}

func (e *Engine) dropRelayed(n *entry) {
	if n.relayed.waits.Add(-1) == 0 {
		e.entries.Give(n.relayed.payer, int64(n.size()))
	}
}

// size is how many bytes of memory an entry has, about.
func (n *entry) size() int {
	switch {
	case n.message != nil:
		return n.message.size()
	case n.event != nil:
		return len(n.event.Payload) + messageBytes
	}
	size := len(n.relayed.Data) + messageBytes
	for _, names := range [][]string{n.relayed.For, n.relayed.Own} {
		for _, name := range names {
			size += len(name) + recipientBytes
		}
	}
	return size
}

// end lets the stream end: its reader may resume. The world is locked.
func (s *subscriber) end() {
	if !s.ended {
		s.ended = true
		close(s.in)
	}
}

// subscribe takes s in. The stream that a daemon has goes to make room for its next
// one: whoever asks again has lost the first.
func (e *Engine) subscribe(s *subscriber) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	count := &e.streams
	if s.who.Home != "" {
		count = &e.guestStreams
	}
	if *count >= maxStreams {
		return tooMany("event streams", maxStreams, "end some")
	}
	if s.home {
		before := e.ofHomes[s.who.Home]
		if len(before) >= maxHomeStreams {
			return tooMany("streams of your daemon", maxHomeStreams, "one is enough; come again when the others have ended")
		}
		for old := range before {
			old.end()
			old.out.HangUp()
		}
	}
	*count++
	switch {
	case s.home:
		join(e.ofHomes, s.who.Home, s)
	case s.agent:
		join(e.ofAgents, agentKey{s.who.Home, s.who.Agent}, s)
	default:
		join(e.about, s.topic(), s)
	}
	return nil
}

// unsubscribe takes out s, whose stream has ended, and lets go of what waits for it.
func (e *Engine) unsubscribe(s *subscriber) {
	e.mu.Lock()
	defer e.mu.Unlock()
	s.end()
	for n := range s.in {
		e.drop(s, n)
	}
	if s.who.Home == "" {
		e.streams--
	} else {
		e.guestStreams--
	}
	switch {
	case s.home:
		leave(e.ofHomes, s.who.Home, s)
	case s.agent:
		leave(e.ofAgents, agentKey{s.who.Home, s.who.Agent}, s)
	default:
		leave(e.about, s.topic(), s)
	}
}

// topic is the id of the channel or intent that the stream is about.
func (s *subscriber) topic() string { return cmp.Or(s.channel, s.intent) }

func join[K comparable](all map[K]subscribers, about K, s *subscriber) {
	if all[about] == nil {
		all[about] = make(subscribers)
	}
	all[about][s] = true
}

func leave[K comparable](all map[K]subscribers, about K, s *subscriber) {
	if delete(all[about], s); len(all[about]) == 0 {
		delete(all, about)
	}
}

// agentEvents are what the stream of an agent tells of its intents.
var agentEvents = []string{"agent_assigned", "status_changed", "state_patched"}

// concerns decides whether the stream shows the entry now. The world is read-locked.
func (e *Engine) concerns(s *subscriber, n *entry, at chain.Time) bool {
	if n.relayed != nil {
		return n.relayed.concernsHere(s)
	}
	if m := n.message; m != nil {
		return !s.quiet && !m.expired(at) && m.kept(at) && m.sender != s.who.name &&
			(s.intent == "" || s.intent == n.in.id) && (s.channel == "" || s.channel == m.ch.id) &&
			e.channels[m.ch.id] == m.ch && e.fits(m.ch, s.who, at) &&
			(s.who.Operator && !s.agent || m.receives(s.who.name))
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
	if n.event.Type == "agent_assigned" {
		var whom Home
		if json.Unmarshal(n.event.Payload, &whom) != nil || whom != (Home{s.who.Agent, s.who.Home}) {
			return false
		}
	}
	return n.in.assignment(agentKey{s.who.Home, s.who.Agent}) >= 0
}

// frame appends the entry as the stream tells it, if it concerns it.
func (e *Engine) frame(b []byte, s *subscriber, n *entry, at chain.Time) []byte {
	var name string
	var data []byte
	switch {
	case s.home:
		r, ok := e.relay(s, n, at)
		if !ok {
			return b
		}
		if name, data = "relay", []byte(text(r)); len(data) > maxRelayed-relayHead {
			r.Data = n.brief()
			data = []byte(text(r))
		}
	case !e.concerns(s, n, at):
		return b
	case n.relayed != nil:
		name, data = n.relayed.Event, n.relayed.Data
	case n.message != nil:
		name, data = kindMessage, n.message.append(nil, s.who.name, at, true)
	default:
		name, data = n.event.Type, appendEvent(nil, n.event)
	}
	return s.out.Append(b, name, data, n.seq)
}

// appendEvent appends to b what streams say of an event: the members of its payload beside
// those of the event if the server wrote it.
func appendEvent(b []byte, ev *chain.Event) []byte {
	b = chain.AppendString(append(b, `{"intent_id":`...), ev.IntentID)
	b = chain.AppendString(append(b, `,"event_id":`...), ev.ID)
	b = chain.AppendString(append(b, `,"event_type":`...), ev.Type)
	b = chain.AppendString(append(b, `,"actor":`...), ev.Actor)
	b = ev.CreatedAt.AppendJSON(append(b, `,"created_at":`...))
	switch {
	case !slices.Contains(ownKinds, ev.Type):
		b = append(append(b, `,"payload":`...), ev.Payload...)
	case len(ev.Payload) > len("{}"):
		b = append(append(b, ','), ev.Payload[1:len(ev.Payload)-1]...)
	}
	return append(b, '}')
}

// brief is what the streams of another daemon tell of an entry that is too long for
// them: all but its payload.
func (n *entry) brief() jsontext.Value {
	if m := n.message; m != nil {
		return Members("id", m.id, "channel_id", m.ch.id, "sender", ownID(m.sender, m.to), "to", null(ownID(m.to, m.to)), "message_type", m.kind, "correlation_id", null(m.correlation),
			"payload", nil, "metadata", nil, "created_at", m.at, "expires_at", m.expires, "intent_id", m.ch.in.id, "channel_name", m.ch.doc.Name, "truncated", true)
	}
	ev := *n.event
	return Members("intent_id", ev.IntentID, "event_id", ev.ID, "event_type", ev.Type, "actor", ev.Actor, "created_at", ev.CreatedAt, "truncated", true)
}

// null is a string that is null in JSON if it is empty.
type null string

func (s null) MarshalJSON() ([]byte, error) { return chain.AppendStringOrNull(nil, string(s)), nil }
