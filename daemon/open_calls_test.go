package daemon

import (
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/peer"
	"github.com/acpd/acpd/wire"
)

// A peer with many open queries hides no other's queries and delegations, and whoever looks is told how many
// are left out.
func TestOpenCallsOfManyAndOfFew(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	laptop.agent(client.AttachParams{Name: "reviewer"}, say(accepted))
	begin := func(from identity.ID, text string) {
		t.Helper()
		c, err := kinds.CheckEnvelope(wire.NewEnvelope(from, laptop.ID(), kinds.KindQuery, query(text)))
		if err != nil {
			t.Fatal(err)
		}
		laptop.watch.Began(&peer.Passing{Checked: c, Inbound: true, Began: time.Now()})
	}
	const flood = 5000
	for range flood {
		begin(identity.ID{1}, "flood")
	}
	given := delegateTo(desk.dial(), "laptop", task1(""))
	begin(desk.ID(), "asked")
	a := laptop.watcher().read(client.TrafficParams{Open: true})
	var texts []string
	for _, e := range a.Open {
		if e.Peer == desk.ID() {
			texts = append(texts, e.Name+" "+e.Text)
			if e.Kind == kinds.KindDelegate && e.ID != given.ID {
				t.Errorf("%+v", e)
			}
		}
	}
	if len(texts) != 2 || texts[0] != "desk mend it" || texts[1] != "desk asked" || len(a.Open)+a.OpenMore != flood+2 || a.Open[0].Text != "flood" || len(a.Open) < 200 {
		t.Errorf("%q; %d calls, %d more", texts, len(a.Open), a.OpenMore)
	}
	if a := laptop.watcher().read(client.TrafficParams{Open: true, Peers: []string{"desk"}}); len(a.Open) != 2 || a.OpenMore != 0 {
		t.Errorf("%d calls, %d more", len(a.Open), a.OpenMore)
	}
}
