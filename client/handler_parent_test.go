package client

import (
	"context"
	"strings"
	"testing"

	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// What a handler sends with its context follows from the message that it got, unless it names a parent or a thread.
// A parent that nobody has named is left out when the daemon has forgotten it; not so by a peer's word.
func TestHandlersNameTheirMessage(t *testing.T) {
	heads := make(chan Head, 9)
	var refusal *kinds.Error
	s := newServer(t, func(_ context.Context, _ *jsonrpc.Conn, r *jsonrpc.Request) {
		switch r.Method {
		case MethodQuery, MethodDelegate, MethodNotify, MethodFileSend:
			var p struct{ Head }
			if err := r.ReadParamsIgnoringUnknown(&p); err != nil {
				t.Error(err)
			}
			heads <- p.Head
			if !p.Parent.IsZero() && refusal != nil {
				r.RespondError(refusal)
				return
			}
			switch r.Method {
			case MethodNotify:
				r.Respond(wire.Payload(`{"state":"held"}`))
				return
			case MethodFileSend:
				r.RespondError(kinds.Errorf(kinds.Invalid, "no file")) // else the connection would carry it
				return
			}
		}
		r.Respond(wire.Payload(`{}`))
	})
	c := &Client{Socket: s.path}
	defer c.Close()
	ctx, detach := context.WithCancel(t.Context())
	ended := make(chan error)
	handle := make(chan func(context.Context))
	go func() {
		ended <- c.Attach(ctx, AttachParams{Name: "reviewer"}, Handler{Notify: func(ctx context.Context, _ *Inbound) error {
			(<-handle)(ctx)
			return nil
		}})
	}()
	conn := await.Receive(t, "the agent", s.attached).conn
	in := inbound(kinds.KindNotify, `{"topic":"t"}`)
	within := func(send func(context.Context)) {
		t.Helper()
		done := make(chan struct{})
		go func() { handle <- func(ctx context.Context) { send(ctx); close(done) } }()
		if err := conn.Call(await.NewContext(t), MethodNotify, in, nil); err != nil {
			t.Fatal(err)
		}
		<-done
	}
	expect := func(what string, want ...wire.MessageID) {
		t.Helper()
		for _, id := range want {
			if got := await.Receive(t, what, heads).Parent; got != id {
				t.Errorf("%s follows from %s, want %s", what, got, id)
			}
		}
		if len(heads) > 0 {
			t.Errorf("%s: one more call", what)
		}
	}
	var none, named wire.MessageID = wire.MessageID{}, wire.NewMessageID()
	query := QueryParams{To: "desk", Payload: wire.Payload(`{"question":"?"}`)}
	within(func(ctx context.Context) {
		c.Query(ctx, query)
		c.Delegate(ctx, DelegateParams{To: "desk", Payload: wire.Payload(`{"task":"?"}`)})
		c.Notify(ctx, NotifyParams{To: To("desk"), Payload: in.Payload})
		c.Query(context.WithoutCancel(ctx), query)
		c.SendFile(ctx, FileSendParams{To: "desk", Name: "n"}, strings.NewReader(""), nil)
	})
	expect("a call of a handler", in.ID, in.ID, in.ID, in.ID, in.ID)
	c.Query(t.Context(), query)
	expect("a call of no handler", none)
	within(func(ctx context.Context) {
		q := query
		q.Parent = named
		c.Query(ctx, q)
		q.Parent, q.Thread = none, "t"
		c.Query(ctx, q)
	})
	expect("a call that says", named, none)

	refusal = kinds.Errorf(kinds.NotFound, "parent").WithReason(kinds.ReasonParentUnknown)
	within(func(ctx context.Context) { c.Query(ctx, query) })
	expect("a call whose parent is forgotten", in.ID, none)
	refusal.From = wire.NewMessageID().String()
	within(func(ctx context.Context) { c.Query(ctx, query) })
	expect("a call that a peer refuses", in.ID)
	detach()
	await.Receive(t, "the end", ended)
}
