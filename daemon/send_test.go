package daemon

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

func TestQueryIsAnsweredByAnAttachedAgent(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	got := make(chan *client.Inbound, 1)
	const response = `{"summary":"42","data":{"n":12345678901234567890},"own":[1.50]}`
	laptop.agent(client.AttachParams{Name: "reviewer"}, into(t, got, response))
	var a client.Answer
	asker := desk.dial()
	asker.must("query", client.QueryParams{Head: client.Head{Thread: "t1"}, To: "laptop", Payload: wire.Payload(`{"question":"why?","mine":1.0}`)}, &a)
	if string(a.Payload) != response || a.Kind != kinds.KindResponse || a.From != laptop.ID() || a.RTTUS == 0 {
		t.Errorf("answer %+v %s", a, a.Payload)
	}
	in := await.Receive(t, "query", got)
	if in.From != desk.ID() || in.Name != "desk" || in.Thread != "t1" || in.DeadlineMS != 30000 || string(in.Payload) != `{"question":"why?","mine":1.0}` {
		t.Errorf("inbound %+v %s", in, in.Payload)
	}
}

// TestOnlyADaemonSaysThatNothingArrived: a refusal before any agent has the message says so. The same code of an agent
// does not, whatever the agent says.
func TestOnlyADaemonSaysThatNothingArrived(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	asker := desk.dial()
	ask := client.QueryParams{To: "laptop", Payload: query("?")}
	task := client.DelegateParams{To: "laptop", Payload: wire.Payload(`{"task":"review"}`)}
	for method, params := range map[string]any{"query": ask, "delegate": task} {
		if e := asker.refused(kinds.NoAgent, method, params); e.Delivered() != kinds.DeliveredNo || e.From == "" {
			t.Errorf("%s: delivered %q from %q, want no from the peer", method, e.Delivered(), e.From)
		}
	}
	if got := get[client.Tasks](asker, "tasks", client.TasksParams{}).Tasks; len(got) != 1 || got[0].State != client.TaskRefused {
		t.Errorf("the refused delegation is %+v", got)
	}
	for _, code := range []kinds.Code{kinds.NoAgent, kinds.Overloaded, kinds.Timeout} {
		agent := laptop.agent(client.AttachParams{Name: "reviewer"}, func(_ context.Context, r *jsonrpc.Request) {
			r.RespondError(kinds.Errorf(code, "says the agent").WithDelivered(kinds.DeliveredNo))
		})
		for method, params := range map[string]any{"query": ask, "delegate": task} {
			if e := asker.refused(code, method, params); e.Delivered() != "" {
				t.Errorf("%s: %s of an agent says delivered %q", method, code, e.Delivered())
			}
		}
		agent.Close()
		laptop.awaitLeft("reviewer")
	}
	laptop.agent(client.AttachParams{Name: "reviewer"}, func(_ context.Context, r *jsonrpc.Request) {
		if r.Method == "cancel" {
			r.RespondError(kinds.Errorf(kinds.Overloaded, "says the agent").WithDelivered(kinds.DeliveredNo))
		}
		r.Respond(wire.Payload(accepted))
	})
	given := delegateTo(asker, "laptop", task1(""))
	if e := asker.refused(kinds.Overloaded, "cancel", client.CancelParams{Ref: given.ID}); e.Delivered() != "" {
		t.Errorf("an agent's answer to a cancel says delivered %q", e.Delivered())
	}
}

