package outgoing

import (
	"context"
	"strings"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/config"
	"github.com/acpd/acpd/daemon/delegation"
	"github.com/acpd/acpd/daemon/local"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// checkMayCall returns an error if the settings do not let an agent call a peer. agent is the
// name under which the connection calls, "" if it is no agent; the owner may call every peer.
func (s *Service) checkMayCall(c *local.Conn, agent string, to identity.Peer) error {
	if agent == "" && !c.IsGuest {
		return nil
	}
	return CheckMayCall(&s.Config().Agents, agent, to)
}

// CheckMayCall returns an error if the settings do not let an agent call a peer, or, if agent is "", a guest that is no
// agent.
func CheckMayCall(set *config.Agents, agent string, to identity.Peer) error {
	if !set.LimitsCalls() {
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

// ResolvePeer returns the peer that a caller names for something other than a message, such as a file. It returns an
// error if the settings do not let the caller call that peer.
func (s *Service) ResolvePeer(ctx context.Context, c *local.Conn, to, kind string) (identity.Peer, error) {
	p, agent, err := s.ResolveRecipient(ctx, c, to, kind, nil)
	if err == nil && agent != "" {
		err = kinds.Errorf(kinds.Invalid, "to: %q names an agent: name the peer, and the agent with agent", to)
	}
	if err != nil {
		return p, err
	}
	return p, s.checkMayCall(c, c.Credential().Name, p)
}

// checkMaySearch returns an error if the settings do not let the caller call a peer that nobody here knows
// yet, by the name or id that it has written.
func (s *Service) checkMaySearch(c *local.Conn, ref string) error {
	id, _ := identity.ParseID(strings.ToLower(ref))
	return s.checkMayCall(c, c.Credential().Name, identity.Peer{ID: id, Name: ref})
}

// CheckMayReport returns an error if the settings do not let the caller send something about a
// delegation: a result, an error, a question or the answer to one. An agent may always do so
// about what it has taken, or given, itself.
func (s *Service) CheckMayReport(c *local.Conn, t *delegation.Delegation) error {
	as := c.Credential()
	if as.Name != "" && s.Delegations.IsOwnedBy(t, as) {
		return nil
	}
	p, ok := s.Trust.FindPeer(t.Peer)
	if !ok {
		return nil // nothing can be sent
	}
	return s.checkMayCall(c, as.Name, p)
}

// CountSend counts each message that a session sends in a turn that a peer has woken.
func (s *Service) CountSend(ctx context.Context, h *client.Head, env *wire.Envelope) error {
	if h.Parent.IsZero() || env.FromAgent == "" {
		return nil
	}
	from, _ := s.Known.FindSender(h.Parent)
	return s.Sessions.Waker.CountSend(ctx, from, h.Parent, env)
}
