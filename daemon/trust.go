package daemon

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/peer"
	"github.com/acpd/acpd/wire"
)

const (
	maxInvited = 8           // addresses in an invitation
	pinsWait   = time.Second // of a pin for others, before all of them are written
)

func (d *Daemon) invite(_ context.Context, _ *session, p *client.InviteParams) (any, error) {
	if most := uint64(client.MaxInvitation / time.Second); p.ExpiresSecs > most {
		return nil, kinds.Errorf(kinds.Invalid, "invite: expires_secs: expected at most %d, which is 24 hours", most)
	}
	if p.Name != "" { // the petname that who joins will have here
		if err := identity.CheckName(p.Name); err != nil {
			return nil, kinds.Errorf(kinds.Invalid, "invite: name: %s", err)
		}
	}
	token, expires, err := d.node.Invitations().Open(time.Duration(p.ExpiresSecs)*time.Second, p.Name)
	if err != nil {
		return nil, coded("invite", err)
	}
	addrs := d.node.LocalAddrs()
	inv := identity.Invitation{ID: d.id, Addrs: addrs[:min(len(addrs), maxInvited)], Name: d.name, PQ: identity.HashPQ(d.key.PublicPQ()), Token: token}
	return &client.Invitation{URI: inv.String(), Expires: expires.UTC()}, nil
}

func (d *Daemon) join(ctx context.Context, _ *session, p *client.JoinParams) (any, error) {
	inv, err := identity.ParseInvitation(p.URI)
	if err != nil {
		return nil, kinds.Errorf(kinds.Invalid, "join: %s", err)
	}
	who, err := d.node.Join(ctx, inv)
	if err != nil {
		return nil, err
	}
	return &client.NamedPeer{ID: who.ID, Name: who.Name}, nil
}

// trustPeer trusts a stranger, or changes the name or addresses of a trusted peer.
// Where a stranger called from is remembered like any place where it was connected;
// only what a person gave is configured.
func (d *Daemon) trustPeer(_ context.Context, _ *session, p *client.TrustParams) (any, error) {
	met, err := d.candidate("trust", p.Peer)
	if err != nil {
		return nil, err
	}
	if met.ID == d.id {
		return nil, kinds.Errorf(kinds.Invalid, "trust: %s is this daemon itself: name the other one", d.id.Label())
	}
	who := d.stranger(met)
	if p.Name != "" {
		if err := identity.CheckName(p.Name); err != nil {
			return nil, kinds.Errorf(kinds.Invalid, "trust: name: %s", err)
		}
		who.Name = p.Name
	}
	if p.Addrs != nil { // empty: it has none any more
		if err := identity.CheckAddrs(p.Addrs); err != nil {
			return nil, kinds.Errorf(kinds.Invalid, "trust: addrs: %s", err)
		}
		who.Addrs = p.Addrs
	}
	if who, err = d.trust.Trust(who); err != nil {
		return nil, coded("trust", err)
	}
	d.log.Info("trusted", "peer", who.ID.Label(), "name", who.Name)
	d.event(client.EventTrust, who.ID, who.Name, time.Now(), nil)
	if met.Addr != "" {
		d.sightings.at(who.ID, met.Addr, met.At)
	}
	d.place(who.ID)
	d.node.Connect(who.ID)
	return &client.NamedPeer{ID: who.ID, Name: who.Name}, nil
}

// candidate finds whom a person may mean by ref: any full id, a trusted peer, or
// one stranger that called or is on the network, by what it calls itself or the
// beginning of its id. Of all but strangers only the id is returned.
func (d *Daemon) candidate(op, ref string) (peer.Pending, error) {
	var found []peer.Pending
	digits := strings.ToLower(ref)
	whole, noID := identity.ParseID(digits)
	for _, s := range d.strangers() {
		if noID == nil && s.ID == whole {
			return s, nil
		}
		if s.Claim == ref || len(ref) >= 6 && strings.HasPrefix(s.ID.String(), digits) {
			found = append(found, s)
		}
	}
	if noID == nil {
		return peer.Pending{ID: whole}, nil
	}
	known, err := d.trust.Resolve(ref)
	if err == nil {
		return peer.Pending{ID: known.ID}, nil
	}
	switch len(found) {
	case 0:
		if b, ok := d.blocked(ref); ok {
			return peer.Pending{}, isBlocked(op, ref, b)
		}
		if unknown := (*identity.UnknownPeerError)(nil); !errors.As(err, &unknown) || len(unknown.Near) > 0 {
			return peer.Pending{}, coded(op, err) // a trusted peer was meant
		}
		return peer.Pending{}, kinds.Errorf(kinds.UnknownPeer, "%s: %q names nobody who has called or is on the network: give the full id, 64 hex digits", op, ref)
	case 1:
		return found[0], nil
	}
	ids := make([]string, len(found))
	for i, s := range found {
		ids[i] = s.ID.String()
	}
	return peer.Pending{}, kinds.Errorf(kinds.UnknownPeer, "%s: %q names several strangers: give the full id, one of %s", op, ref, strings.Join(ids, ", "))
}

