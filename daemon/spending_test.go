package daemon

import (
	"strings"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
)

// An agent reserves and settles; only the owner sees what was spent. A restart forgets nothing,
// and after an untrust the peer's conversations are over.
func TestSpending(t *testing.T) {
	t.Parallel()
	dir := stateDir(t)
	writeConfig(t, dir, "spending: {runs: 3, usd: 2}\n")
	desk := start(t, dir, "desk")
	laptop := identity.ID{9}
	trust := client.TrustParams{Peer: laptop.String(), Name: "laptop"}
	desk.dial().must("trust", trust, nil)
	agent, _ := desk.guestAgent(client.AttachParams{Name: "claude"}, say(`{}`))
	reserve := client.ReserveParams{Profile: "claude", Peer: "laptop", MaxCost: 1.5, MaxTokens: 1000}
	desk.guest(nil).refused(kinds.NotAuthorized, "budget.reserve", reserve)
	desk.guest(nil).refused(kinds.NotAuthorized, "budget.settle", client.SettleParams{ID: "00"})
	var first, second client.Reserved
	agent.must("budget.reserve", reserve, &first)
	agent.refused(kinds.Overloaded, "budget.reserve", reserve)
	agent.must("budget.settle", client.SettleParams{ID: first.ID, Cost: 0.25, Tokens: 10}, nil)
	agent.refused(kinds.NotFound, "budget.settle", client.SettleParams{ID: first.ID})
	agent.refused(kinds.UnknownPeer, "budget.reserve", client.ReserveParams{Profile: "claude", Peer: "nobody"})
	agent.refused(kinds.NotAuthorized, "budget.spent", nil)
	desk.stop()

	desk = start(t, dir, "desk")
	agent, _ = desk.guestAgent(client.AttachParams{Name: "claude"}, say(`{}`))
	agent.must("budget.reserve", reserve, &second)
	if first.Peer != laptop || second.Trust != first.Trust || first.Trust == "" {
		t.Errorf("%+v, then %+v", first, second)
	}
	agent.refused(kinds.Overloaded, "budget.reserve", reserve)
	var status client.Status
	desk.dial().must("status", nil, &status)
	if len(status.Warnings) != 1 || !strings.Contains(status.Warnings[0], "laptop") || !strings.Contains(status.Warnings[0], "2.00 US dollars a day") {
		t.Errorf("warnings: %q", status.Warnings)
	}

	desk.dial().must("untrust", client.UntrustParams{Peer: "laptop"}, nil)
	agent.refused(kinds.UnknownPeer, "budget.reserve", reserve)
	desk.dial().must("trust", trust, nil)
	var third client.Reserved
	agent.must("budget.reserve", client.ReserveParams{Profile: "claude", Peer: "laptop"}, &third)
	if third.Trust == second.Trust {
		t.Errorf("trust is %q as before", third.Trust)
	}
	var spent client.Spent
	desk.dial().must("budget.spent", nil, &spent)
	if len(spent.Rows) != 1 || spent.Rows[0].Runs != 3 || spent.Rows[0].Cost != 1.75 || spent.Rows[0].Tokens != 1010 || spent.Rows[0].Name != "laptop" ||
		spent.Limits.Runs != 3 || spent.Limits.Cost != 2 || spent.Limits.CostAll != 20 || spent.Limits.Tokens != 2_000_000 {
		t.Errorf("%+v", spent)
	}
	agent.refused(kinds.Overloaded, "budget.reserve", client.ReserveParams{Profile: "claude", Peer: "laptop"})
	writeConfig(t, dir, "spending: {runs: 4}\n")
	if err := desk.reloadConfig(); err != nil {
		t.Fatal(err)
	}
	agent.must("budget.reserve", client.ReserveParams{Profile: "claude", Peer: "laptop"}, nil)
}
