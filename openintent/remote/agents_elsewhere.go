package remote

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/openintent/object"
	"github.com/acpd/acpd/store"
)

const (
	askEvery  = 30 * time.Second // between two questions to a home in reach
	stateTime = 10 * time.Second // in which a home must answer
)

// askHomes asks the homes in reach what has become of their agents, until ctx ends: each when it
// comes into reach, and all now and then. It asks about agents on which something here depends.
func (g *Gateway) askHomes(ctx context.Context) {
	runHostWorkers(ctx, askEvery, g.arrival, g.takeHomesToAsk, func(home identity.ID) {
		if err := g.askHome(ctx, home); err != nil && ctx.Err() == nil {
			g.log.Debug("what has become of agents elsewhere is not known", "home", home.Label(), "err", err)
		}
	})
}

// takeHomesToAsk returns the homes in reach if it is time to ask all, or else those that have come
// into reach since the last call.
func (g *Gateway) takeHomesToAsk(onTime bool) []identity.ID {
	g.mu.Lock()
	arrived := g.arrived
	g.arrived = nil
	g.mu.Unlock()
	if onTime {
		return g.cfg.Hosts()
	}
	return arrived
}

// askHome asks one home, in requests about as many agents as one may have.
func (g *Gateway) askHome(ctx context.Context, home identity.ID) error {
	for agents := range slices.Chunk(g.Engine.ListAwaitedAgents()[home.String()], object.MaxAsked) {
		if err := g.askAboutAgents(ctx, home, agents); err != nil {
			return err
		}
	}
	return nil
}

// askAboutAgents asks a home about these agents, and stores its answer.
func (g *Gateway) askAboutAgents(ctx context.Context, home identity.ID, agents []string) error {
	body, err := json.Marshal(object.ListOf{Agents: agents})
	if err != nil {
		return err
	}
	within, cancel := context.WithTimeout(ctx, stateTime)
	defer cancel()
	status, answer, err := g.fetchFromHost(within, maxNamed, nil, home, object.Daemon, http.MethodPost, apiPath+"departed", body)
	if err == nil && status != http.StatusOK {
		err = ownwords.Errorf("it answered with status %d", status)
	}
	var said object.AgentStates
	if err == nil {
		err = json.Unmarshal(answer, &said)
	}
	if err != nil {
		return err
	}
	return g.Engine.StoreAgentStates(store.WithRequester(ctx, home), home.String(), agents, said)
}
