package daemon

import (
	"testing"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/client"
)

// Strangers are shown by the link on which they are, and under no id.
func TestUsageOfStrangers(t *testing.T) {
	t.Parallel()
	desk := start(t, stateDir(t), "desk")
	l := desk.dial()
	l.must("relay.add", client.RelayAddParams{URL: "tls://127.0.0.1:1", Name: "hub", NoCheck: true}, nil)
	account := desk.budget.OpenAccount(budget.LogLines)
	for _, link := range []string{"", "relay:hub", "pipe", "relay:gone"} {
		if err := account.Reserve(budget.StrangersOn(link), 1); err != nil {
			t.Fatal(err)
		}
	}
	var b client.Budget
	l.must("budget", nil, &b)
	shown := make(map[string]int)
	for _, u := range b.Usage {
		if u.Row == budget.LogLines.Name && u.Peer.IsZero() {
			shown[u.Name]++
		}
	}
	for _, name := range []string{"strangers", "strangers on relay:hub", "strangers on pipe", "strangers on a relay that was removed"} {
		if shown[name] != 1 {
			t.Errorf("%s: %d rows of %v", name, shown[name], shown)
		}
	}
}
