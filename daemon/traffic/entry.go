package traffic

import (
	"cmp"
	"encoding/binary"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/peer"
	"github.com/acpd/acpd/wire"
)

const (
	maxWhole = 64 << 10 // bytes of a payload that is kept whole
	maxHead  = 1 << 10  // bytes that are kept of a longer one, or while nobody wants payloads, for its text; and of any other text
)

// The texts of an entry that are not payloads.
const (
	kindText = iota
	agentText
	fromAgentText
	threadText
	topicText
	outcomeText
	answerKindText // "": the answer is plain text
	manyTexts
)

// An entry begins with its number, peer, time, duration, size of the payload, id, ref, parent, trace id, flags,
// and how long each text, what is kept of the payload and of the answer are. Then these follow.
const (
	peerAt    = 8
	flagsAt   = peerAt + 32 + 8 + 8 + 8 + 4*16
	headBytes = flagsAt + 1 + 2*manyTexts + 4 + 4
)

const (
	flagOut       = 1 << iota // the message went out
	flagWhole                 // the payload is kept whole
	flagAllAnswer             // the answer is, and is a payload
	flagGuessed               // the parent is a guess
	flagPing                  // it is a ping or a discover, which programs send by themselves and which says nothing
)

// draft is what an entry is to say. Its texts are the message's.
type draft struct {
	texts      [manyTexts]string
	payload    []byte // whole, or its head
	answer     []byte // likewise of the reply
	errText    string // the answer, if there is an error
	flags      byte
	peer       identity.ID
	id, ref    wire.MessageID
	parent     wire.MessageID
	trace      wire.TraceID
	began      int64 // Unix nanoseconds
	tookUS     uint64
	size       int // of the payload, in bytes
	entryBytes int // of the whole entry
}

// draftEntry returns what the entry of a message says, with payloads up to a size, and the beginnings of
// longer ones.
func draftEntry(m *peer.Passing, most int) (d draft) {
	env := m.Envelope
	d.texts = [manyTexts]string{
		kindText: env.Kind, agentText: env.Agent, fromAgentText: env.FromAgent, threadText: env.Thread, topicText: m.Topic, outcomeText: nameOutcome(m),
	}
	if agent := m.ChosenAgent(); agent != "" {
		d.texts[agentText] = agent
	}
	d.peer, d.id, d.size = m.Peer(), env.ID, len(env.Payload)
	if !m.Inbound {
		d.flags = flagOut
	}
	if !kinds.Has(env.Kind, kinds.Offered) { // it asks the daemon itself
		d.flags |= flagPing
	}
	if env.Ref != nil {
		d.ref = *env.Ref
	}
	d.parent, d.trace = m.Parent, env.Chain().TraceID()
	if m.Guessed {
		d.flags |= flagGuessed
	}
	d.began, d.tookUS = m.Began.UnixNano(), measureTook(m.Began)
	payload, whole := cutPayload(m.Payload, most)
	if d.payload = payload; whole {
		d.flags |= flagWhole
	}
	if m.Err != nil {
		err := kinds.AsError(m.Err)
		d.texts[outcomeText], d.errText = string(err.Code), clipText(err.Message)
	} else if m.Reply != nil {
		if d.answer, whole = cutPayload(m.Reply.Payload, most); whole {
			d.flags |= flagAllAnswer
		}
		d.texts[answerKindText] = m.Reply.Kind
	}
	d.entryBytes = headBytes + len(d.payload) + len(d.answer) + len(d.errText)
	for i := range d.texts {
		d.texts[i] = clipText(d.texts[i])
		d.entryBytes += len(d.texts[i])
	}
	return d
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

func cutPayload(p wire.Payload, most int) (kept []byte, whole bool) {
	if len(p) <= most {
		return p, true
	}
	return p[:min(len(p), maxHead)], false
}

// writeTo writes the entry with a number.
func (d *draft) writeTo(w *writer, number uint64) {
	var head [headBytes]byte
	b := binary.LittleEndian.AppendUint64(head[:0], number)
	b = append(b, d.peer[:]...)
	b = binary.LittleEndian.AppendUint64(b, uint64(d.began))
	b = binary.LittleEndian.AppendUint64(b, d.tookUS)
	b = binary.LittleEndian.AppendUint64(b, uint64(d.size))
	for _, id := range [...][16]byte{d.id, d.ref, d.parent, d.trace} {
		b = append(b, id[:]...)
	}
	b = append(b, d.flags)
	for i := range d.texts {
		b = binary.LittleEndian.AppendUint16(b, uint16(len(d.texts[i])))
	}
	b = binary.LittleEndian.AppendUint32(b, uint32(len(d.payload)))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(d.answer)+len(d.errText)))
	write(w, b)
	for i := range d.texts {
		write(w, d.texts[i])
	}
	write(w, d.payload)
	write(w, d.answer)
	write(w, d.errText)
}

// readPeer returns the peer of an entry.
func readPeer(data []byte) identity.ID { return identity.ID(data[peerAt : peerAt+32]) }

// readFlags returns the flags of an entry.
func readFlags(data []byte) byte { return data[flagsAt] }

// entry is one that was read. Payload and answer lie in the memory of the data.
type entry struct {
	client.TrafficEntry // without Name, Text, Answer and payloads

	payload, answer []byte
	answerKind      string
	flags           byte
}

// readEntry reads what draft.writeTo has written.
func readEntry(data []byte) (e entry) {
	number := func() (n uint64) {
		n, data = binary.LittleEndian.Uint64(data), data[8:]
		return n
	}
	next := func(n int) (b []byte) {
		b, data = data[:n], data[n:]
		return b
	}
	e.Seq = number()
	e.Peer = identity.ID(next(32))
	e.At = time.Unix(0, int64(number())).UTC()
	e.TookUS = number()
	e.Bytes = int(number())
	e.ID, e.Ref, e.Parent = wire.MessageID(next(16)), wire.MessageID(next(16)), wire.MessageID(next(16))
	e.Chain = wire.TraceID(next(16)).String()
	e.flags = next(1)[0]
	e.Guessed = e.flags&flagGuessed != 0
	e.Direction = client.In
	if e.flags&flagOut != 0 {
		e.Direction = client.Out
	}
	var lengths [manyTexts]int
	sum := 0
	for i := range lengths {
		lengths[i] = int(binary.LittleEndian.Uint16(next(2)))
		sum += lengths[i]
	}
	payload, answer := binary.LittleEndian.Uint32(next(4)), binary.LittleEndian.Uint32(next(4))
	all := string(next(sum))
	for i, to := range [manyTexts]*string{&e.Kind, &e.Agent, &e.FromAgent, &e.Thread, &e.Topic, &e.Outcome, &e.answerKind} {
		*to, all = all[:lengths[i]], all[lengths[i]:]
	}
	e.payload, e.answer = next(int(payload)), next(int(answer))
	return e
}

// MeasureEntry returns about how many bytes of JSON an entry takes, not fewer.
func MeasureEntry(t *client.TrafficEntry) int {
	return 896 + 2*(len(t.Text)+len(t.Answer)) + wire.MaxJSONLength(t.Agent+t.FromAgent+t.Thread+t.Topic) + len(t.Payload) + len(t.AnswerPayload)
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
	if payloads && e.flags&flagWhole != 0 && len(e.payload) > 0 {
		t.Payload = append(wire.Payload(nil), e.payload...)
	}
	if payloads && e.flags&flagAllAnswer != 0 && len(e.answer) > 0 {
		t.AnswerPayload = append(wire.Payload(nil), e.answer...)
	}
	return t
}
