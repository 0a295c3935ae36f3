package traffic

import (
	"bytes"
	"cmp"
	"strings"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/peer"
	"github.com/acpd/acpd/wire"
)

const (
	maxWhole  = 64 << 10 // bytes of a payload that is kept whole
	maxHead   = 1 << 10  // bytes that are kept of a longer one, for its text; and of any other text
	entryCost = 640      // bytes of an entry without its texts and payloads, with the place in its ring
)

// entry is what is kept of a message that has passed. It never changes, and shares no memory with the message.
type entry struct {
	client.TrafficEntry // without Name, Text, Answer and payloads

	payload, answer           []byte // whole, or their beginnings; answer is the text of an error, if there is one
	answerKind                string // "": the answer is plain text
	isPayloadAll, isAnswerAll bool   // payload is kept whole; so is answer, and it is a payload
	isPing                    bool   // it is a ping or a discover, which programs send by themselves and which says nothing
}

// newEntry returns the entry of a message without its number.
func newEntry(m *peer.Passing) *entry {
	e := &entry{TrafficEntry: describeCall(m)}
	e.Hops, e.Outcome = 0, nameOutcome(m)
	e.isPing = !kinds.Has(e.Kind, kinds.Offered) // it asks the daemon itself
	e.payload, e.isPayloadAll = copyPayload(m.Payload)
	if m.Err != nil {
		err := kinds.AsError(m.Err)
		e.Outcome, e.answer = string(err.Code), []byte(clipText(err.Message))
	} else if m.Reply != nil {
		e.answerKind = m.Reply.Kind
		e.answer, e.isAnswerAll = copyPayload(m.Reply.Payload)
	}
	for _, text := range e.texts() {
		*text = strings.Clone(clipText(*text))
	}
	return e
}

// texts returns the texts of an entry that are not ours.
func (e *entry) texts() [6]*string {
	return [...]*string{&e.Agent, &e.FromAgent, &e.Thread, &e.Topic, &e.Outcome, &e.answerKind}
}

// cost returns about how many bytes of memory an entry takes, not fewer.
func (e *entry) cost() int {
	cost := entryCost + len(e.payload) + len(e.answer)
	for _, text := range e.texts() {
		cost += len(*text)
	}
	return cost
}

// nameOutcome returns the outcome of a message that has no error. A partial result that is held is in no inbox:
// the delegation has it.
func nameOutcome(m *peer.Passing) string {
	if m.Outcome == peer.Held && kinds.IsPartial(m.Kind, m.Payload) {
		return client.TrafficOK
	}
	return cmp.Or(string(m.Outcome), client.TrafficOK)
}

func measureTook(began time.Time) uint64 { return uint64(max(time.Since(began), 0).Microseconds()) }

func clipText(s string) string { return s[:min(len(s), maxHead)] }

func copyPayload(p wire.Payload) (kept []byte, whole bool) {
	if len(p) <= maxWhole {
		return bytes.Clone(p), true
	}
	return bytes.Clone(p[:maxHead]), false
}

// MeasureEntry returns about how many bytes of JSON an entry takes, not fewer.
func MeasureEntry(t *client.TrafficEntry) int {
	return 896 + 2*(len(t.Text)+len(t.Answer)) + wire.MaxJSONLength(t.Agent+t.FromAgent+t.Thread+t.Topic) + len(t.Payload) + len(t.AnswerPayload)
}

// describe returns the entry as readers get it, who do not change it.
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
	if payloads && e.isPayloadAll && len(e.payload) > 0 {
		t.Payload = e.payload
	}
	if payloads && e.isAnswerAll && len(e.answer) > 0 {
		t.AnswerPayload = e.answer
	}
	return t
}
