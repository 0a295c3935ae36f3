package carrier

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/openintent"
)

const (
	strangerTick = 5 * time.Second  // a request to each peer of which there are strangers
	strangerTime = 10 * time.Second // for a peer to answer
	maxStrangers = 256 << 10        // bytes of what it says: the ids of a thousand
)

// watchStrangers asks the peers in reach what has become of agents of theirs that are
// members of channels here and have never come, until ctx ends. Of those that have come
// their home tells by itself.
func (c *Carrier) watchStrangers(ctx context.Context) {
	tick := time.NewTicker(strangerTick)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		var asking sync.WaitGroup
		for _, peer := range c.cfg.Hosts() {
			asking.Go(func() {
				if err := c.askDeparted(ctx, peer); err != nil && ctx.Err() == nil {
					c.log.Debug("what has become of agents elsewhere is not known", "peer", peer.Label(), "err", err)
				}
			})
		}
		asking.Wait()
	}
}

// askDeparted takes out of the channels here which of a peer's strangers are gone.
func (c *Carrier) askDeparted(ctx context.Context, peer identity.ID) error {
	type list struct {
		Agents []string `json:"agents"`
	}
	asked := list{c.Engine.Strangers(peer.String())}
	if len(asked.Agents) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, strangerTime)
	defer cancel()
	body, err := json.Marshal(asked)
	if err != nil {
		return err
	}
	status, answer, err := c.ask(ctx, maxStrangers, peer, openintent.Daemon, http.MethodPost, api+"departed", body)
	if err != nil || status != http.StatusOK {
		return err
	}
	var gone list
	if err := json.Unmarshal(answer, &gone); err != nil {
		return err
	}
	return c.Engine.Depart(ctx, peer.String(), slices.DeleteFunc(gone.Agents, func(id string) bool { return !slices.Contains(asked.Agents, id) }))
}
