package client

import (
	"context"
	"errors"
	"testing"

	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// report is what a worker has sent for a delegation.
type report struct {
	Head
	Method  string
	Ref     wire.MessageID `json:"ref"`
	Payload wire.Payload   `json:"payload"`
}

// startWorker attaches an agent that works, to a server that notes its reports and answers them with refuse, unless
// that is nil or returns nil.
func startWorker(t *testing.T, refuse func(report) error, work func(context.Context, *Work) (string, error)) (s *server, reports chan report, detach func() error) {
	t.Helper()
	reports = make(chan report, 16)
	s = newServer(t, func(_ context.Context, _ *jsonrpc.Conn, r *jsonrpc.Request) {
		sent := report{Method: r.Method}
		if err := r.ReadParamsIgnoringUnknown(&sent); err != nil {
			t.Error(err)
		}
		reports <- sent
		if refuse != nil {
			if err := refuse(sent); err != nil {
				r.RespondError(err)
				return
			}
		}
		r.Respond(wire.Payload(`{"state":"handed"}`))
	})
	c := &Client{Socket: s.path}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Attach(ctx, AttachParams{Name: "builder"}, Handler{Work: work}) }()
	t.Cleanup(func() { cancel(); c.Close() })
	return s, reports, func() error {
		cancel()
		return await.Receive(t, "the end of Attach", ended)
	}
}

// delegate delegates a task, and returns its id.
func delegate(t *testing.T, conn *jsonrpc.Conn, in *Inbound) wire.MessageID {
	t.Helper()
	var ack kinds.Ack
	if err := conn.Call(await.NewContext(t), MethodDelegate, in, &ack); err != nil || !ack.Accepted {
		t.Fatalf("%+v, %v", ack, err)
	}
	return in.ID
}

func task(text string) *Inbound { return inbound(kinds.KindDelegate, `{"task":"`+text+`"}`) }

// The work on a delegation goes on after its ack. Partial results and the outcome are the delegation's, and what the
// function sends follows from it.
func TestWork(t *testing.T) {
	var daemon *Client
	started := 0
	next := make(chan struct{})
	s, reports, detach := startWorker(t, nil, func(ctx context.Context, w *Work) (string, error) {
		started++
		daemon = w.client
		<-next
		if err := w.Progress(ctx, "half of it", 0.5); err != nil {
			t.Error(err)
		}
		daemon.Notify(ctx, NotifyParams{To: To("desk"), Payload: wire.Payload(`{"topic":"x"}`)})
		return w.Message.Name + " delegated " + w.Task, nil
	})
	conn := await.Receive(t, "the agent", s.attached).conn
	in := task("a review")
	id := delegate(t, conn, in)
	delegate(t, conn, in) // a repeat
	close(next)
	for _, want := range []report{
		{Method: MethodResult, Ref: id, Payload: wire.Payload(`{"status":"partial","outcome":"half of it","progress":0.5}`)},
		{Method: MethodNotify, Head: Head{Parent: id}, Payload: wire.Payload(`{"topic":"x"}`)},
		{Method: MethodResult, Ref: id, Payload: wire.Payload(`{"status":"completed","outcome":"desk delegated a review"}`)},
	} {
		got := await.Receive(t, want.Method, reports)
		if got.Method != want.Method || got.Ref != want.Ref || got.Parent != want.Parent || string(got.Payload) != string(want.Payload) {
			t.Errorf("sent %+v, want %+v", got, want)
		}
	}
	if err := detach(); !errors.Is(err, context.Canceled) || started != 1 || len(reports) > 0 {
		t.Errorf("Attach: %v; %d were started; %d reports more", err, started, len(reports))
	}
}

// A function that fails ends the delegation with an error: one with a code as it is, any other without its text.
func TestWorkFails(t *testing.T) {
	s, reports, _ := startWorker(t, nil, func(_ context.Context, w *Work) (string, error) {
		if w.Task == "coded" {
			return "", kinds.Errorf(kinds.UnknownDomain, "not here")
		}
		return "", errors.New("open /home/me/secret: no such file")
	})
	conn := await.Receive(t, "the agent", s.attached).conn
	for text, want := range map[string]string{
		"coded": `{"code":"unknown_domain","message":"not here","retryable":false}`,
		"plain": `{"code":"internal","message":"the agent failed","retryable":false}`,
	} {
		delegate(t, conn, task(text))
		if got := await.Receive(t, "the error", reports); got.Method != MethodError || string(got.Payload) != want {
			t.Errorf("%s: sent %s %s, want %s", text, got.Method, got.Payload, want)
		}
	}
}

