package traffic

import (
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
)

func TestFilter(t *testing.T) {
	e := client.TrafficEntry{Peer: laptop, Kind: kinds.KindNotify, Topic: "ci.test", Thread: "release 7", Agent: "reviewer", FromAgent: "planner"}
	for _, c := range []struct {
		f    Filter
		want bool
	}{
		{Filter{}, true},
		{Filter{Kinds: []string{"query", "notify"}}, true},
		{Filter{Kinds: []string{"query"}}, false},
		{Filter{Peers: []identity.ID{desk, laptop}}, true},
		{Filter{Peers: []identity.ID{desk}}, false},
		{Filter{Threads: []string{"release 7"}}, true},
		{Filter{Threads: []string{"release"}}, false},
		{Filter{Agents: []string{"reviewer"}}, true},
		{Filter{Agents: []string{"planner"}}, true},
		{Filter{Agents: []string{"build"}}, false},
		{Filter{Topics: []string{"ci"}}, true},
		{Filter{Topics: []string{"ci.test"}}, true},
		{Filter{Topics: []string{"c", "ci.test.unit"}}, false},
		{Filter{Topics: []string{"ci"}, Kinds: []string{"notify"}, Peers: []identity.ID{laptop}, Threads: []string{"release 7"}, Agents: []string{"planner"}}, true},
		{Filter{Topics: []string{"ci"}, Kinds: []string{"notify"}, Peers: []identity.ID{laptop}, Threads: []string{"release 7"}, Agents: []string{"build"}}, false},
	} {
		if got := c.f.Selects(&e); got != c.want {
			t.Errorf("%+v: %v", c.f, got)
		}
	}
	q := client.TrafficEntry{Kind: kinds.KindQuery}
	if f := (Filter{Topics: []string{""}}); f.Selects(&q) {
		t.Error("a query has no topic")
	}
}
