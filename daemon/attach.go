package daemon

import (
	"context"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/daemon/registry"
	"github.com/acpd/acpd/kinds"
)

// attach makes the connection answer. Tasks that waited for an agent of this name
// have it again.
func (d *Daemon) attach(ctx context.Context, s *session, p *client.AttachParams) (any, error) {
	if p.TakeOver && s.guest {
		return nil, kinds.Errorf(kinds.NotAuthorized, "attach: take_over: no agent takes another's name on this socket: choose another name, or show the key of this one")
	}
	a, replaced, err := d.agents.Attach(s.conn, *p, s.guest, d.tasks.OpenAgents())
	if err != nil {
		return nil, err
	}
	for _, old := range replaced {
		if old.Name != a.Name {
			d.tasks.NoteAgent(old.Name)
		}
		if old.Conn != s.conn {
			old.Conn.Close() // it would wait for messages in vain
		}
	}
	if err := d.tasks.Pass(ctx, a.Name, a.KeyHash); err != nil {
		d.log.Warn("open delegations pass to the agent of their name in memory only", "agent", a.Name, "err", err)
	}
	d.tasks.NoteAgent(a.Name)
	d.log.Info("agent attached", "agent", a.Name, "domains", a.Domains, "kinds", a.Kinds)
	return &client.Attached{Key: a.Key}, nil
}

// speak makes the connection one of the agent that has the key: it calls as that
// agent, and answers nothing.
func (d *Daemon) speak(_ context.Context, s *session, p *client.SpeakParams) (any, error) {
	key, err := registry.HashKey("speak", p.Key)
	if err != nil {
		return nil, err
	}
	as := registry.Credential{Name: p.Name, KeyHash: key}
	if err := d.agents.CheckCredential(as); err != nil {
		return nil, err
	}
	s.speaks.Store(&as)
	return nil, nil
}

// caller is as whom a session calls.
func (s *session) caller() registry.Credential {
	if a := s.daemon.agents.AgentOn(s.conn); a != nil {
		return registry.Credential{Name: a.Name, KeyHash: a.KeyHash}
	}
	if as := s.speaks.Load(); as != nil && s.daemon.agents.CheckCredential(*as) == nil {
		return *as
	}
	return registry.Credential{KeyHash: s.key}
}

// only is the holder whose own a guest may look at, nil for the daemon's owner.
func (s *session) only() *registry.Credential {
	if !s.guest {
		return nil
	}
	as := s.caller()
	return &as
}

// agent is as which agent a session calls, an error where it is none's.
func (s *session) agent(op string) (registry.Credential, error) {
	as := s.caller()
	if as.Name == "" {
		return as, kinds.Errorf(kinds.NotAuthorized, "%s: only an agent has one here: attach first, or speak as an agent that is attached", op)
	}
	return as, nil
}
