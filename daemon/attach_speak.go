package daemon

import (
	"context"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/daemon/local"
	"github.com/acpd/acpd/daemon/registry"
	"github.com/acpd/acpd/kinds"
)

// serveAttach makes the connection answer as an agent. Tasks that waited for an agent of
// this name are handed over to it.
func (d *Daemon) serveAttach(ctx context.Context, s *local.Conn, p *client.AttachParams) (any, error) {
	if p.TakeOver && s.IsGuest {
		return nil, kinds.Errorf(kinds.NotAuthorized, "attach: take_over: no agent takes another's name on this socket: choose another name, or show the key of this one")
	}
	before := d.agents.FindByConn(s.Conn)
	a, err := d.attachAgent(s, p)
	if err != nil {
		return nil, err
	}
	if err := d.delegations.HandOverToAgent(ctx, a.Name, a.KeyHash); err != nil {
		d.log.Warn("open delegations pass to the agent of their name in memory only", "agent", a.Name, "err", err)
	}
	d.delegations.UpdateAgentPresence(a.Name)
	if a.IsSession() {
		d.calls.Go(func() { d.sessions.WakeRestored(context.WithoutCancel(ctx), a, p.Key != "") })
	}
	if before != nil && before.Name == a.Name {
		d.log.Debug("agent declared anew", "agent", a.Name)
	} else {
		d.agentLog.write("agent attached", "agent", a.Name, "domains", len(a.Domains), "kinds", a.Kinds)
	}
	return &client.Attached{Key: a.Key}, nil
}

// attachAgent enters the agent of a connection, and takes out those that it replaces.
func (d *Daemon) attachAgent(s *local.Conn, p *client.AttachParams) (*registry.Agent, error) {
	d.attaching.Lock()
	defer d.attaching.Unlock()
	a, replaced, err := d.agents.Attach(s.Conn, *p, s.IsGuest, d.delegations.AgentsWithOpenWork())
	if err != nil {
		return nil, err
	}
	asBefore := false
	for _, old := range replaced {
		asBefore = asBefore || old.Name == a.Name && old.Conn == a.Conn && isWakeable(old) && isWakeable(a)
		if old.Name != a.Name {
			d.delegations.UpdateAgentPresence(old.Name)
			d.sessions.End(old)
		} else if !a.IsSession() {
			d.sessions.Waker.Detach(old.Name) // its work goes on with this agent
		}
		if old.Conn != s.Conn {
			old.Conn.Close() // it would wait for messages in vain
		}
	}
	if a.IsSession() && !asBefore {
		d.sessions.Waker.Attach(a.Name, a.Session.Unwakeable != "")
	}
	return a, nil
}

// isWakeable reports whether an agent is a session that something can wake.
func isWakeable(a *registry.Agent) bool { return a.IsSession() && a.Session.Unwakeable == "" }

// detachAgent takes out the agent of a connection that has ended, if it had one. If the daemon ends,
// what a session had begun does not.
func (d *Daemon) detachAgent(s *local.Conn) {
	d.attaching.Lock()
	defer d.attaching.Unlock()
	a := d.agents.Detach(s.Conn, d.delegations.AgentsWithOpenWork)
	if a == nil {
		return
	}
	d.delegations.UpdateAgentPresence(a.Name)
	if !s.IsEndedByDaemon() {
		d.sessions.End(a)
	}
	d.agentLog.write("agent detached", "agent", a.Name)
}

// serveSpeak makes the connection call as the agent that has the key. The connection answers
// nothing.
func (d *Daemon) serveSpeak(_ context.Context, s *local.Conn, p *client.SpeakParams) (any, error) {
	key, err := registry.HashAgentKey("speak", p.Key)
	if err != nil {
		return nil, err
	}
	as := registry.Credential{Name: p.Name, KeyHash: key}
	if err := d.agents.CheckCredential(as); err != nil {
		return nil, err
	}
	s.SpeakAs(as)
	return nil, nil
}
