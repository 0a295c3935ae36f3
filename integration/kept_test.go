package integration

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// correspondent is an agent that notes what comes.
type correspondent struct {
	*client.Client
	mu  sync.Mutex
	got map[wire.MessageID]int // requests by their id, ends by what they are about
}

func (m *machine) attachCorrespondent(name string) *correspondent {
	a := &correspondent{got: make(map[wire.MessageID]int)}
	note := func(id wire.MessageID) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.got[id]++
	}
	ended := func(_ context.Context, in *client.Inbound) error { note(*in.Ref); return nil }
	a.Client = m.Attach(client.AttachParams{Name: name}, client.Handler{
		Query: func(_ context.Context, in *client.Inbound) (any, error) {
			note(in.ID)
			return &kinds.Response{Summary: "yes"}, nil
		},
		Delegate: func(_ context.Context, in *client.Inbound) (*kinds.Ack, error) {
			note(in.ID)
			return &kinds.Ack{Accepted: true}, nil
		},
		Notify: func(_ context.Context, in *client.Inbound) error { note(in.ID); return nil },
		Result: ended, Error: ended,
	})
	return a
}

func (a *correspondent) count(id wire.MessageID) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.got[id]
}

// keep sends one message of each kind to a peer that is away, and returns their ids.
func (a *correspondent) keep(t *testing.T, to string) (ids []wire.MessageID) {
	t.Helper()
	const ms = 3_600_000
	_, asked := a.Query(await.NewContext(t), client.QueryParams{To: to, KeepMS: ms, Payload: kinds.EncodePayload(&kinds.Query{Question: "?"})})
	_, notified := a.Notify(await.NewContext(t), client.NotifyParams{To: client.To(to), KeepMS: ms, Payload: kinds.EncodePayload(&kinds.Notify{Topic: "build"})})
	_, given := a.Delegate(await.NewContext(t), client.DelegateParams{To: to, KeepMS: ms, Payload: kinds.EncodePayload(&kinds.Delegate{Task: "review"})})
	for _, err := range []error{asked, notified, given} {
		kept := client.FindKept(err)
		if kept == nil {
			t.Fatalf("it is not kept: %v", err)
		}
		ids = append(ids, kept.ID)
	}
	return ids
}

// countHeldEnds returns how many messages in the inbox report the end of a message.
func (m *machine) countHeldEnds(t *testing.T, of wire.MessageID) (n int) {
	held, err := m.Client.Inbox(await.NewContext(t), client.InboxParams{Peek: true})
	if err != nil {
		return 0
	}
	for i := range held.Messages {
		if ref := held.Messages[i].Envelope.Ref; ref != nil && *ref == of {
			n++
		}
	}
	return n
}

// TestKeptSurvivesKills kills both daemons with messages that they keep for each other: each message arrives once, and its
// sender hears so once.
func TestKeptSurvivesKills(t *testing.T) {
	t.Parallel()
	desk, laptop := friends(t)
	planner, reviewer := desk.attachCorrespondent("planner"), laptop.attachCorrespondent("reviewer")
	laptop.AwaitAgent("reviewer")
	id := laptop.status().ID
	laptop.KillDaemon()
	await.Until(t, "desk sees that laptop is away", func() bool { return desk.FindPeer(id).State != client.PeerConnected })
	fromDesk := planner.keep(t, "laptop")
	desk.KillDaemon()
	laptop.StartDaemon()
	laptop.AwaitAgent("reviewer")
	fromLaptop := reviewer.keep(t, "desk")
	laptop.KillDaemon()
	desk.StartDaemon()
	if all := desk.MustOutput("tasks", "--json"); strings.Count(all, `"kept"`) < len(fromDesk) {
		t.Errorf("desk keeps: %s", all)
	}
	laptop.StartDaemon()
	var seen string
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(seen)
		}
	})
	arrive := func(m *machine, sender, receiver *correspondent, ids []wire.MessageID) {
		t.Helper()
		want := []client.TaskState{client.TaskCompleted, client.TaskHanded, client.TaskAccepted}
		for i, id := range ids {
			longer(t, "it has arrived, and its sender has heard so", func() bool {
				task, err := m.Client.Task(await.NewContext(t), id)
				told := sender.count(id) + m.countHeldEnds(t, id) // an end that comes before the agent is there again is held
				// An answer and a receipt are told to the agent; a delegation that its peer has is told of when it ends.
				seen = fmt.Sprintf("%s of %s: %+v, it came %d times, and its end %d times; %v", id, want[i], task, receiver.count(id), told, err)
				// A notification that comes before the agent is there again is held.
				arrived := err == nil && (task.State == want[i] && receiver.count(id) == 1 || task.State == client.TaskHeld && receiver.count(id) == 0)
				return arrived && (want[i] == client.TaskAccepted || told == 1)
			})
		}
	}
	arrive(desk, planner, reviewer, fromDesk)
	arrive(laptop, reviewer, planner, fromLaptop)
	desk.KillDaemon()
	laptop.KillDaemon()
	desk.StartDaemon()
	laptop.StartDaemon()
	desk.AwaitAgent("planner")
	laptop.AwaitAgent("reviewer")
	arrive(desk, planner, reviewer, fromDesk)
	arrive(laptop, reviewer, planner, fromLaptop)
	if out := desk.MustOutput("wait", fromDesk[0].String()); !strings.Contains(out, "yes") {
		t.Errorf("acpctl wait prints %q", out)
	}
}
