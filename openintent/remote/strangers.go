package remote

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/openintent"
	"github.com/acpd/acpd/store"
)

const (
	strangerTick  = 5 * time.Second  // a request to a peer of which there are new strangers
	strangerPause = time.Minute      // between requests for the same strangers, at most
	strangerTime  = 10 * time.Second // for a peer to answer
	maxStrangers  = 256 << 10        // bytes of what it says: the ids of a thousand
)

// watchStrangers asks the peers in reach what has become of agents of theirs that are
// members of channels here and have never come, until ctx ends. Of those that have come
// their home tells by itself. No peer waits for another.
func (g *Gateway) watchStrangers(ctx context.Context) {
	var mu sync.Mutex
	asked := make(map[identity.ID]*departedQuery) // by peer in reach
	workers := newHostWorkers(func(peer identity.ID) {
		mu.Lock()
		q := asked[peer]
		if q == nil {
			q = new(departedQuery)
			asked[peer] = q
		}
		mu.Unlock()
		strangers := g.Engine.Strangers(peer.String())
		if !q.isDue(strangers, time.Now()) {
			return
		}
		if err := g.askDeparted(ctx, peer, strangers); err != nil && ctx.Err() == nil {
			g.log.Debug("what has become of agents elsewhere is not known", "peer", peer.Label(), "err", err)
		}
	})
	defer workers.waitAll()
	tick := time.NewTicker(strangerTick)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		reach := g.cfg.Hosts()
		mu.Lock()
		maps.DeleteFunc(asked, func(peer identity.ID, _ *departedQuery) bool { return !slices.Contains(reach, peer) })
		mu.Unlock()
		for _, peer := range reach {
			workers.start(peer)
		}
	}
}

// departedQuery is what a peer was asked last.
type departedQuery struct {
	strangers []string
	next      time.Time // when it is asked the same again
	pause     time.Duration
}

// isDue reports whether it is time to ask of these strangers: at once where they are
// others than the last time, else after a pause that doubles. It sorts them.
func (q *departedQuery) isDue(strangers []string, now time.Time) bool {
	slices.Sort(strangers)
	if !slices.Equal(strangers, q.strangers) {
		*q = departedQuery{strangers: strangers, next: now, pause: strangerTick}
	}
	if len(strangers) == 0 || now.Before(q.next) {
		return false
	}
	q.next, q.pause = now.Add(q.pause-strangerTick/2), min(2*q.pause, strangerPause)
	return true
}

// askDeparted takes out of the channels here which of a peer's strangers are gone.
func (g *Gateway) askDeparted(ctx context.Context, peer identity.ID, strangers []string) error {
	type list struct {
		Agents []string `json:"agents"`
	}
	ctx, cancel := context.WithTimeout(ctx, strangerTime)
	defer cancel()
	body, err := json.Marshal(list{strangers})
	if err != nil {
		return err
	}
	status, answer, err := g.askHost(ctx, maxStrangers, peer, openintent.Daemon, http.MethodPost, apiPath+"departed", body)
	if err != nil || status != http.StatusOK {
		return err
	}
	var gone list
	if err := json.Unmarshal(answer, &gone); err != nil {
		return err
	}
	return g.Engine.Depart(store.For(ctx, peer), peer.String(), slices.DeleteFunc(gone.Agents, func(id string) bool { return !slices.Contains(strangers, id) }))
}
