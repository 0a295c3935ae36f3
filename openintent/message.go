package openintent

import (
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/openintent/chain"
	"github.com/acpd/acpd/openintent/object"
)

// message is a message of a channel. It has no field for its status, which follows from
// these, the time, and the viewer.
type message struct {
	ch          *channelRecord
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
	recipients  []string   // agents that held the role that it was sent to
	head        []byte     // the object up to the member status
	*messageState
}

// messageState is the part of a message that changes. It is shared with copies of the message
// that have no text.
type messageState struct {
	deadline chain.Time // when it expires; a request always has one
	answered bool       // a request with a response never expires
	reads    []receipt
}

// withoutText returns m without its text and recipients, to be kept for long. There may be a
// thousand recipients.
func (m *message) withoutText() *message {
	l := *m
	l.head, l.recipients = nil, nil
	return &l
}

// receipt says which agent has read a message when.
type receipt struct {
	agent string
	at    chain.Time
}

// isExpired reports whether the message is not delivered any more. A request without an answer
// expires with its channel.
func (m *message) isExpired(at chain.Time) bool {
	late := m.deadline != 0 && m.deadline <= at
	if m.kind == object.KindRequest {
		return !m.answered && (late || !m.ch.isOpen(at))
	}
	if !late {
		return false
	}
	return !m.isDirect() || len(m.reads) == 0 || m.reads[0].at > m.deadline
}

// isDirect reports whether the message is for one agent.
func (m *message) isDirect() bool {
	return m.to != "" && m.to != object.ToAll && !m.isToRole()
}

// isToRole reports whether the message is for the agents that hold a role.
func (m *message) isToRole() bool { return strings.HasPrefix(m.to, object.ToRole) }

// pinTime is the time that the first response to a request stays after it was evicted, so that an
// agent that asks by polling finds it.
const pinTime = time.Minute

// isStillListed reports whether lists still have the message.
func (m *message) isStillListed(at chain.Time) bool {
	return m.number > m.ch.lastEvictedNumber() || m.lead && m.at.Add(pinTime) > at
}

// isAddressedTo reports whether the agent of that name, which may read the channel, is a
// recipient. The recipients were decided when the message was sent.
func (m *message) isAddressedTo(name string) bool {
	switch {
	case m.isDirect():
		return m.to == name
	case m.isToRole():
		return slices.Contains(m.recipients, name)
	}
	return name != m.sender
}

// isVisibleTo reports whether a caller that may read the channel may see the message.
func (m *message) isVisibleTo(who Caller) bool {
	return who.Operator || m.sender == who.name || m.isAddressedTo(who.name)
}

// statusForViewer returns the status and read_at that viewer sees: of a message to one agent its
// state, of a message to several the viewer's own.
func (m *message) statusForViewer(viewer string, at chain.Time) (string, chain.Time) {
	if m.isExpired(at) {
		return object.StatusExpired, 0
	}
	for _, r := range m.reads {
		if r.agent == viewer || m.isDirect() {
			return object.StatusRead, r.at
		}
	}
	return object.StatusDelivered, 0
}

// appendJSON appends the message as the agent with the name viewer sees it, its own name without
// its home. pushed adds the members about the channel that streams have.
func (m *message) appendJSON(b []byte, viewer string, at chain.Time, pushed bool) []byte {
	first, rest := m.headForViewer(viewer)
	return m.appendViewerTail(append(append(b, first...), rest...), viewer, at, pushed)
}

// headForViewer returns the head as viewer sees it, in two parts: one that was made for viewer,
// and one that shares the message's memory.
func (m *message) headForViewer(viewer string) (first, rest []byte) {
	if _, _, far := object.SplitAgentName(viewer); far {
		return m.appendHeadBegin(nil, viewer), m.head[len(m.appendHeadBegin(nil, "")):]
	}
	return nil, m.head
}

// appendJSONParts appends the message as appendJSON does, but in parts; the longest shares
// the message's memory.
func (m *message) appendJSONParts(p object.JSON, first bool, viewer string, at chain.Time) object.JSON {
	begin, rest := m.headForViewer(viewer)
	return p.AppendMember(first, begin, rest, m.appendViewerTail(nil, viewer, at, false))
}

// appendViewerTail appends the members that depend on the time and the viewer.
func (m *message) appendViewerTail(b []byte, viewer string, at chain.Time, pushed bool) []byte {
	status, read := m.statusForViewer(viewer, at)
	b = append(append(append(b, `,"status":"`...), status...), `","read_at":`...)
	b = read.AppendJSON(b)
	if len(m.reads) > 0 {
		b = append(b, `,"read_by":{`...)
		for i, r := range m.reads {
			if i > 0 {
				b = append(b, ',')
			}
			b = chain.AppendJSONString(b, object.ShortenOwnName(r.agent, viewer))
			b = r.at.AppendJSON(append(b, ':'))
		}
		b = append(b, '}')
	}
	if pushed {
		b = chain.AppendJSONString(append(b, `,"intent_id":`...), m.ch.in.id)
		b = chain.AppendJSONString(append(b, `,"channel_name":`...), m.ch.doc.Name)
	}
	return append(b, '}')
}

// encodeHead makes the message's head.
func (m *message) encodeHead(payload, metadata jsontext.Value) {
	b := m.appendHeadBegin(make([]byte, 0, 320+len(payload)+len(metadata)), "")
	b = chain.AppendJSONString(append(b, `,"message_type":`...), m.kind)
	b = chain.AppendJSONStringOrNull(append(b, `,"correlation_id":`...), m.correlation)
	b = append(append(b, `,"payload":`...), payload...)
	b = append(append(b, `,"metadata":`...), metadata...)
	b = m.at.AppendJSON(append(b, `,"created_at":`...))
	m.head = m.expires.AppendJSON(append(b, `,"expires_at":`...))
}

// appendHeadBegin appends the part of the head that depends on the viewer.
func (m *message) appendHeadBegin(b []byte, viewer string) []byte {
	b = chain.AppendJSONString(append(b, `{"id":`...), m.id)
	b = chain.AppendJSONString(append(b, `,"channel_id":`...), m.ch.id)
	b = chain.AppendJSONString(append(b, `,"sender":`...), object.ShortenOwnName(m.sender, viewer))
	return chain.AppendJSONStringOrNull(append(b, `,"to":`...), object.ShortenOwnName(m.to, viewer))
}

// recipientIDBytes returns how long the ids of the message's recipients are together.
func (m *message) recipientIDBytes() (n int) {
	for _, id := range m.recipients {
		n += len(id)
	}
	return n
}
