package jsonrpc

import "github.com/acpd/acpd/wire"

// question is the params of the calls of these tests.
type question struct {
	To      string       `json:"to"`
	Payload wire.Payload `json:"payload"`
}

func (q question) WriteMembers(m *ObjectWriter) {
	m.WriteString("to", q.To)
	m.WritePayload(q.Payload)
}

func (q *question) ReadMember(name []byte, v Value) error {
	switch string(name) {
	case "to":
		return v.ReadString(&q.To)
	case "payload":
		return v.ReadPayload(&q.Payload)
	}
	return ErrUnknownMember
}

// reply is the result of such a call.
type reply struct {
	ID      wire.MessageID `json:"id"`
	Kind    string         `json:"kind"`
	Payload wire.Payload   `json:"payload"`
}

func (r reply) WriteMembers(m *ObjectWriter) {
	m.WriteMessageID("id", r.ID)
	m.WriteString("kind", r.Kind)
	m.WritePayload(r.Payload)
}

func (r *reply) ReadMember(name []byte, v Value) error {
	switch string(name) {
	case "id":
		return v.ReadText(&r.ID)
	case "kind":
		return v.ReadString(&r.Kind)
	case "payload":
		return v.ReadPayload(&r.Payload)
	}
	return ErrUnknownMember
}
