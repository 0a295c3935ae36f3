package agents

import (
	"context"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/daemon/local"
	"github.com/acpd/acpd/daemon/registry"
	"github.com/acpd/acpd/kinds"
)

// serveAttach makes the connection answer as an agent. Tasks that waited for an agent of
// this name are handed over to it.
func (s *Service) serveAttach(ctx context.Context, c *local.Conn, p *client.AttachParams) (any, error) {
	if p.TakeOver && c.IsGuest {
		return nil, kinds.Errorf(kinds.NotAuthorized, "attach: take_over: no agent takes another's name on this socket: choose another name, or show the key of this one")
	}
	before := s.Registry.FindByConn(c.Conn)
	a, err := s.attachAgent(c, p)
	if err != nil {
		return nil, err
	}
	if err := s.Delegations.HandOverToAgent(ctx, a.Name, a.KeyHash); err != nil {
		s.Log.Warn("open delegations pass to the agent of their name in memory only", "agent", a.Name, "err", err)
	}
	s.Delegations.UpdateAgentPresence(a.Name)
	for _, id := range s.awaited.take(a.Name) {
		if p, ok := s.Trust.FindPeer(id); ok && s.Permissions.MayDiscover(p) {
			s.Node.TellAgents(id)
		}
	}
	if a.IsSession() {
		s.Calls.Go(func() { s.Sessions.WakeRestored(context.WithoutCancel(ctx), a, p.Key != "") })
	}
	if before != nil && before.Name == a.Name {
		s.Log.Debug("agent declared anew", "agent", a.Name)
	} else {
		s.lines.write("agent attached", "agent", a.Name, "domains", len(a.Domains), "kinds", a.Kinds)
	}
	return &client.Attached{Key: a.Key}, nil
}

// attachAgent enters the agent of a connection, and takes out those that it replaces.
func (s *Service) attachAgent(c *local.Conn, p *client.AttachParams) (*registry.Agent, error) {
	s.attaching.Lock()
	defer s.attaching.Unlock()
	a, replaced, err := s.Registry.Attach(c.Conn, *p, c.IsGuest, s.agentsWithOpenWork())
	if err != nil {
		return nil, err
	}
	asBefore := false
	for _, old := range replaced {
		asBefore = asBefore || old.Name == a.Name && old.Conn == a.Conn && isWakeable(old) && isWakeable(a)
		if old.Name != a.Name {
			s.Delegations.UpdateAgentPresence(old.Name)
			s.Sessions.End(old)
		} else if !a.IsSession() {
			s.Sessions.Waker.Detach(old.Name) // the new agent continues its work
		}
		if old.Conn != c.Conn {
			old.Conn.Close() // it would wait for messages in vain
		}
	}
	if a.IsSession() && !asBefore {
		s.Sessions.Waker.Attach(a.Name, a.Session.Unwakeable != "")
	}
	return a, nil
}

// isWakeable reports whether an agent is a session that something can wake.
func isWakeable(a *registry.Agent) bool { return a.IsSession() && a.Session.Unwakeable == "" }

// EndConn takes out the agent of a connection that has ended, if it had one. If the daemon ends,
// what a session had begun does not.
func (s *Service) EndConn(c *local.Conn) {
	s.attaching.Lock()
	defer s.attaching.Unlock()
	a := s.Registry.Detach(c.Conn, s.agentsWithOpenWork)
	if a == nil {
		return
	}
	s.Delegations.UpdateAgentPresence(a.Name)
	if !c.IsEndedByDaemon() {
		s.Sessions.End(a)
	}
	s.lines.write("agent detached", "agent", a.Name)
}

// serveSpeak makes the connection call as the agent that has the key. The connection answers
// nothing.
func (s *Service) serveSpeak(_ context.Context, c *local.Conn, p *client.SpeakParams) (any, error) {
	key, err := registry.HashAgentKey("speak", p.Key)
	if err != nil {
		return nil, err
	}
	as := registry.Credential{Name: p.Name, KeyHash: key}
	if err := s.Registry.CheckCredential(as); err != nil {
		return nil, err
	}
	c.SpeakAs(as)
	return nil, nil
}

// agentsWithOpenWork returns the agents that have open delegations, or messages that are kept.
func (s *Service) agentsWithOpenWork() map[string]bool {
	open := s.Delegations.AgentsWithOpenWork()
	s.AddKeptSenders(open)
	return open
}
