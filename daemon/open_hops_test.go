package daemon

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/wire"
)

// Open calls say how many messages led to them, at both ends: queries, and delegations, which are kept.
func TestOpenCallsHaveHops(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	release, asked := make(chan struct{}), make(chan struct{})
	desk.agent(client.AttachParams{Name: "clerk"}, func(_ context.Context, r *jsonrpc.Request) {
		if r.Method == "delegate" {
			r.Respond(wire.Payload(accepted))
			return
		}
		close(asked)
		<-release
		r.Respond(wire.Payload(`{"summary":"main"}`))
	})
	var reviewer *program
	ready := make(chan struct{})
	reviewer = laptop.agent(client.AttachParams{Name: "reviewer"}, func(_ context.Context, r *jsonrpc.Request) {
		<-ready
		head := client.Head{Parent: bind(t, r).ID}
		var given client.DelegateAnswer
		var a client.Answer
		if err := reviewer.call("delegate", client.DelegateParams{Head: head, To: "desk/clerk", Payload: task1("")}, &given); err != nil {
			r.RespondError(err)
		} else if err := reviewer.call("query", client.QueryParams{Head: head, To: "desk/clerk", Payload: query("Which branch?")}, &a); err != nil {
			r.RespondError(err)
		} else {
			r.Respond(a.Payload)
		}
	})
	close(ready)
	planner, ended := desk.dial(), make(chan error, 1)
	go func() {
		ended <- planner.call("query", client.QueryParams{To: "laptop/reviewer", Payload: query("What is deployed?")}, nil)
	}()
	await.Receive(t, "the chain is there", asked)
	for d, want := range map[*running][]string{
		desk:   {"in delegate 1", "in query 1", "out query 0"},
		laptop: {"in query 0", "out delegate 1", "out query 1"},
	} {
		var got []string
		for _, e := range d.watcher().read(client.TrafficParams{Open: true}).Open {
			got = append(got, fmt.Sprint(e.Direction, " ", e.Kind, " ", e.Hops))
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
	close(release)
	if err := await.Receive(t, "it is over", ended); err != nil {
		t.Error(err)
	}
}
