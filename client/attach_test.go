package client

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

func inbound(kind, payload string) *Inbound {
	return &Inbound{Envelope: wire.Envelope{V: 1, ID: wire.NewMessageID(), Kind: kind, Payload: wire.Payload(payload)}, Name: "desk"}
}

// holds: security.md#agents-on-this-machine
func TestAttach(t *testing.T) {
	s := newServer(t, func(_ context.Context, _ *jsonrpc.Conn, r *jsonrpc.Request) { r.Respond(nil) })
	c := &Client{Socket: s.path}
	defer c.Close()
	ctx, detach := context.WithCancel(t.Context())
	ended := make(chan error)
	asked, gaveUp := make(chan struct{}), make(chan struct{})
	go func() {
		ended <- c.Attach(ctx, AttachParams{Name: "reviewer"}, Handler{
			Query: func(ctx context.Context, in *Inbound) (any, error) {
				switch q, _ := kinds.ParsePayload[kinds.Query](in.Payload); q.Question {
				case "name":
					return &kinds.Response{Summary: in.Name}, nil
				case "raw":
					return wire.Payload("{\"summary\":\n\"12345678901234567890\"}"), nil
				case "broken":
					return wire.Payload(`{"summary":`), nil
				case "plain":
					return nil, &fs.PathError{Op: "open", Path: "/home/me/answers", Err: fs.ErrNotExist}
				case "slow":
					close(asked)
					<-ctx.Done()
					close(gaveUp)
				case "deadline":
					<-ctx.Done()
				}
				return nil, ctx.Err()
			},
			Delegate: func(context.Context, *Inbound) (*kinds.Ack, error) { return nil, nil },
			Cancel: func(context.Context, *Inbound) (*kinds.Ack, error) {
				return &kinds.Ack{Code: kinds.NotFound, Message: "done already"}, nil
			},
			Notify: func(_ context.Context, in *Inbound) error { return nil },
			Result: func(_ context.Context, in *Inbound) error {
				if in.Delegation == nil || in.Delegation.Task != "x" {
					return errors.New("no delegation")
				}
				return nil
			},
		})
	}()
	a := <-s.attached
	await.Until(t, "the key has come", func() bool { return c.Key() == "key of reviewer" })
	slices.Sort(a.params.Kinds)
	if want := []string{"cancel", "delegate", "notify", "query", "result"}; !slices.Equal(a.params.Kinds, want) {
		t.Errorf("attached for %q, want %q", a.params.Kinds, want)
	}
	deadline := inbound("query", `{"question":"deadline"}`)
	deadline.DeadlineMS = 20
	result := inbound("result", `{"status":"completed","outcome":"y"}`)
	result.Delegation = &Task{ID: wire.NewMessageID(), Task: "x"}
	for _, test := range []struct {
		in   *Inbound
		want string // result, or the error's code
	}{
		{inbound("query", `{"question":"name"}`), `{"summary":"desk"}`},
		{inbound("query", `{"question":"raw"}`), `{"summary": "12345678901234567890"}`},
		{inbound("query", `{"question":"broken"}`), `invalid`},
		{deadline, `timeout`},
		{inbound("delegate", `{"task":"x"}`), `{"accepted":true}`},
		{inbound("cancel", `{}`), `{"accepted":false,"code":"not_found","message":"done already"}`},
		{inbound("notify", `{"topic":"x"}`), `{}`},
		{result, `{}`},
		{inbound("error", `{"code":"internal","message":""}`), `unknown_kind`},
		{inbound("of_tomorrow", `{}`), `unknown_kind`},
	} {
		var answer wire.Payload
		err := a.conn.Call(t.Context(), test.in.Kind, test.in, &answer)
		got := string(answer)
		if e, ok := errors.AsType[*kinds.Error](err); ok {
			got = string(e.Code)
		}
		if got != test.want {
			t.Errorf("%s %s: got %s, %v, want %s", test.in.Kind, test.in.Payload, answer, err, test.want)
		}
	}

	if err := a.conn.Call(t.Context(), "query", inbound("query", `{"question":"plain"}`), nil); kinds.AsError(err).Error() != "the agent failed (internal)" {
		t.Errorf("of an error without a code the sender hears %v", err)
	}

	call, giveUp := context.WithCancel(t.Context())
	go func() { <-asked; giveUp() }()
	if err := a.conn.Call(call, "query", inbound("query", `{"question":"slow"}`), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	<-gaveUp

	if err := c.Attach(t.Context(), AttachParams{Name: "planner"}, Handler{}); err == nil || !strings.Contains(err.Error(), "use another client") {
		t.Errorf("a second agent: %v", err)
	}
	if _, err := c.Whoami(t.Context()); err != nil {
		t.Errorf("a call of the attached agent: %v", err)
	}

	s.stop()
	s.start()
	if b := <-s.attached; b.params.Name != "reviewer" || b.params.Key != "key of reviewer" || b.conn == a.conn {
		t.Errorf("after the restart %q attached with the key %q", b.params.Name, b.params.Key)
	} else {
		a = b
	}
	var answer wire.Payload
	if err := a.conn.Call(t.Context(), "query", inbound("query", `{"question":"name"}`), &answer); err != nil {
		t.Errorf("after the restart: %v", err)
	}

	detach()
	if err := <-ended; err != context.Canceled {
		t.Errorf("Attach ended with %v", err)
	}
	<-a.conn.Done()
	if _, err := c.Whoami(t.Context()); err != nil {
		t.Errorf("after the end of Attach: %v", err)
	}
}

// Attach waits for its handlers, also for one whose connection broke before.
func TestAttachWaitsForItsHandlers(t *testing.T) {
	for _, breaks := range []bool{false, true} {
		s := newServer(t, func(_ context.Context, _ *jsonrpc.Conn, r *jsonrpc.Request) { r.Respond(nil) })
		c := &Client{Socket: s.path}
		ctx, detach := context.WithCancel(t.Context())
		begun, toldToEnd, mayEnd := make(chan struct{}), make(chan struct{}), make(chan struct{})
		hasEnded := false
		ended := make(chan error, 1)
		go func() {
			ended <- c.Attach(ctx, AttachParams{Name: "reviewer"}, Handler{Notify: func(ctx context.Context, _ *Inbound) error {
				close(begun)
				<-ctx.Done()
				close(toldToEnd)
				<-mayEnd
				hasEnded = true
				return nil
			}})
		}()
		a := await.Receive(t, "an attached agent", s.attached)
		go a.conn.Call(context.WithoutCancel(t.Context()), "notify", inbound("notify", `{"topic":"x"}`), nil)
		<-begun
		if breaks {
			s.stop()
			<-toldToEnd
			if _, err := c.Whoami(t.Context()); err == nil { // the client has noticed
				t.Error("a call succeeds without a daemon")
			}
		}
		detach()
		<-toldToEnd
		time.AfterFunc(20*time.Millisecond, func() { close(mayEnd) })
		await.Receive(t, "the end of Attach", ended)
		if !hasEnded { // the race detector sees it too
			t.Errorf("breaks %t: Attach has returned before its handler", breaks)
		}
		c.Close()
	}
}

// A client that speaks as an agent says so on each connection, before anything else.
func TestClientSpeaksAsAnAgent(t *testing.T) {
	said := make(chan string, 8)
	s := newServer(t, func(_ context.Context, _ *jsonrpc.Conn, r *jsonrpc.Request) {
		var p SpeakParams
		if r.Method == MethodSpeak {
			if err := r.ReadParams(&p); err != nil {
				t.Error(err)
			}
			if p.Key == "wrong" {
				r.RespondError(kinds.Errorf(kinds.NotAuthorized, "speak: key: another agent has the name"))
				return
			}
		}
		said <- r.Method + p.Name + p.Key
		r.Respond(&Whoami{})
	})
	c := &Client{Socket: s.path, SpeakAs: SpeakParams{Name: "planner", Key: "secret"}}
	defer c.Close()
	for range 2 {
		for range 2 {
			if _, err := c.Whoami(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		for _, want := range []string{"speakplannersecret", "whoami", "whoami"} {
			if got := <-said; got != want {
				t.Errorf("%s, want %s", got, want)
			}
		}
		c.Close()
	}
	other := &Client{Socket: s.path, SpeakAs: SpeakParams{Name: "planner", Key: "wrong"}}
	defer other.Close()
	if _, err := other.Whoami(t.Context()); !errors.Is(err, &kinds.Error{Code: kinds.NotAuthorized}) {
		t.Errorf("with a wrong key: %v", err)
	}
}

// A session attaches for the kinds that wake tells it of, and answers wake.
func TestSessionIsWoken(t *testing.T) {
	s := newServer(t, func(_ context.Context, _ *jsonrpc.Conn, r *jsonrpc.Request) { r.Respond(nil) })
	c := &Client{Socket: s.path}
	defer c.Close()
	ctx, detach := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		ended <- c.Attach(ctx, AttachParams{Name: "claude", Session: &SessionInfo{Harness: "claude", Version: "2.1.330"}}, Handler{
			Wake: func(_ context.Context, in *Inbound) (*WakeAnswer, error) {
				if in.Wake == nil {
					return nil, nil
				}
				return &WakeAnswer{Posted: true, Proven: in.Wake.Unattended}, nil
			},
		})
	}()
	a := <-s.attached
	if want := []string{"error", "notify", "result"}; !slices.Equal(a.params.Kinds, want) || *a.params.Session != (SessionInfo{Harness: "claude", Version: "2.1.330"}) {
		t.Errorf("attached for %q as %+v", a.params.Kinds, a.params.Session)
	}
	for _, test := range []struct {
		grant *WakeGrant
		want  WakeAnswer
	}{{nil, WakeAnswer{}}, {&WakeGrant{}, WakeAnswer{Posted: true}}, {&WakeGrant{Unattended: true}, WakeAnswer{Posted: true, Proven: true}}} {
		in := inbound("notify", `{"topic":"x"}`)
		in.Wake = test.grant
		var got WakeAnswer
		if err := a.conn.Call(t.Context(), MethodWake, in, &got); err != nil || got != test.want {
			t.Errorf("%+v: %+v, %v", test.grant, got, err)
		}
	}
	detach()
	<-ended
}

// What is so of a session is declared on its connection, under its key, and kept over the next one.
func TestDeclareSession(t *testing.T) {
	s := newServer(t, func(_ context.Context, _ *jsonrpc.Conn, r *jsonrpc.Request) { r.Respond(Acked{}) })
	c := &Client{Socket: s.path}
	defer c.Close()
	if err := c.DeclareSession(t.Context(), &SessionInfo{Harness: "codex"}); err == nil {
		t.Error("without an agent")
	}
	ctx, detach := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		ended <- c.Attach(ctx, AttachParams{Name: "codex", Session: &SessionInfo{Harness: "codex", Unwakeable: "no turn"}}, Handler{})
	}()
	first := <-s.attached
	if err := c.DeclareSession(t.Context(), &SessionInfo{Harness: "codex"}); err != nil {
		t.Fatal(err)
	}
	a := <-s.attached
	if a.conn != first.conn || a.params.Key == "" || a.params.Session.Unwakeable != "" || first.params.Session.Unwakeable != "no turn" {
		t.Errorf("declared as %+v on the same connection: %v", a.params, a.conn == first.conn)
	}
	if _, err := c.Ack(t.Context(), AckParams{UpTo: 1}); err != nil || len(s.attached) > 0 {
		t.Errorf("a call: %v, %d times declared", err, len(s.attached))
	}
	a.conn.Close()
	if a = <-s.attached; a.params.Session.Unwakeable != "" || a.params.Key == "" {
		t.Errorf("renewed as %+v", a.params)
	}
	detach()
	<-ended
	<-a.conn.Done()
}

func TestAttachRefused(t *testing.T) {
	s := newServer(t, func(_ context.Context, _ *jsonrpc.Conn, r *jsonrpc.Request) { r.Respond(nil) })
	c := &Client{Socket: s.path}
	defer c.Close()
	if err := c.Attach(t.Context(), AttachParams{Name: "taken"}, Handler{}); !errors.Is(err, &kinds.Error{Code: kinds.Invalid}) {
		t.Errorf("got %v", err)
	}
	none := &Client{Socket: filepath.Join(t.TempDir(), "none")}
	wantUnavailable(t, none.Attach(t.Context(), AttachParams{Name: "reviewer"}, Handler{}), "no daemon at")
}

// Every kind that goes to agents has a function in Handler, under the kind's name: ping and
// discover are the daemon's to answer. A session has one for wake besides.
func TestHandlerHasAFunctionForEachKind(t *testing.T) {
	var h Handler
	for field, value := range reflect.ValueOf(&h).Elem().Fields() {
		value.Set(reflect.MakeFunc(field.Type, func([]reflect.Value) []reflect.Value { return nil }))
	}
	var want []string
	for _, kind := range kinds.ListKinds() {
		if kind.Class != kinds.Reply && kind.Name != kinds.KindPing && kind.Name != kinds.KindDiscover {
			want = append(want, kind.Name)
		}
	}
	slices.Sort(want)
	if got := h.listKinds(); !slices.Equal(got, want) {
		t.Errorf("it attaches for %v, want %v", got, want)
	}
	want = append(want, MethodWake)
	if got := slices.Sorted(maps.Keys(h.listFunctionsByMethod())); !slices.Equal(got, want) {
		t.Errorf("functions of %v, kinds for agents are %v", got, want)
	}
}
