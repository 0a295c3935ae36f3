package daemon

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/peer"
	"github.com/acpd/acpd/wire"
)

// A message whose id is that of another peer's message is refused as long as that one is known:
// programs name messages by their ids. The id of a delegation that was given from here is refused to all, also to
// the peer that has it: cancel, wait and reply name both by that id.
// holds: security.md#agents-on-this-machine
func TestIDsOfOthersMessagesAreRefused(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	hostile := start(t, stateDir(t), "hostile")
	befriend(t, hostile, laptop)
	asked, answer := make(chan *client.Inbound, 9), make(chan struct{})
	laptop.agent(client.AttachParams{Name: "reviewer", Kinds: []string{"query", "delegate"}}, func(_ context.Context, r *jsonrpc.Request) {
		if r.Method == "delegate" {
			r.Respond(wire.Payload(accepted))
			return
		}
		asked <- bind(t, r)
		<-answer
		r.Respond(wire.Payload(mainBranch))
	})
	copies := func(when string, by *running, id wire.MessageID) {
		t.Helper()
		for method, params := range map[string]any{
			"notify":   client.NotifyParams{Head: client.Head{ID: id}, To: client.To("laptop"), Payload: wire.Payload(`{"topic":"t"}`)},
			"query":    client.QueryParams{Head: client.Head{ID: id}, To: "laptop", Payload: query("?")},
			"delegate": client.DelegateParams{Head: client.Head{ID: id}, To: "laptop", Payload: task1("")},
		} {
			if e := by.dial().refused(kinds.Invalid, method, params); e.From == "" {
				t.Errorf("%s: %s: %v", when, method, e)
			}
		}
	}
	forget := func() { laptop.repeats.ForgetPeer(desk.ID()) } // as after 10 minutes, or a restart

	note := client.NotifyParams{Head: client.Head{ID: wire.NewMessageID()}, To: client.To("laptop"), Payload: wire.Payload(`{"topic":"t"}`)}
	desk.dial().notify(note)
	copies("a notice that has come", hostile, note.ID)
	forget()
	copies("a notice that lies in the inbox", hostile, note.ID)
	desk.dial().notify(note) // a repeat is none

	open := client.QueryParams{Head: client.Head{ID: wire.NewMessageID()}, To: "laptop", Payload: query("?")}
	answered := make(chan error, 2)
	for range 2 {
		go func() { answered <- desk.dial().call("query", open, nil) }()
		await.Receive(t, "the query", asked)
	}
	copies("an open query", hostile, open.ID)
	close(answer)
	for range 2 {
		if err := await.Receive(t, "the answer", answered); err != nil {
			t.Error(err)
		}
	}

	given := delegateTo(desk.dial(), "laptop", task1(""))
	copies("a delegation that has come", hostile, given.ID)
	forget()
	copies("a delegation", hostile, given.ID)
	asked2 := client.DelegateParams{Head: client.Head{ID: given.ID}, To: "laptop", Payload: task1("")}
	desk.dial().must("delegate", asked2, nil)

	s := laptop.session("claude")
	shown := desk.dial().notify(s.notice("laptop"))
	s.must("ack", client.AckParams{IDs: s.unread()}, nil)
	forget()
	copies("a notice that a session was shown", hostile, shown.ID)

	desk.agent(client.AttachParams{Name: "worker", Kinds: []string{"delegate"}}, say(accepted))
	copies("a delegation that was given to it", desk, delegateTo(laptop.dial(), "desk", task1("")).ID)
}

// Of two peers that send messages of one id at the same moment, one is refused.
func TestOneIDAtTheSameMoment(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	hostile := start(t, stateDir(t), "hostile")
	befriend(t, hostile, laptop)
	for round := range 100 {
		id := wire.NewMessageID()
		var both sync.WaitGroup
		var taken atomic.Int32
		begin := make(chan struct{})
		for _, from := range []identity.ID{desk.ID(), hostile.ID()} {
			env := &wire.Envelope{V: 1, ID: id, From: from, To: laptop.ID(), TS: 1, Kind: kinds.KindNotify, Payload: wire.Payload(`{"topic":"t"}`)}
			message, err := kinds.CheckEnvelope(env)
			if err != nil {
				t.Fatal(err)
			}
			sender, _ := laptop.trust.FindPeer(from)
			both.Go(func() {
				<-begin
				_, err := laptop.incoming.HandleMessage(t.Context(), &peer.Passing{Checked: message, Inbound: true, Sender: sender})
				if err == nil {
					taken.Add(1)
				} else if e := kinds.AsError(err); e.Code != kinds.Invalid {
					t.Error(e)
				}
			})
		}
		close(begin)
		if both.Wait(); taken.Load() != 1 {
			t.Fatalf("round %d: %d are taken", round, taken.Load())
		}
	}
}

