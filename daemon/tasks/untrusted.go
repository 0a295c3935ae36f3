package tasks

import (
	"context"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/daemon/agents"
	"github.com/acpd/acpd/daemon/delegation"
	"github.com/acpd/acpd/daemon/registry"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// EndWith ends all delegations with a peer. If some cannot be ended, it returns
// the first error.
func (s *Service) EndWith(ctx context.Context, id identity.ID, name string) (first error) {
	for _, t := range s.Delegations.List(nil, func(t *delegation.Delegation, _ client.TaskState) bool { return t.Peer == id }) {
		if err := s.endUntrustedDelegation(ctx, t, name+" is not trusted here any more"); first == nil {
			first = err
		}
	}
	return first
}

// EndRefusedBy ends the delegations with a peer that does not trust this daemon:
// the peer would refuse whatever is still owed, and sends nothing. at is when the peer said
// so.
//
// Delegations that began later belong to a new trust. Those that are still to be given may
// do so too: their calls get the peer's answer themselves.
func (s *Service) EndRefusedBy(id identity.ID, at time.Time) {
	for _, t := range s.Delegations.List(nil, func(t *delegation.Delegation, state client.TaskState) bool {
		return t.Peer == id && t.Created.Before(at) && !(t.Direction == client.Given && state == client.TaskSent)
	}) {
		if err := s.endUntrustedDelegation(context.Background(), t, s.Trust.NameOf(id)+" does not trust this daemon"); err != nil {
			s.Log.Error("delegation", "id", t.ID, "err", err)
		}
	}
}

// endUntrustedDelegation ends a delegation after one of the two daemons has stopped trusting the other, and
// notifies the agent that works on it.
func (s *Service) endUntrustedDelegation(ctx context.Context, t *delegation.Delegation, why string) error {
	gone := kinds.Errorf(kinds.NotTrusted, "%s", why)
	e := delegation.Ending{State: client.TaskFailed, ID: wire.NewMessageID(), Outcome: gone.Message, Payload: kinds.EncodePayload(gone)}
	if t.Direction == client.Taken {
		e.State = client.TaskCancelled
	}
	won, err := s.Delegations.EndDelegation(ctx, t, e)
	if err != nil || !won || t.Direction != client.Taken {
		return err
	}
	a := s.Registry.FindByName(t.Agent)
	if a == nil {
		return nil
	}
	env := wire.NewEnvelope(t.Peer, s.Self, kinds.KindCancel, kinds.EncodePayload(&kinds.Cancel{Reason: gone.Message}))
	env.ID, env.Ref, env.Thread, env.Hops = e.ID, &t.ID, t.Chain.Thread, t.Chain.Hops
	in := &client.Inbound{Name: s.Trust.NameOf(t.Peer), Delegation: s.Describe(ctx, t, false), Envelope: *env}
	s.Calls.Go(func() {
		if err := agents.Call(context.WithoutCancel(ctx), registry.ConfirmTime, a, in, nil); err != nil {
			s.Log.Debug("not confirmed", "agent", a.Name, "kind", in.Kind, "id", in.ID, "code", kinds.AsError(err).Code)
		}
	})
	return nil
}
