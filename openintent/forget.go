package openintent

import (
	"context"
	"fmt"
	"slices"
	"sync"
)

// forgets are the hosts that are trusted no more, by the digits of their ids. What they
// have relayed is shown to nobody from then on, and no stream of before writes any more.
type forgets struct {
	mu    sync.Mutex
	hosts map[string]forgotten
}

type forgotten struct {
	times int  // how often
	going bool // not all of it is gone from the store
}

// relayTurn is a stream of a host, for as long as that is not forgotten.
type relayTurn struct {
	host  string
	times int
}

func (f *forgets) start() { f.hosts = make(map[string]forgotten) }

// begin begins a stream of a host.
func (f *forgets) begin(host string) (relayTurn, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	h := f.hosts[host]
	if h.going {
		return relayTurn{}, fmt.Errorf("openintent: relay: what %s has told before is not removed yet: try again later", host)
	}
	return relayTurn{host, h.times}, nil
}

// check refuses what a stream wants to write whose host was forgotten since it began.
func (f *forgets) check(turn relayTurn) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.hosts[turn.host].times != turn.times {
		return fmt.Errorf("openintent: relay: %s is trusted no more: what it tells is not kept", turn.host)
	}
	return nil
}

// hides reports whether what the host has told is shown to nobody.
func (f *forgets) hides(host string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.hosts[host].going
}

func (f *forgets) forget(host string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hosts[host] = forgotten{f.hosts[host].times + 1, true}
}

func (f *forgets) done(host string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hosts[host] = forgotten{f.hosts[host].times, false}
}

// Forget removes what another daemon has relayed, its place in that one's feed, and the
// records of its agents, when it is trusted no more: from streams at once, from the store in
// slices. What names these agents in grants and channels stays: their daemon may be trusted
// again. It ends the streams of that host. What fails can be tried again; until then nothing
// of what that host has relayed is shown, and no stream of it begins.
func (e *Engine) Forget(ctx context.Context, home string) error {
	host := home[:min(HostDigits, len(home))]
	e.forgets.forget(host)
	e.verifies.forget(home)
	// What was written before this is committed with it.
	if err := e.write(ctx, false, func(t *tx) error { return nil }); err != nil {
		return err
	}
	kept, err := e.relayedOf(ctx, host)
	for len(kept.list) > 0 && err == nil {
		n := kept.surplus(true)
		err = e.write(ctx, n == len(kept.list), func(t *tx) error {
			if err := t.keepFeed(); err != nil {
				return err
			}
			return t.trimRelayed(host, kept.list[n-1].seq)
		})
		if err == nil {
			kept.drop(n)
		}
	}
	if err != nil {
		return err
	}
	hold(e.relayed, peerOf(home), 0)
	if err := e.forgetAgents(ctx, home); err != nil {
		return err
	}
	e.forgets.done(host)
	return nil
}

// forgetAgents removes the records of a daemon's agents.
func (e *Engine) forgetAgents(ctx context.Context, home string) error {
	var all []*agent
	e.rlocked(func() {
		for k, a := range e.agents {
			if k.home == home && home != "" {
				all = append(all, a)
			}
		}
	})
	for some := range slices.Chunk(all, sliceRows) {
		if err := e.write(ctx, true, func(t *tx) error {
			for _, a := range some {
				if e.agents[a.key()] != a {
					continue
				}
				if err := t.removeAgent(a); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// Homes returns the ids of the other daemons of whose agents there are records.
func (e *Engine) Homes() (homes []string) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	for home := range e.homes {
		if home != "" {
			homes = append(homes, home)
		}
	}
	return homes
}

// Relayed returns the digits of the hosts of which something is kept that they have relayed.
func (e *Engine) Relayed(ctx context.Context) ([]string, error) { return e.relayHosts(ctx) }

// CountRelayed counts, at the start, what is kept of what a host has relayed.
func (e *Engine) CountRelayed(ctx context.Context, home string) error {
	kept, err := e.relayedOf(ctx, home[:HostDigits])
	if err == nil {
		hold(e.relayed, peerOf(home), int64(kept.bytes))
	}
	return err
}
