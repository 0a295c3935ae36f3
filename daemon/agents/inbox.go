package agents

import (
	"context"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/daemon/inbox"
	"github.com/acpd/acpd/daemon/local"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

func (s *Service) serveInbox(ctx context.Context, c *local.Conn, p *client.InboxParams) (any, error) {
	if c.IsGuest && p.Taken {
		return nil, kinds.Errorf(kinds.NotAuthorized, "inbox: taken: what agents took is for whoever the daemon belongs to: leave it out")
	}
	of, err := c.InboxAgent("inbox")
	if err != nil {
		return nil, err
	}
	peers, err := s.resolveFilterPeers(p.Kinds, p.Peers, c.IsGuest)
	if err != nil {
		return nil, err
	}
	if len(p.IDs) > local.MaxFilterItems {
		return nil, kinds.Errorf(kinds.Invalid, "inbox: ids: %d are too many: at most %d", len(p.IDs), local.MaxFilterItems)
	}
	if p.Limit < 0 {
		return nil, kinds.Errorf(kinds.Invalid, "inbox: limit: expected 1 or more")
	}
	answer, err := s.Inbox.List(ctx, p, of, peers, s.MaxListBytes())
	if err != nil {
		return nil, err
	}
	if a := s.Registry.FindByName(c.Credential().Name); a != nil {
		for i := range answer.Messages {
			env := &answer.Messages[i].Envelope
			if s.Repeats.AddTaker(env.From, env.ID, a.KeyHash); a.IsSession() {
				s.Known.AddShown(env, a.KeyHash)
			}
		}
	}
	return answer, nil
}

func (s *Service) serveShown(ctx context.Context, c *local.Conn, p *client.ShownParams) (any, error) {
	if len(p.Seqs) == 0 || len(p.Seqs) > inbox.MaxListed {
		return nil, kinds.Errorf(kinds.Invalid, "shown: seqs: expected 1 to %d", inbox.MaxListed)
	}
	of, err := c.InboxAgent("shown")
	if err != nil {
		return nil, err
	}
	if err := s.Inbox.MarkShown(ctx, p.Seqs, of); err != nil {
		return nil, err
	}
	return local.NoParams{}, nil
}

func (s *Service) resolveFilterPeers(names, peers []string, forGuest bool) ([]identity.ID, error) {
	if len(names) > local.MaxFilterItems {
		return nil, kinds.Errorf(kinds.Invalid, "kinds: %d are too many: at most %d", len(names), local.MaxFilterItems)
	}
	return s.Peers.ResolveAll(peers, forGuest)
}

func (s *Service) serveAck(ctx context.Context, c *local.Conn, p *client.AckParams) (any, error) {
	if !p.Ref.IsZero() && len(p.IDs)+len(p.Kinds)+len(p.Peers) == 0 && p.UpTo == 0 {
		return s.acknowledgeResult(ctx, c, p.Ref)
	}
	if !p.Ref.IsZero() || (len(p.IDs) > 0) == (p.UpTo > 0) || len(p.IDs) > 0 && len(p.Kinds) > 0 {
		return nil, kinds.Errorf(kinds.Invalid, "ack: expected either ids, with or without peers, or up_to with the filter that inbox was called with, or only ref")
	}
	peers, err := s.resolveFilterPeers(p.Kinds, p.Peers, c.IsGuest)
	if err != nil {
		return nil, err
	}
	of, err := c.InboxAgent("ack")
	if err != nil {
		return nil, err
	}
	gone, err := s.Inbox.Acknowledge(ctx, p, of, peers)
	if name := c.Credential().Name; name != "" { // the waker forgets them, and notifies the wait for this ack
		for _, k := range gone {
			s.Sessions.Waker.Acknowledge(name, k.Peer, k.ID)
		}
	}
	if err != nil {
		return nil, err
	}
	acked := &client.Acked{Removed: len(gone)}
	if len(p.IDs) > 0 {
		for _, k := range gone {
			acked.IDs = append(acked.IDs, k.ID)
		}
		acked.NotShown, err = s.Inbox.FindHeld(ctx, p.IDs, peers, of)
	}
	return acked, err
}

// acknowledgeResult removes the result or error of a delegation, or of a message that was kept, from the inbox, if the
// caller gave or sent that. The caller has the result from wait, perhaps before the inbox has it. Then
// acknowledgeResult waits until it is decided whether an agent or the inbox takes the result.
func (s *Service) acknowledgeResult(ctx context.Context, c *local.Conn, ref wire.MessageID) (any, error) {
	name := c.Credential().Name
	k, agent, ended := s.TakeKeptReport(ctx, c.GuestCredential(), ref)
	t := s.Delegations.FindByID(c.GuestCredential(), ref, client.Given)
	switch {
	case ended:
	case t != nil:
		k, agent = inbox.MessageKey{Peer: t.Peer, ID: s.Delegations.Status(t).EndID}, t.Agent
	default:
		return nil, kinds.Errorf(kinds.NotFound, "ack: ref: %s names no delegation that was given from here: see tasks", ref)
	}
	if agent != name || k.ID.IsZero() {
		return new(client.Acked), nil // another's, or nothing came
	}
	if run := s.Repeats.FindRun(k.Peer, k.ID); run != nil {
		if _, ok := s.Repeats.WaitForOutcome(ctx, run); !ok {
			return nil, kinds.NewErrorFromCause(context.Cause(ctx))
		}
	}
	removed, err := s.Inbox.TakeMessage(ctx, k, name)
	if removed && name != "" {
		s.Sessions.Waker.Acknowledge(name, k.Peer, k.ID)
	}
	if err != nil {
		return nil, err
	}
	answer := new(client.Acked)
	if removed {
		answer.Removed = 1
	}
	return answer, nil
}
