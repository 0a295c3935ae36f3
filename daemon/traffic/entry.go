package traffic

import (
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

const (
	maxWhole  = 64 << 10 // bytes of a payload that is kept whole
	maxHead   = 1 << 10  // bytes that are kept of a longer one, or while nobody wants payloads, for its text
	entryCost = 640      // bytes of an entry without texts and payloads, and of its place in the ring
)

// entry is what is kept of a message. It never changes once it is in the ring.
type entry struct {
	client.TrafficEntry // without Name, Text, Answer and payloads

	cost       int    // bytes of memory
	payload    []byte // whole, or its head
	answer     []byte // likewise of the reply; with an error its text
	answerKind string // "": answer is plain text
	whole      bool   // payload is
	allAnswer  bool   // answer is, and a payload
}

// newHead returns what an entry says of a message without its texts, outcome and payloads.
func newHead(m *Message) client.TrafficEntry {
	env := m.Request.Envelope
	e := client.TrafficEntry{
		At: m.Began.UTC(), Direction: m.Direction, Peer: env.From, Agent: env.Agent, FromAgent: env.FromAgent, Kind: m.Request.Spec.Name,
		ID: env.ID, Thread: env.Thread, Topic: m.Request.Topic, Bytes: len(env.Payload),
	}
	if m.Direction == client.Out {
		e.Peer = env.To
	}
	if m.Agent != "" {
		e.Agent = m.Agent
	}
	if env.Ref != nil {
		e.Ref = *env.Ref
	}
	e.TookUS = uint64(max(time.Since(m.Began), 0).Microseconds())
	return e
}

// newEntry returns the entry of a message, with copies of payloads up to a size, and of the beginnings
// of longer ones.
func newEntry(m *Message, most int) *entry {
	e := &entry{TrafficEntry: newHead(m)}
	payload, whole := cutPayload(m.Request.Payload, most)
	var answer []byte
	e.Outcome = m.Outcome
	if m.Err != nil {
		err := kinds.AsError(m.Err)
		e.Outcome = string(err.Code)
		answer = []byte(err.Message[:min(len(err.Message), maxHead)])
	} else if m.Reply != nil {
		answer, e.allAnswer = cutPayload(m.Reply.Payload, most)
		e.answerKind = m.Reply.Kind
	}
	kept := make([]byte, 0, len(payload)+len(answer))
	kept = append(append(kept, payload...), answer...)
	e.payload, e.answer, e.whole = kept[:len(payload):len(payload)], kept[len(payload):], whole
	e.cost = entryCost + len(kept) + len(e.Agent) + len(e.FromAgent) + len(e.Thread) + len(e.Topic)
	return e
}

func cutPayload(p wire.Payload, most int) (kept []byte, whole bool) {
	if len(p) <= most {
		return p, true
	}
	return p[:min(len(p), maxHead)], false
}

// MeasureEntry returns about how many bytes of JSON an entry takes, not fewer.
func MeasureEntry(t *client.TrafficEntry) int {
	return 768 + 2*(len(t.Text)+len(t.Answer)) + wire.MaxJSONLength(t.Agent+t.FromAgent+t.Thread+t.Topic) + len(t.Payload) + len(t.AnswerPayload)
}

// describe returns the entry as readers get it.
func (e *entry) describe(name string, payloads bool) client.TrafficEntry {
	t := e.TrafficEntry
	t.Name = name
	t.Text = beginText(t.Kind, e.payload)
	t.Answer = beginText(e.answerKind, e.answer)
	if e.answerKind == kinds.KindAck && t.Outcome == client.TrafficOK {
		if ack, err := kinds.ParsePayload[kinds.Ack](e.answer); err == nil && !ack.Accepted {
			t.Outcome = client.TrafficRefused
		}
	}
	if payloads && e.whole && len(e.payload) > 0 {
		t.Payload = e.payload
	}
	if payloads && e.allAnswer && len(e.answer) > 0 {
		t.AnswerPayload = e.answer
	}
	return t
}