// A peer that may not send a message does not learn from its refusal which ids are known.
func TestRefusedPeersLearnNoIDs(t *testing.T) {
	t.Parallel()
	laptop, desk, hostile := startConfigured(t, "laptop", "policy: {hostile: {kinds: [ping]}}\n"), start(t, stateDir(t), "desk"), start(t, stateDir(t), "hostile")
	befriend(t, desk, laptop)
	befriend(t, hostile, laptop)
	note := desk.dial().notify(client.NotifyParams{To: client.To("laptop"), Payload: wire.Payload(`{"topic":"t"}`)})
	for _, id := range []wire.MessageID{note.ID, wire.NewMessageID()} {
		for method, params := range map[string]any{
			"notify":   client.NotifyParams{Head: client.Head{ID: id}, To: client.To("laptop"), Payload: wire.Payload(`{"topic":"t"}`)},
			"query":    client.QueryParams{Head: client.Head{ID: id}, To: "laptop", Payload: query("?")},
			"delegate": client.DelegateParams{Head: client.Head{ID: id}, To: "laptop", Payload: task1("")},
		} {
			hostile.dial().refused(kinds.NotAuthorized, method, params)
		}
	}
}

// A question has neither the id of a question of another peer, nor that of a delegation that was
// given to one: whoever answers names it by either.
// holds: security.md#agents-on-this-machine
func TestQuestionsHaveIDsOfTheirOwn(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	hostile := start(t, stateDir(t), "hostile")
	befriend(t, desk, hostile)
	worker, other := laptop.agent(client.AttachParams{Name: "reviewer"}, say(accepted)), hostile.agent(client.AttachParams{Name: "reviewer"}, say(accepted))
	given, to := delegateTo(desk.dial(), "laptop", task1("")), delegateTo(desk.dial(), "hostile", task1(""))
	id := wire.NewMessageID()
	ends := asks(worker, given.ID, id, which)
	desk.dial().question(given.ID, 0)
	for _, taken := range []wire.MessageID{given.ID, id} {
		wantCode(t, "the id of another peer's", kinds.Invalid, asks(other, to.ID, taken, which))
	}
	if q := asks(other, to.ID, wire.NewMessageID(), which); desk.dial().question(to.ID, 0) != nil {
		desk.dial().must("answer", client.AnswerParams{Ref: given.ID, Payload: wire.Payload(mainBranch)}, nil)
		wantAnswer(t, "the answer", ends)
		desk.dial().must("answer", client.AnswerParams{Ref: to.ID, Payload: wire.Payload(mainBranch)}, nil)
		wantAnswer(t, "the other's", q)
	}
}

// What follows from a message that a session was shown long after it came is no new chain.
// holds: security.md#agents-on-this-machine
func TestHopsOfWhatWasShownLate(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	s := laptop.session("claude")
	asker := desk.dial()
	r := asker.notify(s.notice("laptop"))
	s.next(false)
	laptop.repeats.ForgetPeer(desk.ID()) // as after 10 minutes, or a restart
	laptop.known.ForgetPeer(desk.ID())
	reply := client.NotifyParams{Head: client.Head{Parent: r.ID}, To: client.To("desk"), Payload: wire.Payload(`{"topic":"t"}`)}
	s.must("notify", reply, nil) // it lies in the inbox
	s.must("ack", client.AckParams{IDs: s.unread()}, nil)
	s.must("notify", reply, nil)
	laptop.known.ForgetPeer(desk.ID())
	s.refused(kinds.NotFound, "notify", reply)
	in := get[client.Inbox](asker, "inbox", nil)
	if len(in.Messages) != 2 || in.Messages[0].Envelope.Hops != 1 || in.Messages[1].Envelope.Hops != 1 {
		t.Errorf("%+v", in.Messages)
	}
}

func TestParentCarriesThreadAndHops(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	// Two agents that ask each other for ever: the chain ends by itself.
	var deepest atomic.Uint64
	ends := make(chan error, 1)
	relay := func(d *running, to string) {
		var l *program
		ready := make(chan struct{})
		l = d.agent(client.AttachParams{Name: "relay", MaxConcurrent: 64}, func(_ context.Context, r *jsonrpc.Request) {
			<-ready
			in := bind(t, r)
			if in.Thread != "ring" {
				t.Errorf("hop %d has thread %q", in.Hops, in.Thread)
			}
			deepest.Store(in.Hops)
			var a client.Answer
			if err := l.call("query", client.QueryParams{Head: client.Head{Parent: in.ID}, To: to, Payload: in.Payload}, &a); err != nil {
				r.RespondError(err)
				return
			}
			r.Respond(a.Payload)
		})
		close(ready)
	}
	relay(laptop, "desk")
	relay(desk, "laptop")
	go func() {
		ends <- desk.dial().call("query", client.QueryParams{Head: client.Head{Thread: "ring"}, To: "laptop", Payload: query("round?")}, nil)
	}()
	if err := await.Receive(t, "the end of the ring", ends); !errors.Is(err, &kinds.Error{Code: kinds.LoopDetected}) {
		t.Error(err)
	}
	if deepest.Load() != wire.MaxHops {
		t.Errorf("the chain ended at hop %d", deepest.Load())
	}
	asker := desk.dial()
	if e := asker.refused(kinds.NotFound, "query", client.QueryParams{Head: client.Head{Parent: wire.NewMessageID()}, To: "laptop", Payload: query("?")}); e.Reason() != kinds.ReasonParentUnknown {
		t.Errorf("a parent that nobody knows: %+v", e)
	}
	asker.refused(kinds.Invalid, "query", client.QueryParams{Head: client.Head{Parent: wire.NewMessageID(), Thread: "t"}, To: "laptop", Payload: query("?")})
}
