package daemon

import (
	"context"
	"strings"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/daemon/spending"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// An agent reserves and settles; only the owner sees what was spent. A restart forgets nothing,
// and after an untrust the peer's conversations are over.
// holds: security.md#agents-on-this-machine
// holds: security.md#headless-runs
func TestSpending(t *testing.T) {
	t.Parallel()
	dir := stateDir(t)
	writeConfig(t, dir, "spending: 2\n")
	desk, laptop := start(t, dir, "desk"), start(t, stateDir(t), "laptop")
	befriend(t, desk, laptop)
	claude := client.AttachParams{Name: "claude", Key: strings.Repeat("ab", 32)}
	agent, _ := desk.guestAgent(claude, say(accepted))
	work := func() client.ReserveParams {
		t.Helper()
		return client.ReserveParams{Profile: "claude", Peer: laptop.ID(), Ref: delegateTo(laptop.dial(), "desk", task1("")).ID, MaxCost: 1.5, MaxTokens: 1000}
	}
	reserve := work()
	var first, second client.Reserved
	agent.must("budget.reserve", reserve, &first)
	agent.refused(kinds.Overloaded, "budget.reserve", reserve)
	agent.must("budget.settle", client.SettleParams{ID: first.ID, Cost: 0.25, Tokens: 10}, nil)
	agent.refused(kinds.NotFound, "budget.settle", client.SettleParams{ID: first.ID})
	agent.refused(kinds.NotAuthorized, "budget.spent", nil)
	desk.stop()

	desk = start(t, dir, "desk")
	agent, _ = desk.guestAgent(claude, say(accepted))
	agent.must("budget.reserve", reserve, &second)
	if second.Trust != first.Trust || first.Trust == "" {
		t.Errorf("%+v, then %+v", first, second)
	}
	agent.refused(kinds.Overloaded, "budget.reserve", reserve)
	status := get[client.Status](desk.dial(), "status", nil)
	if len(status.Warnings) != 1 || !strings.Contains(status.Warnings[0], "laptop") || !strings.Contains(status.Warnings[0], "2.00 US dollars a day") {
		t.Errorf("warnings: %q", status.Warnings)
	}

	desk.dial().must("untrust", client.UntrustParams{Peer: "laptop"}, nil)
	agent.refused(kinds.NotFound, "budget.reserve", reserve)
	befriend(t, desk, laptop)
	reserve = work()
	reserve.MaxCost = 0
	third := get[client.Reserved](agent, "budget.reserve", reserve)
	if third.Trust == second.Trust {
		t.Errorf("trust is %q as before", third.Trust)
	}
	spent := get[client.Spent](desk.dial(), "budget.spent", nil)
	if len(spent.Rows) != 1 || spent.Rows[0].Runs != 3 || spent.Rows[0].Cost != 1.75 || spent.Rows[0].Tokens != 2010 || spent.Rows[0].Name != "laptop" ||
		spent.Limits.Runs != 20 || spent.Limits.Cost != 2 || spent.Limits.CostAll != 8 || spent.Limits.Tokens != 800_000 {
		t.Errorf("%+v", spent)
	}
	reserve.MaxTokens = 800_000
	agent.refused(kinds.Overloaded, "budget.reserve", reserve)
	writeConfig(t, dir, "spending: 4\n")
	if _, err := desk.reloadConfig(); err != nil {
		t.Fatal(err)
	}
	agent.must("budget.reserve", reserve, nil)
}

// A run is reserved for a request by the agent that works on it, while it does, and a few times at
// most. What has not begun is given back.
// holds: security.md#agents-on-this-machine
// holds: security.md#headless-runs
func TestRunsBelongToRequests(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	got, leave := make(chan *client.Inbound), make(chan string)
	agent, key := desk.guestAgent(client.AttachParams{Name: "claude", MaxConcurrent: 8}, func(_ context.Context, r *jsonrpc.Request) {
		got <- bind(t, r)
		r.Respond(wire.Payload(<-leave))
	})
	beside, other, nobody := desk.guest(nil), desk.guest(nil), desk.guest(nil)
	beside.must("speak", client.SpeakParams{Name: "claude", Key: key}, nil)
	other.must("attach", client.AttachParams{Name: "other", Kinds: []string{"notify"}}, nil)
	worker, _ := laptop.guestAgent(client.AttachParams{Name: "worker"}, say(accepted))
	given := delegateTo(agent, "laptop/worker", task1(""))
	for _, c := range []struct {
		what   string
		send   func(client.Head) <-chan error
		answer string
		goesOn bool // after the answer
	}{
		{"query", func(h client.Head) <-chan error {
			return later(laptop.dial(), "query", client.QueryParams{Head: h, To: "desk/claude", Payload: query("?")})
		}, mainBranch, false},
		{"question back", func(h client.Head) <-chan error {
			return later(worker, "query", client.QueryParams{Head: h, Ref: given.ID, Payload: query("?")})
		}, mainBranch, false},
		{"delegation", func(h client.Head) <-chan error {
			return later(laptop.dial(), "delegate", client.DelegateParams{Head: h, To: "desk/claude", Payload: task1("")})
		}, accepted, true},
		{"delegation without a result", func(h client.Head) <-chan error {
			return later(laptop.dial(), "delegate", client.DelegateParams{Head: h, To: "desk/claude", Payload: task1(`,"report_back":false`)})
		}, accepted, true},
		{"delegation that is refused", func(h client.Head) <-chan error {
			return later(laptop.dial(), "delegate", client.DelegateParams{Head: h, To: "desk/claude", Payload: task1("")})
		}, `{"accepted":false,"code":"overloaded"}`, false},
	} {
		h := client.Head{ID: wire.NewMessageID()}
		p := client.ReserveParams{Profile: "claude", Peer: laptop.ID(), Ref: h.ID}
		agent.refused(kinds.NotFound, "budget.reserve", p)
		ended := c.send(h)
		await.Receive(t, c.what, got)
		for _, l := range []*program{other, nobody} {
			l.refused(kinds.NotFound, "budget.reserve", p)
		}
		foreign := p
		foreign.Peer = desk.ID()
		agent.refused(kinds.NotFound, "budget.reserve", foreign)
		run := get[client.Reserved](agent, "budget.reserve", p)
		agent.refused(kinds.Invalid, "budget.settle", client.SettleParams{ID: run.ID, NotBegun: true, Tokens: 1})
		agent.must("budget.settle", client.SettleParams{ID: run.ID, NotBegun: true}, nil)
		beside.must("budget.reserve", p, nil)
		leave <- c.answer
		if err := await.Receive(t, c.what, ended); err != nil {
			t.Fatalf("%s: %v", c.what, err)
		}
		if !c.goesOn {
			await.Until(t, c.what+" is over", func() bool { // its sender may hear the answer before
				n, undo := desk.known.CountRun(nil, laptop.ID(), h.ID)
				undo()
				return n == 0
			})
			agent.refused(kinds.NotFound, "budget.reserve", p)
			continue
		}
		agent.must("budget.reserve", p, nil)
		desk.dial().must("budget.reserve", p, nil) // the owner
		agent.refused(kinds.Invalid, "budget.reserve", p)
		if c.what == "delegation" {
			agent.must("result", client.ResultParams{Ref: h.ID, Payload: completed("done")}, nil)
			agent.refused(kinds.NotFound, "budget.reserve", p)
		}
	}
	spent := get[client.Spent](desk.dial(), "budget.spent", nil)
	if len(spent.Rows) != 1 || spent.Rows[0].Runs != 9 {
		t.Errorf("%+v", spent.Rows)
	}
}

// A run that the budget refuses is none: it uses nothing of its request up.
func TestRefusedRunsUseNoRequestUp(t *testing.T) {
	t.Parallel()
	desk, laptop := startConfigured(t, "desk", "spending: 1\n"), start(t, stateDir(t), "laptop")
	befriend(t, desk, laptop)
	got, leave := make(chan *client.Inbound, 1), make(chan string)
	defer close(leave)
	agent, _ := desk.guestAgent(client.AttachParams{Name: "claude"}, func(_ context.Context, r *jsonrpc.Request) {
		got <- bind(t, r)
		r.Respond(wire.Payload(<-leave))
	})
	caller := laptop.dial()
	for _, c := range []struct {
		method, answer string
		params         any
	}{
		{"query", mainBranch, client.QueryParams{To: "desk", Payload: query("?")}},
		{"delegate", accepted, client.DelegateParams{To: "desk", Payload: task1("")}},
	} {
		ended := later(caller, c.method, c.params)
		p := client.ReserveParams{Profile: "claude", Peer: laptop.ID(), Ref: await.Receive(t, c.method, got).ID, MaxCost: 2}
		for range spending.MaxRunsOfRequest + 1 {
			agent.refused(kinds.Overloaded, "budget.reserve", p)
		}
		p.MaxCost = 0
		for range spending.MaxRunsOfRequest {
			agent.must("budget.reserve", p, nil)
		}
		agent.refused(kinds.Invalid, "budget.reserve", p)
		leave <- c.answer
		if err := await.Receive(t, c.method, ended); err != nil {
			t.Error(err)
		}
	}
}
