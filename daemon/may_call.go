package daemon

import (
	"context"
	"strings"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/daemon/delegation"
	"github.com/acpd/acpd/daemon/local"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// checkMayCall returns an error if the settings do not let an agent call a peer. agent is the
// name under which the connection calls, "" if it is no agent; the owner may call every peer.
func (d *Daemon) checkMayCall(s *local.Conn, agent string, to identity.Peer) error {
	set := &d.config.Load().Agents
	if !set.LimitsCalls() || agent == "" && !s.IsGuest {
		return nil
	}
	allowed, setting := set.MayCall(agent, to.ID, to.Name)
	switch {
	case allowed:
		return nil
	case agent == "":
		return kinds.Errorf(kinds.NotAuthorized, "to: a caller that is no agent may not call %s: %s in config.yaml of this daemon does not name it; attach, or ask the owner", identity.CleanClaim(to.Name), setting)
	}
	return kinds.Errorf(kinds.NotAuthorized, "to: the agent %q may not call %s: %s in config.yaml of this daemon does not name it; only the owner changes that", agent, identity.CleanClaim(to.Name), setting)
}

// checkMaySearch returns an error if the settings do not let the caller call a peer that nobody here knows
// yet, by the name or id that it has written.
func (d *Daemon) checkMaySearch(s *local.Conn, ref string) error {
	id, _ := identity.ParseID(strings.ToLower(ref))
	return d.checkMayCall(s, s.Credential().Name, identity.Peer{ID: id, Name: ref})
}

// checkMayReport returns an error if the settings do not let the caller send something about a
// delegation: a result, an error, a question or the answer to one. An agent may always do so
// about what it has taken, or given, itself.
func (d *Daemon) checkMayReport(s *local.Conn, t *delegation.Delegation) error {
	as := s.Credential()
	if as.Name != "" && d.delegations.IsOwnedBy(t, as) {
		return nil
	}
	p, ok := d.trust.FindPeer(t.Peer)
	if !ok {
		return nil // nothing can be sent
	}
	return d.checkMayCall(s, as.Name, p)
}

// countSend counts a message that a session sends in a turn that a peer has woken.
func (d *Daemon) countSend(ctx context.Context, h *client.Head, env *wire.Envelope) error {
	if h.Parent.IsZero() || env.FromAgent == "" {
		return nil
	}
	from, _ := d.known.FindSender(h.Parent)
	return d.sessions.Waker.CountSend(ctx, from, h.Parent, env)
}
