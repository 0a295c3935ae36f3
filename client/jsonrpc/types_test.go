package jsonrpc

import (
	"context"
	"net"
	"path/filepath"
	"testing"

	"github.com/acpd/acpd/wire"
)

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

// echo answers with the payload of a question.
func echo(_ context.Context, _ *Conn, r *Request) {
	var q question
	if err := r.ReadParams(&q); err != nil {
		r.RespondError(err)
		return
	}
	r.Respond(&reply{ID: wire.NewMessageID(), Kind: "response", Payload: q.Payload})
}

// unixPair returns the two ends of a real unix socket.
func unixPair(t testing.TB) (a, b net.Conn) {
	t.Helper()
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if a, err = net.Dial("unix", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if b, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}

// run runs connections until the test ends.
func run(t testing.TB, conns ...*Conn) {
	for _, c := range conns {
		done := make(chan struct{})
		go func() {
			defer close(done)
			c.Run(context.Background())
		}()
		t.Cleanup(func() { c.Close(); <-done })
	}
}
