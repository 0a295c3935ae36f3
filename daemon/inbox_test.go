package daemon

import (
	"context"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/daemon/inbox"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// What one caller was shown another cannot acknowledge: it has not read it.
func TestWhatWasShownIsEachCallersOwn(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	planner, _ := desk.guestAgent(client.AttachParams{Name: "planner", Kinds: []string{"query"}}, say(`{}`))
	reviewer, _ := desk.guestAgent(client.AttachParams{Name: "reviewer", Kinds: []string{"query"}}, say(`{}`))
	owner, sender := desk.dial(), laptop.dial()
	send := func() {
		t.Helper()
		sender.must("notify", client.NotifyParams{To: client.To("desk"), Payload: wire.Payload(`{"topic":"t"}`)}, nil)
	}
	removes := func(what string, l *program, p client.AckParams, want int) {
		t.Helper()
		var acked client.Acked
		if l.must("ack", p, &acked); acked.Removed != want {
			t.Errorf("%s removes %d, want %d", what, acked.Removed, want)
		}
		if stays := len(p.IDs) - want; len(p.IDs) > 0 && (len(acked.IDs) != want || len(acked.NotShown) != stays) {
			t.Errorf("%s: %v were removed, and %v were not shown, want %d and %d", what, acked.IDs, acked.NotShown, want, stays)
		}
	}
	send()
	all := get[client.Inbox](planner, "inbox", client.InboxParams{})
	id := []wire.MessageID{all.Messages[0].Envelope.ID}
	removes("the owner, who was shown nothing,", owner, client.AckParams{UpTo: 999}, 0)
	removes("the owner, by id,", owner, client.AckParams{IDs: id}, 0)
	removes("the reviewer, who was shown nothing,", reviewer, client.AckParams{UpTo: 999}, 0)
	removes("the reviewer, by id,", reviewer, client.AckParams{IDs: id}, 0)
	removes("the planner", planner, client.AckParams{IDs: id}, 1)

	send()
	owner.must("inbox", nil, nil)
	removes("the planner, whom only the owner was shown it,", planner, client.AckParams{UpTo: 999}, 0)
	removes("the owner, by a filter that leaves it out,", owner, client.AckParams{UpTo: 999, Kinds: []string{"result"}}, 0)
	removes("the owner", owner, client.AckParams{UpTo: 999}, 1)

	// More than one write takes.
	for range inbox.MaxRowsPerWrite + 3 {
		send()
	}
	planner.must("inbox", nil, nil)
	send()
	removes("the planner", planner, client.AckParams{UpTo: 999}, inbox.MaxRowsPerWrite+3)
}

// Who only peeks acknowledges nothing before it says what it has shown, and that is of
// its own alone.
func TestPeekingShowsNothing(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	planner, _ := desk.guestAgent(client.AttachParams{Name: "planner", Kinds: []string{"query"}}, say(`{}`))
	owner, sender := desk.dial(), laptop.dial()
	send := func() {
		t.Helper()
		sender.must("notify", client.NotifyParams{To: client.To("desk"), Payload: wire.Payload(`{"topic":"t"}`)}, nil)
	}
	peeks := func(l *program) (seqs []uint64) {
		t.Helper()
		all := get[client.Inbox](l, "inbox", client.InboxParams{Peek: true})
		for _, m := range all.Messages {
			seqs = append(seqs, m.Seq)
		}
		return seqs
	}
	removes := func(what string, l *program, want int) {
		t.Helper()
		var acked client.Acked
		if l.must("ack", client.AckParams{UpTo: 999}, &acked); acked.Removed != want {
			t.Errorf("%s removes %d, want %d", what, acked.Removed, want)
		}
	}
	wasShown := func(want int) {
		t.Helper()
		var state client.SessionState
		if planner.must("session", nil, &state); state.Shown != want {
			t.Errorf("%d of %d messages were shown to the planner, want %d", state.Shown, state.Unread, want)
		}
	}
	for what, l := range map[string]*program{"the owner": owner, "the planner": planner} {
		send()
		send()
		seqs := peeks(l)
		if len(seqs) != 2 {
			t.Fatalf("%s sees %v", what, seqs)
		}
		removes(what+", who has peeked,", l, 0)
		l.must("shown", client.ShownParams{Seqs: []uint64{seqs[0], seqs[1] + 1}}, nil)
		send() // under the number that was named too early
		if l == planner {
			wasShown(1)
		}
		removes(what+", who has shown one,", l, 1)
		wasShown(0)
		l.must("shown", client.ShownParams{Seqs: peeks(l)}, nil)
		removes(what+", who has shown the others,", l, 2)
	}
	for _, seqs := range [][]uint64{nil, make([]uint64, inbox.MaxListed+1)} {
		owner.refused(kinds.Invalid, "shown", client.ShownParams{Seqs: seqs})
	}
	desk.guest(say(`{}`)).refused(kinds.NotAuthorized, "shown", client.ShownParams{Seqs: []uint64{1}})

	// What is for one agent another cannot have been shown.
	ctx := t.Context()
	env := &wire.Envelope{V: 1, ID: wire.NewMessageID(), From: laptop.id, To: desk.id, Kind: kinds.KindNotify, Payload: wire.Payload(`{"topic":"t"}`)}
	if err := desk.inbox.AddMessage(ctx, env, "reviewer", ""); err != nil {
		t.Fatal(err)
	}
	seqs := peeks(owner)
	planner.must("shown", client.ShownParams{Seqs: seqs}, nil)
	removes("the planner, for whom it is not,", planner, 0)
	var acked client.Acked
	if planner.must("ack", client.AckParams{IDs: []wire.MessageID{env.ID}}, &acked); len(acked.NotShown) > 0 {
		t.Errorf("the planner learns of %v, which is not for it", acked.NotShown)
	}
	owner.must("shown", client.ShownParams{Seqs: seqs}, nil)
	removes("the owner", owner, 1)
}

// Who delegated and has waited removes the result from the inbox by the delegation: the owner what no
// agent gave, an agent or a connection of a guest its own.
func TestAResultIsAcknowledgedByItsDelegation(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	tasks := make(chan *client.Inbound, 9)
	worker := laptop.agent(client.AttachParams{Name: "worker", MaxConcurrent: 9}, into(t, tasks, accepted))
	planner, _ := desk.guestAgent(client.AttachParams{Name: "planner", Kinds: []string{"query"}}, say(`{}`))
	other, _ := desk.guestAgent(client.AttachParams{Name: "other", Kinds: []string{"query"}}, say(`{}`))
	owner := desk.dial()
	removes := func(what string, l *program, ref wire.MessageID, want, left int) {
		t.Helper()
		var acked client.Acked
		if l.must("ack", client.AckParams{Ref: ref}, &acked); acked.Removed != want {
			t.Errorf("%s removes %d, want %d", what, acked.Removed, want)
		}
		var all client.Inbox
		if owner.must("inbox", client.InboxParams{Peek: true}, &all); len(all.Messages) != left {
			t.Errorf("after %s %d messages are left, want %d", what, len(all.Messages), left)
		}
	}
	ends := func(by *program) wire.MessageID {
		t.Helper()
		id := delegateTo(by, "laptop", task1("")).ID
		worker.must("result", client.ResultParams{Ref: id, Payload: completed("done")}, nil)
		return id
	}
	owners, planners := ends(owner), ends(planner)
	open := delegateTo(owner, "laptop", task1("")).ID
	removes("the owner, of a delegation that goes on,", owner, open, 0, 2)
	removes("the owner, of the planner's,", owner, planners, 0, 2)
	removes("the owner", owner, owners, 1, 1)
	removes("the owner, once more,", owner, owners, 0, 1)
	other.refused(kinds.NotFound, "ack", client.AckParams{Ref: planners})
	planner.refused(kinds.NotFound, "ack", client.AckParams{Ref: owners})
	guest := desk.guest(nil) // no agent
	guest.refused(kinds.NotFound, "ack", client.AckParams{Ref: owners})
	owner.refused(kinds.NotFound, "ack", client.AckParams{Ref: wire.NewMessageID()})
	owner.refused(kinds.Invalid, "ack", client.AckParams{Ref: owners, UpTo: 9})
	worker.refused(kinds.NotFound, "ack", client.AckParams{Ref: owners})
	removes("the planner", planner, planners, 1, 0)
	removes("a guest", guest, ends(guest), 1, 0)
}

// A caller that has waited may acknowledge the result before the inbox has it: then it does not stay
// there.
func TestAResultIsAcknowledgedBeforeItIsHeld(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	worker := laptop.agent(client.AttachParams{Name: "worker"}, say(accepted))
	told, refuse := make(chan *client.Inbound, 1), make(chan struct{})
	desk.agent(client.AttachParams{Name: "slow", Kinds: []string{"result"}}, func(_ context.Context, r *jsonrpc.Request) {
		told <- bind(t, r)
		<-refuse
		r.RespondError(kinds.Errorf(kinds.Overloaded, "no"))
	})
	owner := desk.dial()
	id := delegateTo(owner, "laptop", task1("")).ID
	sent := later(worker, "result", client.ResultParams{Ref: id, Payload: completed("done")})
	await.Receive(t, "the agent is told", told)
	owner.must("wait", client.WaitParams{ID: id}, nil)
	acked := make(chan int, 1)
	go func() {
		var a client.Acked
		owner.call("ack", client.AckParams{Ref: id}, &a)
		acked <- a.Removed
	}()
	select {
	case <-acked:
		t.Fatal("the ack does not wait for the inbox")
	case <-time.After(50 * time.Millisecond):
	}
	close(refuse)
	if n := await.Receive(t, "the ack", acked); n != 1 {
		t.Errorf("the ack has removed %d", n)
	}
	if err := await.Receive(t, "the receipt", sent); err != nil {
		t.Error(err)
	}
	var all client.Inbox
	if owner.must("inbox", client.InboxParams{Peek: true}, &all); len(all.Messages) != 0 {
		t.Errorf("%d messages stay", len(all.Messages))
	}
}
