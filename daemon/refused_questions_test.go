package daemon

import (
	"context"
	"errors"
	"testing"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/peer"
	"github.com/acpd/acpd/wire"
)

// ask sends a question as a trusted peer can that is not this program.
func (d *running) ask(to *running, ref, id wire.MessageID, payload string) error {
	env := wire.NewEnvelope(d.id, to.id, kinds.KindQuery, wire.Payload(payload))
	env.ID, env.Ref = id, &ref
	checked, err := kinds.CheckEnvelope(env)
	if err != nil {
		return err
	}
	_, _, err = d.node.Exchange(d.t.Context(), checked)
	return err
}

// A trusted peer asks what and as often as it likes: about what it was not given, of others, without
// end. Each refusal has a code, and what it takes is given back.
// holds: security.md#the-budget
func TestQuestionsOfAHostilePeer(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	office := start(t, stateDir(t), "office")
	befriend(t, desk, office)
	laptop.agent(client.AttachParams{Name: "reviewer", MaxConcurrent: 1000}, say(accepted))
	desk.agent(client.AttachParams{Name: "clerk"}, func(_ context.Context, r *jsonrpc.Request) {
		if r.Method == "query" {
			t.Error("an agent that did not delegate is asked")
		}
		r.Respond(wire.Payload(accepted))
	})
	asker := desk.dial()
	given := delegateTo(asker, "laptop", task1(""))
	silent := delegateTo(asker, "laptop", task1(`,"report_back":false`))
	back := delegateTo(laptop.dial(), "desk", task1("")) // taken by desk
	ended := delegateTo(asker, "laptop", task1(""))
	asker.must("cancel", client.CancelParams{Ref: ended.ID}, nil)
	refused := func(when string, code kinds.Code, err error) {
		t.Helper()
		if e, ok := errors.AsType[*kinds.Error](err); !ok || e.Code != code {
			t.Errorf("%s: %v, want %s", when, err, code)
		}
	}
	newID := wire.NewMessageID
	refused("no delegation", kinds.NotFound, laptop.ask(desk, newID(), newID(), which))
	refused("of another peer", kinds.NotFound, office.ask(desk, given.ID, newID(), which))
	refused("its own", kinds.NotFound, laptop.ask(desk, back.ID, newID(), which))
	refused("one that wants no report", kinds.NotFound, laptop.ask(desk, silent.ID, newID(), which))
	refused("one that has ended", kinds.Cancelled, laptop.ask(desk, ended.ID, newID(), which))
	refused("too long", kinds.TooLarge, laptop.ask(desk, given.ID, newID(), `{"question":"`+long(kinds.MaxQuestion)+`"}`))

	// One at a time, while somebody waits for the answer.
	first, stop := newID(), make(chan error, 1)
	go func() { stop <- laptop.ask(desk, given.ID, first, `{"question":"?","deadline_ms":3000}`) }()
	asker.question(given.ID, 0)
	refused("a second one", kinds.Overloaded, laptop.ask(desk, given.ID, newID(), which))
	refused("other content", kinds.Invalid, laptop.ask(desk, given.ID, first, which))
	refused("no answer", kinds.Timeout, await.Receive(t, "the first", stop))
	asker.must("cancel", client.CancelParams{Ref: given.ID}, nil)
	if n := desk.questionBytes(); n != 0 {
		t.Errorf("%d bytes are left", n)
	}
}

// questionBytes returns what questions take of all peers' shares.
func (d *running) questionBytes() (n int64) {
	for _, u := range d.budget.ListUsage() {
		if u.Row == budget.Questions {
			n += u.Held
		}
	}
	return n
}

// A local caller hears of what is wrong before anything leaves.
func TestQuestionsThatAreRefusedHere(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	worker, _ := laptop.guestAgent(client.AttachParams{Name: "reviewer"}, say(accepted))
	other, _ := laptop.guestAgent(client.AttachParams{Name: "bystander"}, nil)
	asker := desk.dial()
	given := delegateTo(asker, "laptop/reviewer", task1(""))
	p := func(change func(*client.QueryParams)) client.QueryParams {
		p := client.QueryParams{Ref: given.ID, Payload: wire.Payload(which)}
		change(&p)
		return p
	}
	before := desk.watch.CountMessages(client.In)[kinds.KindQuery]
	worker.refused(kinds.NotFound, "query", p(func(p *client.QueryParams) { p.Ref = wire.NewMessageID() }))
	other.refused(kinds.NotFound, "query", p(func(*client.QueryParams) {}))
	asker.refused(kinds.NotFound, "query", p(func(*client.QueryParams) {})) // given, not taken
	worker.refused(kinds.Invalid, "query", p(func(p *client.QueryParams) { p.To = "desk/planner" }))
	worker.refused(kinds.UnknownPeer, "query", p(func(p *client.QueryParams) { p.To = "office" }))
	worker.refused(kinds.Invalid, "query", p(func(p *client.QueryParams) { p.Thread = "x" }))
	worker.refused(kinds.NotFound, "query", p(func(p *client.QueryParams) { p.Parent = wire.NewMessageID() }))
	worker.refused(kinds.Invalid, "query", p(func(p *client.QueryParams) { p.Payload = wire.Payload(`{}`) }))
	worker.refused(kinds.TooLarge, "query", p(func(p *client.QueryParams) {
		p.Payload = wire.Payload(`{"question":"` + long(kinds.MaxQuestion) + `"}`)
	}))
	if n := desk.watch.CountMessages(client.In)[kinds.KindQuery]; n != before {
		t.Errorf("%d of them left", n-before)
	}
	id := wire.NewMessageID()
	await.Until(t, "the question is there", func() bool { // on a busy machine its time may be over before it comes
		worker.refused(kinds.Timeout, "query", p(func(p *client.QueryParams) { p.ID, p.To, p.Payload = id, "desk", wire.Payload(brief) }))
		return asker.state(given.ID).Question != nil
	})
	asker.refused(kinds.Invalid, "answer", client.AnswerParams{Ref: given.ID, Payload: wire.Payload(`{}`)})
	asker.refused(kinds.TooLarge, "answer", client.AnswerParams{Ref: given.ID, Payload: wire.Payload(`{"summary":"` + long(kinds.MaxQuestion) + `"}`)})
	asker.refused(kinds.NotFound, "answer", client.AnswerParams{Ref: wire.NewMessageID(), Payload: wire.Payload(mainBranch)})
	if err := asker.call("delegate", map[string]any{"to": "laptop", "ref": given.ID, "payload": map[string]string{"task": "x"}}, nil); err == nil {
		t.Error("a delegation with a ref is accepted")
	}
}

