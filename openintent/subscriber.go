package openintent

import (
	"cmp"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/openintent/chain"
	"github.com/acpd/acpd/openintent/object"
)

// subscriber is an open event stream.
type subscriber struct {
	who     Caller
	intent  string // the intent that it is about, and
	channel string // the channel, "" for all
	agent   bool   // it is about the agent of who
	home    bool   // it is about the agents of the daemon of who
	in      chan *feedEntry
	payer   identity.ID // charged for entries that wait, if that is another daemon
	ended   bool        // in is closed; guarded by the engine's mu
	out     EventWriter

	// Only the goroutine that writes the stream uses these.
	at     object.Cursor
	behind map[string]bool // hosts whose entries it has missed, by their digits
	retry  bool            // these entries are to be fetched now
	failed time.Time       // when that has failed last
}

const (
	streamBacklog  = 256    // entries that may wait for a reader; then its stream ends, to be resumed
	maxStreams     = 10_000 // of the agents here, and as many of all others
	maxHomeStreams = 2      // of one daemon: the one that it has, and the one that this replaces
)

// waitingEntries counts the bytes of entries that wait for readers of event streams.
type waitingEntries struct{ *budget.Account }

// subscribers are the open streams about one thing.
type subscribers map[*subscriber]bool

// streams has the open streams by what they are about: an agent, or a thing with an id, or a
// home.
type streams map[agentKey]subscribers

// pushEntryToStreams hands an entry to the streams that may show it. It ends a stream whose
// reader does not keep up; the reader may resume.
func (e *Engine) pushEntryToStreams(n *feedEntry) {
	if e.streams == 0 && e.guestStreams == 0 {
		return
	}
	if r := n.relayed; r != nil {
		e.entries.chargeRelayed(n)
		defer e.entries.refundRelayed(n)
		if r.begins != 0 {
			for _, all := range []streams{e.about, e.ofAgents} {
				for _, subs := range all {
					e.entries.push(subs, n)
				}
			}
			return
		}
		e.entries.push(e.about[agentKey{id: r.IntentID}], n)
		e.entries.push(e.about[agentKey{id: r.ChannelID}], n)
		for _, agent := range r.Own {
			e.entries.push(e.ofAgents[agentKey{"", agent}], n)
		}
		return
	}
	e.entries.push(e.about[agentKey{id: n.in.id}], n)
	for _, subs := range e.ofHomes {
		e.entries.push(subs, n)
	}
	if m := n.message; m != nil {
		e.entries.push(e.about[agentKey{id: m.ch.id}], n)
		if m.isDirect() {
			e.entries.push(e.ofAgents[e.agentKeyOf(m.to)], n)
			return
		}
		at := now()
		for _, subs := range e.ofAgents {
			for s := range subs {
				if e.streamShowsEntry(s, n, at) {
					e.entries.push(subs, n)
				}
				break // all of them are the same agent's
			}
		}
		return
	}
	for _, a := range n.in.Assignments {
		e.entries.push(e.ofAgents[agentKey{a.Home, a.AgentID}], n)
	}
}

// push hands an entry to streams.
func (w waitingEntries) push(subs subscribers, n *feedEntry) {
	for s := range subs {
		if s.ended || n.relayed != nil && !s.follows(n.relayed.host) {
			continue
		}
		if !w.charge(s, n) {
			s.endStream()
			continue
		}
		select {
		case s.in <- n:
		default:
			w.refund(s, n)
			s.endStream()
		}
	}
}

// charge charges for an entry that is to wait for the reader of a stream: the daemon
// of the reader, or, for readers here, the host that has relayed the entry. It reports whether
// there is room. A relayed entry without room may wait only if it is the first.
func (w waitingEntries) charge(s *subscriber, n *feedEntry) bool {
	switch {
	case s.who.Home != "":
		return w.Reserve(s.payer, int64(n.size())) == nil
	case n.relayed != nil && n.relayed.late && len(s.in) > 0:
		return false
	case n.relayed != nil:
		n.relayed.waits.Add(1)
	}
	return true
}

// refund takes back the charge of charge.
func (w waitingEntries) refund(s *subscriber, n *feedEntry) {
	switch {
	case s.who.Home != "":
		w.Release(s.payer, int64(n.size()))
	case n.relayed != nil:
		w.refundRelayed(n)
	}
}

// chargeRelayed charges the host for a relayed entry once, however many readers it waits for.
func (w waitingEntries) chargeRelayed(n *feedEntry) {
	n.relayed.waits.Add(1)
	if n.relayed.late = w.Reserve(n.relayed.payer, int64(n.size())) != nil; n.relayed.late {
		w.AddUnchecked(n.relayed.payer, int64(n.size()))
	}
}

// refundRelayed takes back the charge of chargeRelayed when the entry waits for no reader.
func (w waitingEntries) refundRelayed(n *feedEntry) {
	if n.relayed.waits.Add(-1) == 0 {
		w.Release(n.relayed.payer, int64(n.size()))
	}
}

// size returns about how many bytes of memory an entry has.
func (n *feedEntry) size() int {
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

// endStream ends the stream; its reader may resume. The world is locked.
func (s *subscriber) endStream() {
	if !s.ended {
		s.ended = true
		close(s.in)
	}
}

// addSubscriber adds an open stream. A daemon's stream about its agents ends the one before: a
// daemon that asks again has lost that one.
func (e *Engine) addSubscriber(s *subscriber) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	all, about, count := e.streamGroupOf(s)
	if *count >= maxStreams {
		return object.NewTooManyError("event streams", maxStreams, "end some")
	}
	if s.home {
		before := all[about]
		if len(before) >= maxHomeStreams {
			return object.NewTooManyError("streams of your daemon", maxHomeStreams, "one is enough; come again when the others have ended")
		}
		for old := range before {
			old.endStream()
			old.out.HangUp()
		}
	}
	if all[about] == nil {
		all[about] = make(subscribers)
	}
	all[about][s] = true
	*count++
	return nil
}

