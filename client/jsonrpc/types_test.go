package jsonrpc

import "github.com/acpd/acpd/wire"

// question is the params of the calls of these tests.
type question struct {
	To      string       `json:"to"`
	Payload wire.Payload `json:"payload"`
}

func (q question) WriteMembers(m *ObjectWriter) {
	m.String("to", q.To)
	m.Payload(q.Payload)
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
	m.MessageID("id", r.ID)
	m.String("kind", r.Kind)
	m.Payload(r.Payload)
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
