package openintent

import (
	"context"
	"fmt"
	"slices"
	"sync"
)

// forgottenHosts has the hosts that are trusted no more, by the digits of their ids. Entries that
// such a host has relayed are hidden, and its streams that began before write nothing.
type forgottenHosts struct {
	mu    sync.Mutex // guards hosts
	hosts map[string]forgetState
}

// forgetState says whether and how often a host was forgotten.
type forgetState struct {
	times      int  // how often the host was forgotten
	forgetting bool // the store still has entries of it, which are hidden
}

// relayTurn is a stream of a host. It may write until the host is forgotten.
type relayTurn struct {
	host  string
	times int
}

// stateOfHost returns how often a host was forgotten, and whether its entries are hidden.
func (f *forgottenHosts) stateOfHost(host string) forgetState {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.hosts[host]
}

// setForgetting notes that a host is forgotten, or that the store has no more entries of it.
func (f *forgottenHosts) setForgetting(host string, going bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	h := f.hosts[host]
	if h.forgetting = going; going {
		h.times++
	}
	f.hosts[host] = h
}

// beginStream begins a stream of a host, unless the store still has entries of before.
func (f *forgottenHosts) beginStream(host string) (relayTurn, error) {
	h := f.stateOfHost(host)
	if h.forgetting {
		return relayTurn{}, fmt.Errorf("openintent: relay: what %s has told before is not removed yet: try again later", host)
	}
	return relayTurn{host, h.times}, nil
}

// checkStream refuses a write of a stream whose host was forgotten since the stream began.
func (f *forgottenHosts) checkStream(turn relayTurn) error {
	if f.stateOfHost(turn.host).times != turn.times {
		return fmt.Errorf("openintent: relay: %s is trusted no more: what it tells is not kept", turn.host)
	}
	return nil
}

// ForgetHost removes the entries that another daemon has relayed, the place in its feed, and the
// records of its agents, when it is trusted no more. Streams show none of these entries at once;
// the store loses them in slices. Grants and members that name its agents stay, because the
// daemon may be trusted again. Streams of that host end. A failed call may be repeated; until
// then the entries stay hidden, and no stream of the host begins.
func (e *Engine) ForgetHost(ctx context.Context, home string) error {
	host := home[:min(HostDigits, len(home))]
	e.forgets.setForgetting(host, true)
	e.verifies.deleteResult(home)
	// Everything that was written before this write is committed with it.
	if err := e.runTransaction(ctx, false, func(t *tx) error { return nil }); err != nil {
		return err
	}
	kept, err := e.readStoredRelays(ctx, host)
	for len(kept.list) > 0 && err == nil {
		n := kept.countSurplus(true)
		err = e.runTransaction(ctx, n == len(kept.list), func(t *tx) error {
			if err := t.saveFeedNumber(); err != nil {
				return err
			}
			return t.deleteRelayedUpTo(host, kept.list[n-1].seq)
		})
		if err == nil {
			kept.dropOldest(n)
		}
	}
	if err != nil {
		return err
	}
	setAccountHolding(e.relayed, peerAccountKey(home), 0)
	if err := e.deleteAgentsOfHome(ctx, home); err != nil {
		return err
	}
	e.forgets.setForgetting(host, false)
	return nil
}

// deleteAgentsOfHome removes the records of a daemon's agents.
func (e *Engine) deleteAgentsOfHome(ctx context.Context, home string) error {
	var all []*agentRecord
	e.withReadLock(func() {
		for k, a := range e.agents {
			if k.home == home && home != "" {
				all = append(all, a)
			}
		}
	})
	for some := range slices.Chunk(all, sliceRows) {
		if err := e.runTransaction(ctx, true, func(t *tx) error {
			for _, a := range some {
				if e.agents[a.key()] != a {
					continue
				}
				if err := t.deleteAgent(a); err != nil {
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

// ListAgentHomes returns the ids of the other daemons of whose agents there are records.
func (e *Engine) ListAgentHomes() (homes []string) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	for home := range e.homes {
		if home != "" {
			homes = append(homes, home)
		}
	}
	return homes
}

// ChargeHostForEntries charges a host, at the start, for the entries of it that are kept.
func (e *Engine) ChargeHostForEntries(ctx context.Context, home string) error {
	kept, err := e.readStoredRelays(ctx, home[:HostDigits])
	if err == nil {
		setAccountHolding(e.relayed, peerAccountKey(home), int64(kept.bytes))
	}
	return err
}
