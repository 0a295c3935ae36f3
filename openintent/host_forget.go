package openintent

import (
	"context"
	"slices"

	"github.com/acpd/acpd/openintent/object"
)

// ForgetHost removes what is kept of another daemon when it is trusted no more: the place in its
// feed and the records of its agents. Grants and members that name its agents stay, because the
// daemon may be trusted again. A failed call may be repeated.
func (e *Engine) ForgetHost(ctx context.Context, home string) error {
	e.withLock(func() { delete(e.reached, home[:min(object.HostDigits, len(home))]) })
	return e.deleteAgentsOfHome(ctx, home)
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