// holds: security.md#agents-on-this-machine
func TestQueryFailsAsTheAgentDoes(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	asker := desk.dial()
	asker.refused(kinds.NoAgent, "query", client.QueryParams{To: "laptop", Payload: query("?")})
	agent := laptop.agent(client.AttachParams{Name: "reviewer", Domains: []string{"code"}}, func(_ context.Context, r *jsonrpc.Request) {
		switch q := parse[kinds.Query](t, bind(t, r).Payload); q.Question {
		case "coded":
			r.RespondError(kinds.Errorf(kinds.NotAuthorized, "not for you"))
		case "local":
			r.RespondError(kinds.Errorf(kinds.DaemonUnavailable, "no daemon at /home/me/acp.sock"))
		case "plain":
			r.RespondError(errors.New("out of paper"))
		case "method":
			r.RespondError(jsonrpc.NewMethodNotFound("query"))
		case "rpc":
			r.RespondError(&jsonrpc.Error{Code: -32603, Message: "run make deploy"})
		case "malformed":
			r.Respond(wire.Payload(`{"data":1}`))
		case "broken":
			r.Respond(wire.Payload(`{"summary":"\ud800"}`))
		}
	})
	for question, code := range map[string]kinds.Code{
		"coded": kinds.NotAuthorized, "local": kinds.Internal, "plain": kinds.Internal,
		"rpc": kinds.Internal, "method": kinds.UnknownKind, "malformed": kinds.Internal, "broken": kinds.Internal,
	} {
		if e := asker.refused(code, "query", client.QueryParams{To: "laptop", Payload: query(question)}); e.From != laptop.ID().String() || strings.Contains(e.Message, "/home/me") || strings.Contains(e.Message, "deploy") {
			t.Errorf("%s: from %q: %s", question, e.From, e.Message)
		}
	}
	e := asker.refused(kinds.UnknownDomain, "query", client.QueryParams{To: "laptop", Payload: wire.Payload(`{"question":"?","domain":"codec"}`)})
	if string(e.Details) != `{"domains":["code"]}` {
		t.Errorf("details %s", e.Details)
	}
	asker.refused(kinds.NoAgent, "query", client.QueryParams{To: "laptop/planner", Payload: query("?")})
	agent.Close()
	await.Until(t, "detached", func() bool {
		err := asker.call("query", client.QueryParams{To: "laptop", Payload: query("gone")}, nil)
		return errors.Is(err, &kinds.Error{Code: kinds.NoAgent})
	})
}

func TestDiscoverShowsWhatIsAttached(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	laptop.agent(client.AttachParams{Name: "reviewer", Domains: []string{"code.go"}, MaxConcurrent: 2, Capabilities: &kinds.Capabilities{Tools: []string{"compiler"}, Model: "m1"}}, nil)
	asker := desk.dial()
	var first, second, third client.Answer
	asker.must("discover", client.DiscoverParams{To: "laptop"}, &first)
	c := parse[kinds.Capabilities](t, first.Payload)
	if c.AgentName != "laptop" || fmt.Sprintf("%v %v %v %v", c.Domains, c.Tools, c.Model, c.MaxConcurrentTasks) != "[code.go] [compiler] m1 2" {
		t.Errorf("%s", first.Payload)
	}
	laptop.agent(client.AttachParams{Name: "planner", Domains: []string{"plans"}}, nil)
	asker.must("discover", client.DiscoverParams{To: "laptop"}, &second)
	if second.ID != first.ID {
		t.Error("the second answer is not the cached one")
	}
	asker.must("discover", client.DiscoverParams{To: "laptop", Fresh: true}, &third)
	if c := parse[kinds.Capabilities](t, third.Payload); fmt.Sprint(c.Agents, c.Domains, c.MaxConcurrentTasks) != "[planner reviewer] [code.go plans] 6" {
		t.Errorf("%s", third.Payload)
	}
	asker.must("discover", client.DiscoverParams{To: "laptop/planner"}, &third)
	if c := parse[kinds.Capabilities](t, third.Payload); c.AgentName != "planner" || c.Agents != nil || fmt.Sprint(c.Domains) != "[plans]" {
		t.Errorf("%s", third.Payload)
	}
}

func TestPingSaysHowBusyTheAgentsAre(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	asker := desk.dial()
	pong := func() *kinds.Pong {
		a := get[client.Answer](asker, "ping", client.PingParams{To: "laptop"})
		return parse[kinds.Pong](t, a.Payload)
	}
	if p := pong(); p.Status != "idle" || p.Attached != 0 {
		t.Errorf("%+v", p)
	}
	arrived, leave := make(chan struct{}, 2), make(chan struct{})
	laptop.agent(client.AttachParams{Name: "reviewer", MaxConcurrent: 2}, func(_ context.Context, r *jsonrpc.Request) {
		arrived <- struct{}{}
		<-leave
		r.Respond(wire.Payload(`{"summary":""}`))
	})
	var asking sync.WaitGroup
	for i, status := range []string{"busy", "overloaded"} {
		asking.Go(func() {
			asker.must("query", client.QueryParams{To: "laptop", Payload: query("?")}, nil)
		})
		await.Receive(t, "query", arrived)
		if p := pong(); p.Status != status || p.ActiveTasks != uint64(i+1) || p.Attached != 1 {
			t.Errorf("with %d queries: %+v", i+1, p)
		}
	}
	e := asker.refused(kinds.Overloaded, "query", client.QueryParams{To: "laptop", Payload: query("?")})
	if e.RetryAfterMS != 1000 || !e.Retryable {
		t.Errorf("%+v", e)
	}
	close(leave)
	asking.Wait()
}

