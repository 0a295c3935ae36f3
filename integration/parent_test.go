package integration

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// TestNobodyWorksForSomebodyWhoHasGone: an agent that is asked with a deadline asks another one for more time, with its
// handler's context and without a word about what led to it. When the asker has gone, so is what it asked, and the
// three daemons have one name for the chain meanwhile.
func TestNobodyWorksForSomebodyWhoHasGone(t *testing.T) {
	t.Parallel()
	desk, laptop := friends(t)
	build := running(t, "build")
	befriend(t, laptop, build)
	stopped, ended := make(chan error, 1), make(chan error, 1)
	chains := make(chan string, 9)
	build.attach(client.AttachParams{Name: "builder"}, client.Handler{Query: func(ctx context.Context, in *client.Inbound) (any, error) {
		for _, m := range []*machine{desk, laptop, build} {
			a, err := m.Client.Traffic(ctx, &client.TrafficParams{Open: true})
			if err != nil {
				return nil, err
			}
			for _, e := range a.Open {
				chains <- e.Chain
			}
		}
		<-ctx.Done()
		stopped <- ctx.Err()
		return nil, ctx.Err()
	}})
	lead := make(chan *client.Client, 1)
	lead <- laptop.attach(client.AttachParams{Name: "lead"}, client.Handler{Query: func(ctx context.Context, _ *client.Inbound) (any, error) {
		_, err := (<-lead).Query(context.WithoutCancel(ctx), client.QueryParams{To: "build", Payload: wire.Payload(`{"question":"?","deadline_ms":240000}`)})
		ended <- err
		return nil, err
	}})
	desk.RunAcpctl(kinds.Timeout.Info().Exit, "query", "laptop/lead", "?", "--deadline", "5s")
	if err := await.Receive(t, "the end of the second query", ended); !errors.Is(err, &kinds.Error{Code: kinds.Cancelled}) || !strings.Contains(err.Error(), "the request that this follows from ended") {
		t.Errorf("%v", err)
	}
	await.Receive(t, "the builder stops", stopped)
	close(chains)
	var all []string
	for chain := range chains {
		all = append(all, chain)
	}
	if len(all) != 4 || len(all[0]) != 32 || strings.Count(strings.Join(all, ""), all[0]) != 4 {
		t.Errorf("the chain is %q", all)
	}
}
