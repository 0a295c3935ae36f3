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
	trust := identity.NewMemoryTrustStore()
	key, err := identity.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	old, err := peer.Listen(peer.Config{Key: key, Trust: trust, Listen: "127.0.0.1:0", Exchange: func(context.Context, *peer.Passing) (*wire.Envelope, error) {
		t.Error("a question left")
		return nil, kinds.Errorf(kinds.Internal, "no")
	}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- old.Serve(ctx) }()
	defer func() { cancel(); <-ended }()
	if _, err := trust.Trust(identity.Peer{ID: laptop.ID(), Name: "laptop", Addrs: []string{laptop.node.Addr().String()}}); err != nil {
		t.Fatal(err)
	}
	laptop.dial().must("trust", client.TrustParams{Peer: key.ID().String(), Name: "desk", Addrs: []string{old.Addr().String()}}, nil)
	old.Connect(laptop.ID())
	await.Until(t, "connected", func() bool { _, ok := laptop.node.Peer(key.ID()); return ok })
	env := wire.NewEnvelope(key.ID(), laptop.ID(), kinds.KindDelegate, task1(""))
	checked, err := kinds.CheckEnvelope(env)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := old.Exchange(ctx, checked); err != nil {
		t.Fatal(err)
	}
	e := worker.refused(kinds.UnknownKind, "query", client.QueryParams{Ref: env.ID, Payload: wire.Payload(which)})
	if e.From != "" || e.Delivered() != kinds.DeliveredNo {
		t.Errorf("%+v", e)
	}
}
