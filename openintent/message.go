package openintent

import (
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
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
	at          stamp
	expires     stamp    // expires_at as it was given
	lead        bool     // the first response to its request
	recipients  []string // who held the role that it was sent to
	head        []byte   // the object up to where its status begins
	*state
}

// state is what becomes of a message. Who keeps a message without its head
// shares it.
type state struct {
	deadline stamp // when it expires; a request always has one
	answered bool  // a request with a response never expires
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
	at    stamp
}

// expired reports whether the message is not delivered any more.
func (m *message) expired(at stamp) bool {
	if m.deadline == 0 || m.deadline > at {
		return false
	}
	if m.kind == kindRequest {
		return !m.answered
	}
	return !m.direct() || len(m.reads) == 0 || m.reads[0].at > m.deadline
}

// direct reports whether the message is for one agent.
func (m *message) direct() bool {
	return m.to != "" && m.to != toAll && !strings.HasPrefix(m.to, toRole)
}

// pinTime is how long the first response to a request outlives its eviction, so
// that who asks by polling finds it.
const pinTime = time.Minute

// kept reports whether the message is still there for lists.
func (m *message) kept(at stamp) bool {
	return m.number > m.ch.floor() || m.lead && m.at.add(pinTime) > at
}

// receives reports whether the agent, which may take part in the channel, is
// one of those that the message is for.
func (e *Engine) receives(m *message, agent string, at stamp) bool {
	if role, ok := strings.CutPrefix(m.to, toRole); ok {
		return agent != m.sender && (slices.Contains(m.recipients, agent) || e.roleOf(m.ch.in, agent, at) == role)
	}
	if m.direct() {
		return m.to == agent
	}
	return agent != m.sender
}

// sees reports whether who, who may read the channel, may see the message.
func (e *Engine) sees(m *message, who Caller, at stamp) bool {
	return who.Operator || m.sender == who.Agent || e.receives(m, who.Agent, at)
}

// shown returns the status and read_at that viewer sees: for a message to one
// agent its state, for one to several the viewer's own.
func (m *message) shown(viewer string, at stamp) (string, stamp) {
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

// append appends the message as viewer sees it; pushed adds what streams say
// about its channel.
func (m *message) append(b []byte, viewer string, at stamp, pushed bool) []byte {
	status, read := m.shown(viewer, at)
	b = append(b, m.head...)
	b = append(append(append(b, `,"status":"`...), status...), `","read_at":`...)
	b = read.append(b)
	if len(m.reads) > 0 {
		b = append(b, `,"read_by":{`...)
		for i, r := range m.reads {
			if i > 0 {
				b = append(b, ',')
			}
			b = quote(b, r.agent)
			b = r.at.append(append(b, ':'))
		}
		b = append(b, '}')
	}
	if pushed {
		b = quote(append(b, `,"intent_id":`...), m.ch.in.id)
		b = quote(append(b, `,"channel_name":`...), m.ch.doc.Name)
	}
	return append(b, '}')
}

// encode makes the message's head.
func (m *message) encode(payload, metadata jsontext.Value) {
	b := make([]byte, 0, 320+len(payload)+len(metadata))
	b = quote(append(b, `{"id":`...), m.id)
	b = quote(append(b, `,"channel_id":`...), m.ch.id)
	b = quote(append(b, `,"sender":`...), m.sender)
	b = quoteOrNull(append(b, `,"to":`...), m.to)
	b = quote(append(b, `,"message_type":`...), m.kind)
	b = quoteOrNull(append(b, `,"correlation_id":`...), m.correlation)
	b = append(append(b, `,"payload":`...), payload...)
	b = append(append(b, `,"metadata":`...), metadata...)
	b = m.at.append(append(b, `,"created_at":`...))
	m.head = m.expires.append(append(b, `,"expires_at":`...))
}

// quote appends s, valid UTF-8, as JSON.
func quote(b []byte, s string) []byte {
	b, _ = jsontext.AppendQuote(b, s)
	return b
}

func quoteOrNull(b []byte, s string) []byte {
	if s == "" {
		return append(b, "null"...)
	}
	return quote(b, s)
}

// fits reports whether the agent takes part in the channel at all: has access
// to the intent and, where there are members, is one.
func (e *Engine) fits(ch *channel, who Caller, at stamp) bool {
	if who.Operator {
		return true
	}
	if home, bound := ch.in.Homes[who.Agent]; (bound || who.Home != "") && home != who.Home {
		return false
	}
	return ch.member(who.Agent) && e.agentLevel(ch.in, who.Agent, at) >= levelRead
}
