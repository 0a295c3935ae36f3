package remote

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/openintent"
	"github.com/acpd/acpd/store"
)

const (
	absentTick  = 5 * time.Second  // between looks for absent members; new ones are asked for at once
	absentPause = time.Minute      // between requests for the same ones, at most
	absentTime  = 10 * time.Second // in which a peer must answer
	maxIDList   = 256 << 10        // bytes of the answer: the ids of a thousand agents
)

// watchAbsentMembers asks the peers in reach what has become of absent members, until ctx ends.
// These are agents of the peer that are members of channels here and have never come. Of agents
// that have come, the peer tells by itself.
func (g *Gateway) watchAbsentMembers(ctx context.Context) {
	asked := make(map[identity.ID]*absenceCheck) // by peer in reach
	runHostWorkers(ctx, absentTick, nil, func(bool) (due []identity.ID) {
		reach := g.cfg.Hosts()
		maps.DeleteFunc(asked, func(peer identity.ID, _ *absenceCheck) bool { return !slices.Contains(reach, peer) })
		for _, peer := range reach {
			if asked[peer] == nil {
				asked[peer] = new(absenceCheck)
			}
			if asked[peer].isDue(g.Engine.ListAbsentMembers(peer.String()), time.Now()) {
				due = append(due, peer)
			}
		}
		return due
	}, func(peer identity.ID) {
		if err := g.removeDepartedMembers(ctx, peer, g.Engine.ListAbsentMembers(peer.String())); err != nil && ctx.Err() == nil {
			g.log.Debug("what has become of agents elsewhere is not known", "peer", peer.Label(), "err", err)
		}
	})
}

// absenceCheck holds which members a peer was last asked about, whether they are deregistered.
type absenceCheck struct {
	absent []string
	next   time.Time // when the peer is asked the same again
	pause  time.Duration
}

// isDue reports whether it is time to ask for these members, which it sorts. It is if they are
// others than the last time; else after a pause, which doubles.
func (q *absenceCheck) isDue(absent []string, now time.Time) bool {
	slices.Sort(absent)
	if !slices.Equal(absent, q.absent) {
		*q = absenceCheck{absent: absent, next: now, pause: absentTick}
	}
	if len(absent) == 0 || now.Before(q.next) {
		return false
	}
	q.next, q.pause = now.Add(q.pause-absentTick/2), min(2*q.pause, absentPause)
	return true
}

// removeDepartedMembers asks a peer which of its absent members are deregistered, and removes these from the
// channels here.
func (g *Gateway) removeDepartedMembers(ctx context.Context, peer identity.ID, absent []string) error {
	ctx, cancel := context.WithTimeout(ctx, absentTime)
	defer cancel()
	body, err := json.Marshal(openintent.ListOf{Agents: absent})
	if err != nil {
		return err
	}
	status, answer, err := g.fetchFromHost(ctx, maxIDList, nil, peer, openintent.Daemon, http.MethodPost, apiPath+"departed", body)
	if err != nil || status != http.StatusOK {
		return err
	}
	var gone openintent.ListOf
	if err := json.Unmarshal(answer, &gone); err != nil {
		return err
	}
	return g.Engine.RemoveDepartedAgents(store.WithRequester(ctx, peer), peer.String(), slices.DeleteFunc(gone.Agents, func(id string) bool { return !slices.Contains(absent, id) }))
}
