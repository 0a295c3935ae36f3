package daemon

import (
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/daemon/registry"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
)

// Nobody takes an agent's name over in the agents' folder. While the agent is away and
// has open work, its key alone gives the name again, also after a restart.
// holds: security.md#agents-on-this-machine
func TestANameWithOpenWorkNeedsItsKey(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	planner, key := desk.guestAgent(client.AttachParams{Name: "planner"}, say(accepted))
	if _, err := registry.HashAgentKey("attach", key); err != nil {
		t.Fatal(err)
	}
	g := desk.guest(nil)
	g.refused(kinds.NotAuthorized, "attach", client.AttachParams{Name: "planner", TakeOver: true})
	g.refused(kinds.NotAuthorized, "attach", client.AttachParams{Name: "planner", TakeOver: true, Key: key})
	if e := g.refused(kinds.Invalid, "attach", client.AttachParams{Name: "planner"}); strings.Contains(e.Message, "take_over") {
		t.Errorf("it names what does not help: %s", e.Message)
	}
	g.refused(kinds.Invalid, "attach", client.AttachParams{Name: "planner", Key: "secret"})
	taken := delegateTo(laptop.dial(), "desk", task1(`,"deadline_ms":3600000`))

	leave := func(l *program) {
		t.Helper()
		l.Close()
		await.Until(t, "it has left", func() bool { return desk.agents.FindByName("planner") == nil })
	}
	leave(planner)
	kept := func() {
		t.Helper()
		g := desk.guest(say(accepted))
		if e := g.refused(kinds.NotAuthorized, "attach", client.AttachParams{Name: "planner"}); !strings.Contains(e.Message, "show its key") {
			t.Errorf("%s", e.Message)
		}
		g.refused(kinds.NotAuthorized, "attach", client.AttachParams{Name: "planner", Key: registry.NewAgentKey()})
		g.must("attach", client.AttachParams{Name: "another"}, nil) // any other name is free
	}
	kept()
	back, same := desk.guestAgent(client.AttachParams{Name: "planner", Key: key}, say(accepted))
	if same != key {
		t.Errorf("the key changed to %q", same)
	}
	// With its key it also comes back before the daemon has seen that it left.
	twice, _ := desk.guestAgent(client.AttachParams{Name: "planner", Key: key}, say(accepted))
	await.Receive(t, "the end of the connection before", back.Done())
	leave(twice)

	desk.stop()
	desk = start(t, desk.dir, "desk")
	kept()
	// The daemon's owner is not asked for a key, and the open work passes on.
	owned := desk.agent(client.AttachParams{Name: "planner"}, say(accepted))
	leave(owned)
	g = desk.guest(nil)
	g.refused(kinds.NotAuthorized, "attach", client.AttachParams{Name: "planner", Key: key})
	desk.agents.ProtectName("planner", registry.KeyHash{}, time.Now().Add(-registry.NameKeptFor))
	last, _ := desk.guestAgent(client.AttachParams{Name: "planner"}, say(accepted))
	var s client.Task
	if last.must("task", client.TaskParams{ID: taken.ID}, &s); s.State != client.TaskAccepted || s.Agent != "planner" {
		t.Errorf("after the time the open work did not pass on: %+v", s)
	}
	await.Until(t, "desk and laptop are connected", func() bool { _, ok := desk.node.Peer(laptop.ID()); return ok })
	last.must("result", client.ResultParams{Ref: taken.ID, Payload: completed("done")}, nil)
	// Without open work the name is for whoever comes.
	leave(last)
	desk.guestAgent(client.AttachParams{Name: "planner"}, say(accepted))
}

// Whoever attaches under a name that is free gets what waits for that name, but not what the agent
// had before it: that needs the key.
// holds: security.md#agents-on-this-machine
func TestAFreeNameGetsWhatWaitsForIt(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	worker := laptop.agent(client.AttachParams{Name: "reviewer"}, say(accepted))
	first := desk.session("claude")
	given := delegateTo(first.program, "laptop", task1(""))
	worker.must("result", client.ResultParams{Ref: given.ID, Payload: completed("done")}, nil)
	held := laptop.dial().notify(first.notice("desk"))
	desk.guest(nil).refused(kinds.Invalid, "attach", client.AttachParams{Name: "claude", Session: claude})
	first.Close()
	await.Until(t, "the session has ended", func() bool { return desk.agents.FindByName("claude") == nil })
	second := desk.session("claude")
	if ids := second.unread(); len(ids) != 2 || ids[1] != held.ID {
		t.Errorf("%d messages wait for the name", len(ids))
	}
	second.refused(kinds.NotFound, "task", client.TaskParams{ID: given.ID})
}
