package daemon

import (
	"context"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/daemon/registry"
	"github.com/acpd/acpd/kinds"
)

// serveAttach makes the connection answer. Tasks that waited for an agent of this name
// have it again.
func (d *Daemon) serveAttach(ctx context.Context, s *localConn, p *client.AttachParams) (any, error) {
	if p.TakeOver && s.isGuest {
		return nil, kinds.Errorf(kinds.NotAuthorized, "attach: take_over: no agent takes another's name on this socket: choose another name, or show the key of this one")
	}
	a, replaced, err := d.agents.Attach(s.conn, *p, s.isGuest, d.delegations.OpenAgents())
	if err != nil {
		return nil, err
	}
	for _, old := range replaced {
		if old.Name != a.Name {
			d.delegations.CheckAgent(old.Name)
		}
		if old.Conn != s.conn {
			old.Conn.Close() // it would wait for messages in vain
		}
	}
	if err := d.delegations.HandOver(ctx, a.Name, a.KeyHash); err != nil {
		d.log.Warn("open delegations pass to the agent of their name in memory only", "agent", a.Name, "err", err)
	}
	d.delegations.CheckAgent(a.Name)
	d.log.Info("agent attached", "agent", a.Name, "domains", a.Domains, "kinds", a.Kinds)
	return &client.Attached{Key: a.Key}, nil
}

// serveSpeak makes the connection one of the agent that has the key: it calls as that
// agent, and answers nothing.
func (d *Daemon) serveSpeak(_ context.Context, s *localConn, p *client.SpeakParams) (any, error) {
	key, err := registry.HashKey("speak", p.Key)
	if err != nil {
		return nil, err
	}
	as := registry.Credential{Name: p.Name, KeyHash: key}
	if err := d.agents.CheckCredential(as); err != nil {
		return nil, err
	}
	s.speaksAs.Store(&as)
	return nil, nil
}

// credential returns as which agent the connection calls.
func (s *localConn) credential() registry.Credential {
	if a := s.daemon.agents.AgentOn(s.conn); a != nil {
		return registry.Credential{Name: a.Name, KeyHash: a.KeyHash}
	}
	if as := s.speaksAs.Load(); as != nil && s.daemon.agents.CheckCredential(*as) == nil {
		return *as
	}
	return registry.Credential{KeyHash: s.key}
}

// guestCredential is the holder whose own a guest may look at, nil for the daemon's owner.
func (s *localConn) guestCredential() *registry.Credential {
	if !s.isGuest {
		return nil
	}
	as := s.credential()
	return &as
}

// requireAgent does what credential does, and returns an error if the caller is no agent.
func (s *localConn) requireAgent(op string) (registry.Credential, error) {
	as := s.credential()
	if as.Name == "" {
		return as, kinds.Errorf(kinds.NotAuthorized, "%s: only an agent has one here: attach first, or speak as an agent that is attached", op)
	}
	return as, nil
}