func TestInterruptedQueryIsCancelledAtTheAgent(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	began, ended := make(chan struct{}, 99), make(chan struct{}, 99)
	laptop.agent(client.AttachParams{Name: "reviewer"}, func(ctx context.Context, r *jsonrpc.Request) {
		began <- struct{}{}
		<-ctx.Done() // by rpc.cancel: the connection lives
		ended <- struct{}{}
	})
	p := client.QueryParams{To: "laptop", Payload: query("?")}
	t.Run("by rpc.cancel", func(t *testing.T) {
		asker := desk.dial()
		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error, 1)
		go func() { failed <- asker.Call(ctx, "query", p, nil) }()
		await.Receive(t, "query", began)
		cancel()
		if err := await.Receive(t, "error", failed); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		await.Receive(t, "the agent's rpc.cancel", ended)
	})
	t.Run("by closing the connection", func(t *testing.T) {
		asker := desk.dial()
		failed := later(asker, "query", p)
		await.Receive(t, "query", began)
		asker.Close()
		if err := await.Receive(t, "error", failed); !errors.Is(err, jsonrpc.ErrClosed) {
			t.Error(err)
		}
		await.Receive(t, "the agent's rpc.cancel", ended)
	})
	t.Run("by the deadline", func(t *testing.T) {
		asker := desk.dial()
		for ms := 1000; len(began) == 0; ms *= 2 { // until it has come before its deadline
			asker.refused(kinds.Timeout, "query", client.QueryParams{To: "laptop", Payload: wire.Payload(fmt.Sprintf(`{"question":"?","deadline_ms":%d}`, ms))})
		}
		await.Receive(t, "query", began)
		await.Receive(t, "the agent's rpc.cancel", ended)
	})
}

func TestSlowQueriesHinderNobody(t *testing.T) {
	t.Parallel()
	const slow = 64
	desk, laptop := pair(t)
	arrived, leave := make(chan struct{}, slow), make(chan struct{})
	laptop.agent(client.AttachParams{Name: "reviewer", MaxConcurrent: slow + 2}, func(ctx context.Context, r *jsonrpc.Request) {
		switch r.Method {
		case "delegate", "cancel":
			r.Respond(wire.Payload(`{"accepted":true}`))
			return
		}
		if parse[kinds.Query](t, bind(t, r).Payload).Question == "slow" {
			arrived <- struct{}{}
			<-leave
		}
		r.Respond(wire.Payload(`{"summary":""}`))
	})
	asker := desk.dial()
	var asking sync.WaitGroup
	defer asking.Wait()
	defer close(leave)
	for range slow {
		asking.Go(func() {
			if err := asker.call("query", client.QueryParams{To: "laptop", Payload: query("slow")}, nil); err != nil {
				t.Error(err)
			}
		})
	}
	for range slow {
		await.Receive(t, "slow query", arrived)
	}
	given := get[client.DelegateAnswer](asker, "delegate", client.DelegateParams{To: "laptop", Payload: kinds.EncodePayload(&kinds.Delegate{Task: "t"})})
	// The slow ones end after these: whoever waited for one of them would wait in vain.
	asker.must("query", client.QueryParams{To: "laptop", Payload: query("quick")}, nil)
	asker.must("ping", client.PingParams{To: "laptop"}, nil)
	asker.must("cancel", client.CancelParams{Ref: given.ID}, nil)
}

// Who names this daemon, or an agent of it, hears what to name instead.
func TestRecipientsThatAreHere(t *testing.T) {
	t.Parallel()
	desk := start(t, stateDir(t), "desk")
	desk.agent(client.AttachParams{Name: "reviewer"}, func(_ context.Context, r *jsonrpc.Request) { r.Respond(nil) })
	for to, want := range map[string]string{
		"desk":           "is this daemon itself: name a peer",
		"desk/reviewer":  "is this daemon itself: name a peer",
		desk.id.String(): "is this daemon itself: name a peer",
		"reviewer":       "is an agent of this daemon: name a peer, or an agent of one as peer/agent",
	} {
		if e := desk.dial().refused(kinds.Invalid, "query", client.QueryParams{To: to, Payload: query("?")}); !strings.Contains(e.Message, want) {
			t.Errorf("%s: %v", to, e)
		}
	}
}