// blocked finds the blocked key that ref means: by the name that it had, or by the
// beginning of its id.
func (d *Daemon) blocked(ref string) (identity.Block, bool) {
	digits := strings.ToLower(ref)
	for _, b := range d.trust.Blocks() {
		if ref != "" && b.Name == ref || len(ref) >= 6 && strings.HasPrefix(b.ID.String(), digits) {
			return b, true
		}
	}
	return identity.Block{}, false
}

func isBlocked(op, ref string, b identity.Block) error {
	return kinds.Errorf(kinds.UnknownPeer, "%s: %q was untrusted and is blocked: only its full id lifts that, acpctl trust %s", op, ref, b.ID)
}

// stranger is one as it would be trusted: under what it calls itself where that is
// a free name, and with the post-quantum key pinned that it showed when it called.
func (d *Daemon) stranger(s peer.Pending) identity.Peer {
	p := identity.Peer{ID: s.ID, PQ: s.PQ}
	if identity.CheckName(s.Claim) == nil {
		p.Name = d.trust.FreeName(s.Claim)
	}
	return p
}

// untrust blocks a key and forgets what it sent. The block is on disk before its
// connections are closed, and they are before this returns. A caller that leaves
// stops nothing of it.
func (d *Daemon) untrust(ctx context.Context, _ *session, p *client.UntrustParams) (any, error) {
	ctx = context.WithoutCancel(ctx)
	who, err := d.trust.Resolve(p.Peer)
	if err != nil {
		met, err := d.candidate("untrust", p.Peer)
		if err != nil {
			return nil, err
		}
		who = d.stranger(met)
	}
	if who.ID == d.id {
		return nil, kinds.Errorf(kinds.Invalid, "untrust: %s is this daemon itself: name the other one", d.id.Label())
	}
	if err := d.trust.Untrust(who.ID); err != nil {
		return nil, coded("untrust", err)
	}
	d.node.Disconnect(who.ID)
	d.log.Info("untrusted", "peer", who.ID.Label(), "name", who.Name)
	d.repeats.purge(who.ID)
	d.abilities.purge(who.ID)
	if err := d.channels.Forget(ctx, who.ID); err != nil {
		return nil, err
	}
	d.place(who.ID)
	if err := d.inbox.purge(ctx, who.ID); err != nil {
		return nil, err
	}
	for _, t := range d.tasks.list(func(t *task) bool { return t.peer == who.ID }) {
		if err := d.sever(ctx, t, who.Name+" is not trusted here any more"); err != nil {
			return nil, err
		}
	}
	return &client.NamedPeer{ID: who.ID, Name: who.Name}, nil
}

// refusedBy ends the delegations with a peer that does not trust this daemon: it
// would refuse whatever is still owed, and sends nothing. Those that began after it
// had said so belong to a trust that is new; and so may those that are still to be
// given, whose calls hear for themselves.
func (d *Daemon) refusedBy(id identity.ID, at time.Time) {
	for _, t := range d.tasks.list(func(t *task) bool {
		return t.peer == id && t.created.Before(at) && !(t.direction == client.Given && t.state == client.TaskSent)
	}) {
		if err := d.sever(context.Background(), t, d.nameOf(id)+" does not trust this daemon"); err != nil {
			d.log.Error("delegation", "id", t.id, "err", err)
		}
	}
}

// sever ends a delegation where one side trusts the other no more, and tells the
// agent that works on it.
func (d *Daemon) sever(ctx context.Context, t *task, why string) error {
	gone := kinds.Errorf(kinds.NotTrusted, "%s", why)
	e := ending{state: client.TaskFailed, id: wire.NewMessageID(), outcome: gone.Message, payload: kinds.Encode(gone)}
	if t.direction == client.Taken {
		e.state = client.TaskCancelled
	}
	won, err := d.tasks.end(ctx, t, e)
	if err != nil || !won || t.direction != client.Taken {
		return err
	}
	a := d.agents.named(t.agent)
	if a == nil {
		return nil
	}
	in := &client.Inbound{Name: d.nameOf(t.peer), Delegation: d.describe(ctx, t, false), Envelope: wire.Envelope{
		V: wire.Version, ID: e.id, From: t.peer, To: d.id, TS: uint64(time.Now().UnixMilli()), Kind: kinds.KindCancel, Ref: &t.id,
		Payload: kinds.Encode(&kinds.Cancel{Reason: gone.Message}), Thread: t.chain.thread, Hops: t.chain.hops,
	}}
	d.calls.Go(func() {
		if err := ask(context.WithoutCancel(ctx), confirmTime, a, in, nil); err != nil {
			d.log.Debug("not confirmed", "agent", a.Name, "kind", in.Kind, "id", in.ID, "err", err)
		}
	})
	return nil
}

// savePins writes what first meetings have pinned until ctx ends, and Close then
// writes the rest. Many peers that come at once are not a write of both files each.
func (d *Daemon) savePins(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-d.trust.Pinned():
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pinsWait):
		}
		if err := d.trust.Save(); err != nil {
			d.log.Error("trust store", "err", err)
		}
	}
}
