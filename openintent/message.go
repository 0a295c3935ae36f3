package openintent

import (
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/openintent/chain"
)

const (
	kindRequest   = "request"
	kindResponse  = "response"
	kindNotify    = "notify"
	kindBroadcast = "broadcast"

	statusDelivered = "delivered"
	statusRead      = "read"
	statusExpired   = "expired"
)

var (
	messageKinds    = []string{kindRequest, kindResponse, kindNotify, kindBroadcast}
	messageStatuses = []string{statusDelivered, statusRead, statusExpired}
)

// message is a message of a channel. Status is not among its fields: it follows
// from the others, the time, and who asks.
type message struct {
	ch          *channel
	seq         int64 // in the feed
	number      int64 // in the channel, from 1
	id          string
	given       bool // the sender's home has chosen the id, which does not carry the number
	kind        string
	sender, to  string // to: "" is null
	correlation string
	at          chain.Time
	expires     chain.Time // expires_at as it was given
	lead        bool       // the first response to its request
	recipients  []string   // who held the role that it was sent to
	head        []byte     // the object up to where its status begins
	*state
}

// state is what becomes of a message. Who keeps a message without its head
// shares it.
type state struct {
	deadline chain.Time // when it expires; a request always has one
	answered bool       // a request with a response never expires
	reads    []receipt
}

// light returns m without its text and its recipients, which may be a thousand,
// for where it is kept for long.
func (m *message) light() *message {
	l := *m
	l.head, l.recipients = nil, nil
	return &l
}

// receipt says who has read a message when.
type receipt struct {
	agent string
	at    chain.Time
}

// expired reports whether the message is not delivered any more. A request that nobody
// has answered expires with its channel.
func (m *message) expired(at chain.Time) bool {
	late := m.deadline != 0 && m.deadline <= at
	if m.kind == kindRequest {
		return !m.answered && (late || !m.ch.isOpen(at))
	}
	if !late {
		return false
	}
	return !m.direct() || len(m.reads) == 0 || m.reads[0].at > m.deadline
}

// direct reports whether the message is for one agent.
func (m *message) direct() bool {
	return m.to != "" && m.to != toAll && !m.toRole()
}

// toRole reports whether the message is for who holds a role.
func (m *message) toRole() bool { return strings.HasPrefix(m.to, toRole) }

// pinTime is how long the first response to a request outlives its eviction, so
// that who asks by polling finds it.
const pinTime = time.Minute

// kept reports whether the message is still there for lists.
func (m *message) kept(at chain.Time) bool {
	return m.number > m.ch.floor() || m.lead && m.at.Add(pinTime) > at
}

// receives reports whether the agent of that name, which may take part in the
// channel, is one of those that the message is for. Who they are was decided when it
// was sent.
func (m *message) receives(name string) bool {
	switch {
	case m.direct():
		return m.to == name
	case m.toRole():
		return slices.Contains(m.recipients, name)
	}
	return name != m.sender
}

// sees reports whether who, who may read the channel, may see the message.
func (m *message) sees(who Caller) bool {
	return who.Operator || m.sender == who.name || m.receives(who.name)
}

// shown returns the status and read_at that viewer sees: for a message to one
// agent its state, for one to several the viewer's own.
func (m *message) shown(viewer string, at chain.Time) (string, chain.Time) {
	if m.expired(at) {
		return statusExpired, 0
	}
	for _, r := range m.reads {
		if r.agent == viewer || m.direct() {
			return statusRead, r.at
		}
	}
	return statusDelivered, 0
}

// append appends the message as the agent with the name viewer sees it, which is its
// own name without its home; pushed adds what streams say about its channel.
func (m *message) append(b []byte, viewer string, at chain.Time, pushed bool) []byte {
	first, rest := m.seenBy(viewer)
	return m.tail(append(append(b, first...), rest...), viewer, at, pushed)
}

// seenBy returns the head as viewer sees it: what was made for it, and what is the
// message's own.
func (m *message) seenBy(viewer string) (first, rest []byte) {
	if _, _, far := cutHome(viewer); far {
		return m.begin(nil, viewer), m.head[len(m.begin(nil, "")):]
	}
	return nil, m.head
}

// parts appends what append does in parts, the longest of which is the message's own.
func (m *message) parts(p JSON, first bool, viewer string, at chain.Time) JSON {
	begin, rest := m.seenBy(viewer)
	return p.Add(first, begin, rest, m.tail(nil, viewer, at, false))
}

// tail appends what depends on the time and on who sees the message.
func (m *message) tail(b []byte, viewer string, at chain.Time, pushed bool) []byte {
	status, read := m.shown(viewer, at)
	b = append(append(append(b, `,"status":"`...), status...), `","read_at":`...)
	b = read.AppendJSON(b)
	if len(m.reads) > 0 {
		b = append(b, `,"read_by":{`...)
		for i, r := range m.reads {
			if i > 0 {
				b = append(b, ',')
			}
			b = chain.AppendString(b, ownID(r.agent, viewer))
			b = r.at.AppendJSON(append(b, ':'))
		}
		b = append(b, '}')
	}
	if pushed {
		b = chain.AppendString(append(b, `,"intent_id":`...), m.ch.in.id)
		b = chain.AppendString(append(b, `,"channel_name":`...), m.ch.doc.Name)
	}
	return append(b, '}')
}

// encode makes the message's head.
func (m *message) encode(payload, metadata jsontext.Value) {
	b := m.begin(make([]byte, 0, 320+len(payload)+len(metadata)), "")
	b = chain.AppendString(append(b, `,"message_type":`...), m.kind)
	b = chain.AppendStringOrNull(append(b, `,"correlation_id":`...), m.correlation)
	b = append(append(b, `,"payload":`...), payload...)
	b = append(append(b, `,"metadata":`...), metadata...)
	b = m.at.AppendJSON(append(b, `,"created_at":`...))
	m.head = m.expires.AppendJSON(append(b, `,"expires_at":`...))
}

// begin appends the part of the head that depends on who sees it.
func (m *message) begin(b []byte, viewer string) []byte {
	b = chain.AppendString(append(b, `{"id":`...), m.id)
	b = chain.AppendString(append(b, `,"channel_id":`...), m.ch.id)
	b = chain.AppendString(append(b, `,"sender":`...), ownID(m.sender, viewer))
	return chain.AppendStringOrNull(append(b, `,"to":`...), ownID(m.to, viewer))
}

// fits reports whether the agent takes part in the channel at all: has access
// to the intent and, where there are members, is one.
func (e *Engine) fits(ch *channel, who Caller, at chain.Time) bool {
	if who.Operator {
		return true
	}
	return ch.member(who.name) && e.level(ch.in, who, at) >= levelRead
}