// Who names an agent of a peer without the peer hears both, once discover has told of the agent; a
// guest that may not call the peer does not.
func TestAnAgentNamedWithoutItsPeer(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	laptop.agent(client.AttachParams{Name: "reviewer"}, say(`{}`))
	owner, guest := desk.dial(), desk.guest(nil)
	ask := func(caller *program, to string) bool {
		t.Helper()
		e := caller.refused(kinds.UnknownPeer, "query", client.QueryParams{To: to, Payload: query("?")})
		return strings.HasSuffix(e.Message, "did you mean laptop/reviewer?")
	}
	if ask(owner, "reviewer") {
		t.Error("nobody has told of it")
	}
	owner.must("discover", client.DiscoverParams{To: "laptop"}, nil)
	if !ask(owner, "reviewer") || !ask(guest, "reviewer") || ask(owner, "planner") || ask(owner, "reviewer/x") {
		t.Error("the error does not name laptop/reviewer where it should, and nowhere else")
	}
	desk.configure("agents: {\"*\": {to: []}}\n")
	if !ask(owner, "reviewer") || ask(guest, "reviewer") {
		t.Error("a guest hears of a peer's agents that it may not call")
	}
}

// A message says which agent sent it, by the connection and never by the caller's word, and
// an answer to that agent can name it.
func TestAMessageNamesTheAgentThatSentIt(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	got := make(chan *client.Inbound, 8)
	reviewer := laptop.agent(client.AttachParams{Name: "reviewer"}, func(_ context.Context, r *jsonrpc.Request) {
		in := bind(t, r)
		got <- in
		switch r.Method {
		case "query":
			r.Respond(wire.Payload(`{"summary":"here"}`))
		case "delegate", "cancel":
			r.Respond(wire.Payload(accepted))
		default:
			r.Respond(nil)
		}
	})
	back := make(chan *client.Inbound, 8)
	planner, key := desk.guestAgent(client.AttachParams{Name: "planner"}, into(t, back, `{}`))
	desk.agent(client.AttachParams{Name: "bystander"}, func(_ context.Context, r *jsonrpc.Request) {
		t.Errorf("the bystander got a %s", r.Method)
	})
	speaker := desk.guest(nil)
	speaker.must("speak", client.SpeakParams{Name: "planner", Key: key}, nil)
	stranger, owner := desk.guest(nil), desk.dial()

	for caller, want := range map[*program]string{planner: "planner", speaker: "planner", stranger: "", owner: ""} {
		caller.must("query", client.QueryParams{To: "laptop", Payload: query("?")}, nil)
		if in := await.Receive(t, "query", got); in.FromAgent != want {
			t.Errorf("a query of %q says %q", want, in.FromAgent)
		}
		caller.must("notify", client.NotifyParams{To: client.To("laptop"), Payload: wire.Payload(`{"topic":"t"}`)}, nil)
		if in := await.Receive(t, "notify", got); in.FromAgent != want {
			t.Errorf("a notify of %q says %q", want, in.FromAgent)
		}
	}
	const claim = `{"to":"laptop","from_agent":"reviewer","payload":{"question":"?"}}`
	if err := planner.call("query", jsontext.Value(claim), nil); err == nil {
		t.Error("a caller names the agent itself")
	}

	given := delegateTo(planner, "laptop", task1(""))
	if in := await.Receive(t, "delegate", got); in.FromAgent != "planner" {
		t.Errorf("%+v", in)
	}
	all := get[client.Tasks](reviewer, "tasks", nil)
	if len(all.Tasks) != 1 || all.Tasks[0].FromAgent != "planner" {
		t.Errorf("%+v", all)
	}
	if s := planner.state(given.ID); s.FromAgent != "" {
		t.Errorf("%+v", s)
	}
	reviewer.must("result", client.ResultParams{Ref: given.ID, Payload: completed("mended")}, nil)
	if in := await.Receive(t, "result", back); in.FromAgent != "reviewer" {
		t.Errorf("%+v", in)
	}
	reviewer.must("notify", client.NotifyParams{To: client.To("desk/planner"), Payload: wire.Payload(`{"topic":"t"}`)}, nil)
	if in := await.Receive(t, "notify", back); in.Kind != kinds.KindNotify || in.FromAgent != "reviewer" {
		t.Errorf("%+v", in)
	}

	// What is held, and what a restart finds, says it too.
	reviewer.Close()
	laptop.awaitLeft("reviewer")
	planner.must("notify", client.NotifyParams{To: client.To("laptop"), Payload: wire.Payload(`{"topic":"t"}`)}, nil)
	laptop.stop()
	laptop = start(t, laptop.dir, "laptop")
	held := get[client.Inbox](laptop.dial(), "inbox", nil)
	if len(held.Messages) != 1 || held.Messages[0].Envelope.FromAgent != "planner" {
		t.Errorf("%+v", held)
	}
	if s := laptop.dial().state(given.ID); s.FromAgent != "planner" {
		t.Errorf("after a restart %+v", s)
	}
}
