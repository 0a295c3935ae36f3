package jsonrpc

import "github.com/acpd/acpd/wire"

// question is the params of the calls of these tests.
type question struct {
	To      string       `json:"to"`
	Payload wire.Payload `json:"payload"`
}

func (q *question) PayloadField() *wire.Payload { return &q.Payload }

// reply is the result of such a call.
type reply struct {
	ID      wire.MessageID `json:"id"`
	Kind    string         `json:"kind"`
	Payload wire.Payload   `json:"payload"`
}

func (r *reply) PayloadField() *wire.Payload { return &r.Payload }