// A delegation that is cancelled ends its work, and nothing is reported; nor is it if the delegator wants no report.
func TestWorkIsCancelled(t *testing.T) {
	ended := make(chan error, 2)
	s, reports, detach := startWorker(t, nil, func(ctx context.Context, w *Work) (string, error) {
		if w.Task == "short" {
			ended <- nil
			return "done", nil
		}
		<-ctx.Done()
		ended <- ctx.Err()
		return "", ctx.Err()
	})
	conn := await.Receive(t, "the agent", s.attached).conn
	long := task("long")
	id := delegate(t, conn, long)
	long.From = identity.ID{1} // another peer that has chosen the same id
	delegate(t, conn, long)
	cancel := func(from identity.ID, want bool) {
		t.Helper()
		in := inbound(kinds.KindCancel, `{}`)
		in.From, in.Ref = from, &id
		var ack kinds.Ack
		if err := conn.Call(await.NewContext(t), MethodCancel, in, &ack); err != nil || ack.Accepted != want {
			t.Errorf("cancel: %+v, %v, want %v", ack, err, want)
		}
	}
	cancel(identity.ID{2}, false)
	for _, from := range []identity.ID{{}, {1}} {
		cancel(from, true)
		if err := await.Receive(t, "the end of the work", ended); !errors.Is(err, context.Canceled) {
			t.Errorf("the context's error is %v", err)
		}
		if len(ended) > 0 {
			t.Error("it has ended the work for another peer")
		}
	}
	silent := task("short")
	silent.Payload = wire.Payload(`{"task":"short","report_back":false}`)
	delegate(t, conn, silent)
	await.Receive(t, "the end of the work", ended)
	detach()
	if len(reports) > 0 {
		t.Errorf("sent %+v", <-reports)
	}
}

// The outcome is sent again under one id until it is taken. One that never will be becomes an error.
func TestWorkIsReported(t *testing.T) {
	tries := 0
	s, reports, _ := startWorker(t, func(r report) error {
		switch tries++; {
		case tries < 3:
			return kinds.Errorf(kinds.Unreachable, "away")
		case r.Method == MethodResult && tries > 3:
			return kinds.Errorf(kinds.TooLarge, "too much")
		}
		return nil
	}, func(context.Context, *Work) (string, error) { return "done", nil })
	conn := await.Receive(t, "the agent", s.attached).conn
	delegate(t, conn, task("x"))
	first := await.Receive(t, "a report", reports)
	for range 2 {
		if again := await.Receive(t, "a report", reports); again.ID != first.ID || again.ID.IsZero() || again.Method != MethodResult {
			t.Errorf("sent %+v and then %+v", first, again)
		}
	}
	delegate(t, conn, task("y"))
	refused, instead := await.Receive(t, "a report", reports), await.Receive(t, "a report", reports)
	if refused.Method != MethodResult || instead.Method != MethodError || string(instead.Payload) != `{"code":"too_large","message":"too much","retryable":false}` || instead.ID == refused.ID {
		t.Errorf("sent %+v and then %+v", refused, instead)
	}
}

// Work outlives the connection. When the agent detaches, those who delegated it are told.
func TestWorkOutlivesTheConnection(t *testing.T) {
	next := make(chan struct{})
	s, reports, detach := startWorker(t, nil, func(ctx context.Context, w *Work) (string, error) {
		select {
		case <-next:
			return "done", nil
		case <-ctx.Done():
			return "", ctx.Err()
		}
	})
	id := delegate(t, await.Receive(t, "the agent", s.attached).conn, task("x"))
	s.stop()
	s.start()
	conn := await.Receive(t, "the agent again", s.attached).conn
	next <- struct{}{}
	if got := await.Receive(t, "the result", reports); got.Method != MethodResult || got.Ref != id {
		t.Errorf("sent %+v", got)
	}
	delegate(t, conn, task("y"))
	if err := detach(); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if got := await.Receive(t, "the error", reports); got.Method != MethodError || string(got.Payload) != `{"code":"no_agent","message":"the agent was stopped while it worked on this","retryable":true}` {
		t.Errorf("sent %s %s", got.Method, got.Payload)
	}
}

// A question comes with its text, and is answered with a text.
func TestAnswer(t *testing.T) {
	s := newServer(t, func(_ context.Context, _ *jsonrpc.Conn, r *jsonrpc.Request) { r.Respond(nil) })
	c := &Client{Socket: s.path}
	defer c.Close()
	ctx, detach := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		ended <- c.Attach(ctx, AttachParams{Name: "reviewer"}, Handler{Answer: func(_ context.Context, q *Question) (string, error) {
			if q.Question == "" {
				return "", kinds.Errorf(kinds.NotAuthorized, "say something")
			}
			return q.Message.Name + " asked " + q.Question, nil
		}})
	}()
	conn := await.Receive(t, "the agent", s.attached).conn
	var answer wire.Payload
	if err := conn.Call(await.NewContext(t), MethodQuery, inbound(kinds.KindQuery, `{"question":"why?"}`), &answer); err != nil || string(answer) != `{"summary":"desk asked why?"}` {
		t.Errorf("answered %s, %v", answer, err)
	}
	if err := conn.Call(await.NewContext(t), MethodQuery, inbound(kinds.KindQuery, `{"question":""}`), nil); kinds.AsError(err).Code != kinds.NotAuthorized {
		t.Errorf("answered %v", err)
	}
	detach()
	await.Receive(t, "the end of Attach", ended)
}