// A peer that does not announce the feature gets no question, and the asker hears so at once.
func TestAPeerThatTakesNoQuestions(t *testing.T) {
	t.Parallel()
	laptop := start(t, stateDir(t), "laptop")
	worker := laptop.agent(client.AttachParams{Name: "reviewer"}, say(accepted))
	old := laptop.bareNode(peer.Config{Exchange: func(context.Context, *peer.Passing) (*wire.Envelope, error) {
		t.Error("a question left")
		return nil, kinds.Errorf(kinds.Internal, "no")
	}})
	env := wire.NewEnvelope(old.ID(), laptop.ID(), kinds.KindDelegate, task1(""))
	checked, err := kinds.CheckEnvelope(env)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := old.Exchange(t.Context(), checked); err != nil {
		t.Fatal(err)
	}
	e := worker.refused(kinds.UnknownKind, "query", client.QueryParams{Ref: env.ID, Payload: wire.Payload(which)})
	if e.From != "" || e.Delivered() != kinds.DeliveredNo {
		t.Errorf("%+v", e)
	}
}

// bareNode runs a node without a daemon that the daemon trusts as desk, and connects the two.
func (d *running) bareNode(cfg peer.Config) *peer.Node {
	d.t.Helper()
	key, err := identity.GenerateKey()
	if err != nil {
		d.t.Fatal(err)
	}
	cfg.Key, cfg.Trust, cfg.Listen = key, identity.NewMemoryTrustStore(), "127.0.0.1:0"
	n, err := peer.Listen(cfg)
	if err != nil {
		d.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- n.Serve(ctx) }()
	d.t.Cleanup(func() { cancel(); <-ended })
	if _, err := cfg.Trust.Trust(identity.Peer{ID: d.ID(), Name: "laptop", Addrs: []string{d.node.Addr().String()}}); err != nil {
		d.t.Fatal(err)
	}
	d.dial().must("trust", client.TrustParams{Peer: key.ID().String(), Name: "desk", Addrs: []string{n.Addr().String()}}, nil)
	n.Connect(d.ID())
	await.Until(d.t, "connected", func() bool { _, ok := d.node.Peer(key.ID()); return ok })
	return n
}

// TestAPeerHearsThatAnAgentHasCome: once for a message that was refused because no agent was there, if the peer may know
// which agents there are, and not after it was untrusted.
func TestAPeerHearsThatAnAgentHasCome(t *testing.T) {
	t.Parallel()
	laptop := start(t, stateDir(t), "laptop")
	came := make(chan peer.Event, 16)
	desk := laptop.bareNode(peer.Config{Features: []string{peer.FeatureAgents}, Event: func(e peer.Event) {
		if e.Type == peer.EventAgents {
			came <- e
		}
	}})
	send := func(kind, agent string, payload wire.Payload) error {
		t.Helper()
		env := wire.NewEnvelope(desk.ID(), laptop.ID(), kind, payload)
		env.Agent = agent
		checked, err := kinds.CheckEnvelope(env)
		if err == nil {
			_, _, err = desk.Exchange(t.Context(), checked)
		}
		return err
	}
	isRefused := func(kind, agent string, payload wire.Payload) {
		t.Helper()
		if err := send(kind, agent, payload); !errors.Is(err, &kinds.Error{Code: kinds.NoAgent}) {
			t.Fatalf("%s: %v", kind, err)
		}
	}
	comes := func(name string, want int) {
		t.Helper()
		laptop.agent(client.AttachParams{Name: name, Kinds: []string{"notify"}}, say("{}"))
		if want > 0 {
			await.Receive(t, name+" has come", came)
		}
		if err := send(kinds.KindPing, "", nil); err != nil || len(came) > 0 {
			t.Errorf("%d more words about %s, %v", len(came), name, err) // a word that had left before the pong would be here
		}
	}
	comes("first", 0) // nothing was refused
	isRefused(kinds.KindQuery, "reviewer", query("?"))
	comes("other", 0)
	comes("reviewer", 1)
	comes("reviewer-2", 0)
	isRefused(kinds.KindDelegate, "", task1(""))
	comes("planner", 1)
	isRefused(kinds.KindQuery, "tester", query("?"))
	laptop.configure("policy: {desk: {kinds: [ping, query, delegate]}}")
	comes("tester", 0)
	isRefused(kinds.KindQuery, "builder", query("?"))
	laptop.configure("")
	laptop.agents.ForgetPeer(desk.ID()) // as untrust does
	comes("builder", 0)
}