// removeSubscriber removes a stream that has ended, and releases the entries that wait for it.
func (e *Engine) removeSubscriber(s *subscriber) {
	e.mu.Lock()
	defer e.mu.Unlock()
	s.endStream()
	for n := range s.in {
		e.entries.refund(s, n)
	}
	all, about, count := e.streamGroupOf(s)
	if delete(all[about], s); len(all[about]) == 0 {
		delete(all, about)
	}
	*count--
}

// streamGroupOf returns where s belongs among the open streams, and the number that counts it.
func (f *feed) streamGroupOf(s *subscriber) (all streams, about agentKey, count *int) {
	if count = &f.streams; s.who.Home != "" {
		count = &f.guestStreams
	}
	switch {
	case s.home:
		return f.ofHomes, agentKey{home: s.who.Home}, count
	case s.agent:
		return f.ofAgents, agentKey{s.who.Home, s.who.Agent}, count
	}
	return f.about, agentKey{id: cmp.Or(s.channel, s.intent)}, count
}

// agentEvents are the types of events that the stream of an agent shows of the agent's intents.
var agentEvents = []string{"agent_assigned", "status_changed", "state_patched"}

// streamShowsEntry reports whether the stream shows the entry now. The world is read-locked.
func (w *world) streamShowsEntry(s *subscriber, n *feedEntry, at chain.Time) bool {
	if n.relayed != nil {
		return n.relayed.concernsStream(s)
	}
	if m := n.message; m != nil {
		return !m.isExpired(at) && m.isStillListed(at) && m.sender != s.who.name &&
			(s.intent == "" || s.intent == n.in.id) && (s.channel == "" || s.channel == m.ch.id) &&
			w.channels[m.ch.id] == m.ch && w.mayReadChannel(m.ch, s.who, at) &&
			(s.who.Operator && !s.agent || m.isAddressedTo(s.who.name))
	}
	if s.channel != "" || n.event.Type == object.KindMessage {
		return false // an audited message is shown as a message
	}
	if !s.agent {
		return s.intent == n.in.id && w.callerAccessLevel(n.in, s.who, at) >= levelRead
	}
	if !slices.Contains(agentEvents, n.event.Type) {
		return false
	}
	if n.event.Type == "agent_assigned" {
		var whom object.Home
		if json.Unmarshal(n.event.Payload, &whom) != nil || whom != (object.Home{AgentID: s.who.Agent, Home: s.who.Home}) {
			return false
		}
	}
	return n.in.assignmentIndex(agentKey{s.who.Home, s.who.Agent}) >= 0
}

// appendEntryFrame appends the entry in the form of the stream, if the stream shows it.
func (w *world) appendEntryFrame(b []byte, s *subscriber, n *feedEntry, at chain.Time) []byte {
	var name string
	var data []byte
	switch {
	case s.home:
		r, ok := w.newRelayedEntry(s, n, at)
		if !ok {
			return b
		}
		if name, data = "relay", []byte(object.EncodeJSONText(r)); len(data) > maxRelayed-relayHead {
			r.Data = n.encodeWithoutPayload()
			data = []byte(object.EncodeJSONText(r))
		}
	case !w.streamShowsEntry(s, n, at):
		return b
	case n.relayed != nil:
		name, data = n.relayed.Event, n.relayed.Data
	case n.message != nil:
		name, data = object.KindMessage, n.message.appendJSON(nil, s.who.name, at, true)
	default:
		name, data = n.event.Type, appendEventData(nil, n.event)
	}
	if n.relayed == nil {
		s.at.Here = n.seq
	}
	return s.out.Append(b, name, data, s.at.String())
}

// appendEventData appends an event in the form of streams. If the server wrote the event, the
// members of its payload are among those of the event.
func appendEventData(b []byte, ev *chain.Event) []byte {
	b = chain.AppendJSONString(append(b, `{"intent_id":`...), ev.IntentID)
	b = chain.AppendJSONString(append(b, `,"event_id":`...), ev.ID)
	b = chain.AppendJSONString(append(b, `,"event_type":`...), ev.Type)
	b = chain.AppendJSONString(append(b, `,"actor":`...), ev.Actor)
	b = ev.CreatedAt.AppendJSON(append(b, `,"created_at":`...))
	switch {
	case !slices.Contains(object.OwnKinds, ev.Type):
		b = append(append(b, `,"payload":`...), ev.Payload...)
	case len(ev.Payload) > len("{}"):
		b = append(append(b, ','), ev.Payload[1:len(ev.Payload)-1]...)
	}
	return append(b, '}')
}

// encodeWithoutPayload returns the data of an entry that is too long for the stream of a daemon.
// It has all members but the payload.
func (n *feedEntry) encodeWithoutPayload() jsontext.Value {
	if m := n.message; m != nil {
		return object.EncodeJSONObject("id", m.id, "channel_id", m.ch.id, "sender", object.ShortenOwnName(m.sender, m.to), "to", object.Nullable(object.ShortenOwnName(m.to, m.to)), "message_type", m.kind, "correlation_id", object.Nullable(m.correlation),
			"payload", nil, "metadata", nil, "created_at", m.at, "expires_at", m.expires, "intent_id", m.ch.in.id, "channel_name", m.ch.doc.Name, "truncated", true)
	}
	ev := *n.event
	return object.EncodeJSONObject("intent_id", ev.IntentID, "event_id", ev.ID, "event_type", ev.Type, "actor", ev.Actor, "created_at", ev.CreatedAt, "truncated", true)
}
