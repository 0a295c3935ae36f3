package daemon

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/daemon/known"
	"github.com/acpd/acpd/daemon/local"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/peer"
	"github.com/acpd/acpd/wire"
)

// parallelRecipients bounds the recipients of one notify that are sent to at the same time.
const parallelRecipients = 16

// resolveRecipient returns the peer, and the agent, that a caller names as PEER or
// PEER/AGENT. It searches for a peer that is not known, for the time that a message of that kind has.
func (d *Daemon) resolveRecipient(ctx context.Context, s *local.Conn, to, kind string, payload wire.Payload) (p identity.Peer, agent string, err error) {
	if to == "" {
		return p, "", kinds.Errorf(kinds.UnknownPeer, "to: missing: name a trusted peer, or one of its agents as peer/agent; peers lists them")
	}
	name, agent, one := strings.Cut(to, "/")
	if one && name == "" {
		return p, "", kinds.Errorf(kinds.Invalid, "to: %q names no peer before the /: write peer/agent, or the peer alone", to)
	}
	if one && agent == "" {
		return p, "", kinds.Errorf(kinds.Invalid, "to: %q names no agent after the /: write peer/agent, or the peer alone", to)
	}
	p, err = d.resolveOrIntroduce(ctx, s, name, func() time.Duration { return readCallTime(kind, payload) })
	if err == nil {
		return p, agent, nil
	}
	if code := kinds.AsError(err).Code; code == kinds.Unreachable || code == kinds.Overloaded || code == kinds.NotAuthorized {
		return p, "", err
	}
	switch {
	case name == d.name || d.isOwnCertifiedName(name):
		return p, "", kinds.Errorf(kinds.Invalid, "to: %q is this daemon itself: name a peer, or peer/agent; peers lists them", name)
	case !one && d.agents.FindByName(name) != nil && !s.IsGuest:
		return p, "", kinds.Errorf(kinds.Invalid, "to: %q is an agent of this daemon: name a peer, or an agent of one as peer/agent; peers lists them", name)
	}
	if !one {
		if near := d.listPeersWithAgent(s, name); len(near) > 0 {
			return p, "", kinds.Errorf(kinds.UnknownPeer, "to: no peer %q is known: did you mean %s?", name, strings.Join(near, " or "))
		}
	}
	if s.IsGuest { // of strangers and blocked keys it hears nothing
		return p, "", kinds.Errorf(kinds.UnknownPeer, "to: %s", err)
	}
	if len(name) >= 6 && strings.HasPrefix(d.id.String(), strings.ToLower(name)) {
		return p, "", kinds.Errorf(kinds.Invalid, "to: %s is this daemon itself: name a peer", name)
	}
	if slices.ContainsFunc(d.listStrangers(), func(s peer.Pending) bool { return identity.MatchesClaim(name, s.Claim) }) {
		return p, "", kinds.Errorf(kinds.UnknownPeer, "to: %q is what a stranger calls itself: if it is the one you mean, acpctl trust %[1]s", name)
	}
	if b, ok := d.findBlockedPeer(name); ok {
		return p, "", newBlockedError("to", name, b)
	}
	if _, unknown := errors.AsType[*identity.UnknownPeerError](err); unknown && d.config.Load().IsOfAuthority(name) {
		return p, "", kinds.Errorf(kinds.UnknownPeer, "to: %s; no key with a certificate of that name has called, and none is known here to be dialled: give its id an address under peers in config.yaml, call it by its full id, or use a relay that it uses", err)
	}
	return p, "", kinds.Errorf(kinds.UnknownPeer, "to: %s", err)
}

// readCallTime returns how long a call takes at most, by its payload, of which nothing has been checked yet.
func readCallTime(kind string, payload wire.Payload) time.Duration {
	most := kinds.AckDeadline
	switch kind {
	case kinds.KindNotify:
		return kinds.ReceiptDeadline
	case kinds.KindQuery:
		most = kinds.MaxQueryDeadline
	}
	named, err := kinds.ParsePayload[struct {
		DeadlineMS uint64 `json:"deadline_ms"`
	}](payload)
	if err != nil || named.DeadlineMS == 0 {
		return kinds.DefaultQueryDeadline // which is that of an ack too
	}
	return time.Duration(min(named.DeadlineMS, uint64(most.Milliseconds()))) * time.Millisecond
}

// listPeersWithAgent returns as peer/agent the agents of a name at the peers that the caller may
// call, as far as discover has told of them lately, in the order of the names.
func (d *Daemon) listPeersWithAgent(s *local.Conn, name string) (all []string) {
	for _, id := range d.capabilities.findPeersWithAgent(name) {
		if p, ok := d.trust.FindPeer(id); ok && d.checkMayCall(s, s.Credential().Name, p) == nil {
			all = append(all, p.Name+"/"+name)
		}
	}
	slices.Sort(all)
	return all
}

// resolvePeers returns the ids of the peers that a filter names. A guest hears nothing of blocked keys.
func (d *Daemon) resolvePeers(names []string, forGuest bool) ([]identity.ID, error) {
	if len(names) > local.MaxFilterItems {
		return nil, kinds.Errorf(kinds.Invalid, "peers: %d are too many: at most %d", len(names), local.MaxFilterItems)
	}
	ids := make([]identity.ID, 0, len(names))
	for _, name := range names {
		p, err := d.trust.Resolve(name)
		if err != nil && !forGuest {
			if b, ok := d.findBlockedPeer(name); ok {
				return nil, newBlockedError("peers", name, b)
			}
		}
		if err != nil {
			return nil, kinds.Errorf(kinds.UnknownPeer, "peers: %s", err)
		}
		ids = append(ids, p.ID)
	}
	return ids, nil
}

// composeRequest returns the checked envelope of a call.
func (d *Daemon) composeRequest(ctx context.Context, s *local.Conn, kind string, h *client.Head, to string, payload wire.Payload) (kinds.Checked, error) {
	env, _, err := d.composeEnvelope(ctx, s, kind, h, to, payload)
	if err != nil {
		return kinds.Checked{}, err
	}
	return d.checkOutgoing(env, h)
}

// checkOutgoing validates an envelope that was made here for a head, as [kinds.CheckEnvelope] does. The
// owner is told of a session whose chain of messages is too long.
func (d *Daemon) checkOutgoing(env *wire.Envelope, h *client.Head) (kinds.Checked, error) {
	c, err := kinds.CheckEnvelope(env)
	c.Parent, c.Guessed = h.Parent, h.Guessed
	if err != nil && kinds.AsError(err).Code == kinds.LoopDetected {
		d.sessions.Waker.NoteLoop(env.FromAgent, env.To, env.Kind, err)
	}
	return c, err
}

// composeEnvelope returns the envelope of a call, to which the caller may add, and its
// receiver.
func (d *Daemon) composeEnvelope(ctx context.Context, s *local.Conn, kind string, h *client.Head, to string, payload wire.Payload) (*wire.Envelope, identity.Peer, error) {
	p, agent, err := d.resolveRecipient(ctx, s, to, kind, payload)
	if err != nil {
		return nil, p, err
	}
	if err := d.drain.CheckMayBegin(s, kind, h); err != nil {
		return nil, p, err
	}
	c, err := d.known.FindParentChain(ctx, s.GuestCredential(), h)
	if err != nil {
		return nil, p, err
	}
	env := wire.NewEnvelope(d.id, p.ID, kind, payload)
	if !h.ID.IsZero() {
		env.ID = h.ID
	}
	env.Agent, env.Thread, env.Hops, env.Trace = agent, c.Thread, c.Hops, c.Trace
	env.FromAgent = s.Credential().Name
	return env, p, d.checkMayCall(s, env.FromAgent, p)
}

func newAnswer(env kinds.Checked, reply *wire.Envelope, rtt time.Duration) *client.Answer {
	return &client.Answer{ID: env.ID, From: reply.From, FromAgent: reply.FromAgent, Kind: reply.Kind, RTTUS: uint64(rtt.Microseconds()), Payload: reply.Payload}
}

// withProbeTimeout limits a call to ms milliseconds, or to kinds.ProbeDeadline if that is 0.
func withProbeTimeout(ctx context.Context, ms uint64) (context.Context, context.CancelFunc) {
	limit := kinds.ProbeDeadline
	if ms > 0 {
		limit = time.Duration(min(ms, uint64(kinds.MaxQueryDeadline.Milliseconds()))) * time.Millisecond
	}
	return context.WithTimeout(ctx, limit)
}

func (d *Daemon) servePing(ctx context.Context, s *local.Conn, p *client.PingParams) (any, error) {
	ctx, cancel := withProbeTimeout(ctx, p.TimeoutMS) // it may take time to find the peer
	defer cancel()
	env, err := d.composeRequest(ctx, s, kinds.KindPing, &p.Head, p.To, nil)
	if err != nil {
		return nil, err
	}
	if env.Agent != "" {
		return nil, kinds.Errorf(kinds.Invalid, "to: %q names an agent, and a ping is answered by the daemon: leave out /%s", p.To, env.Agent)
	}
	reply, rtt, err := d.node.Exchange(ctx, env)
	if err != nil {
		return nil, err
	}
	return &client.PingAnswer{Answer: *newAnswer(env, reply, rtt), TS: reply.TS}, nil
}

// serveQuery reads its own params, since the deadline that they hold is the request's.
func (d *Daemon) serveQuery(ctx context.Context, s *local.Conn, r *jsonrpc.Request) (any, error) {
	p := new(client.QueryParams)
	if err := r.ReadParams(p); err != nil {
		return nil, err
	}
	if !p.Ref.IsZero() {
		return d.serveQuestion(ctx, s, r, p)
	}
	began := time.Now()
	var parentUntil time.Time // zero: the parent bounds no deadline
	if !p.Parent.IsZero() && !p.Guessed {
		parentUntil = d.known.FindDeadline(p.Parent)
	}
	if !parentUntil.IsZero() {
		left := parentUntil.Sub(began)
		if left <= 0 {
			return nil, known.NewParentEndedError(kinds.DeliveredNo)
		}
		p.Payload = kinds.LimitDeadline(p.Payload, left)
	}
	env, err := d.composeRequest(ctx, s, kinds.KindQuery, &p.Head, p.To, p.Payload)
	if err != nil {
		return nil, err
	}
	if err := d.countSend(ctx, &p.Head, env.Envelope); err != nil {
		return nil, err
	}
	left := queryTimeout(env) - time.Since(began)
	defer r.CancelAfter(left)()
	ctx, leave, err := d.known.FollowParent(ctx, &p.Head)
	if err != nil {
		return nil, err
	}
	defer leave()
	reply, rtt, err := d.node.Exchange(ctx, env)
	if err == nil {
		return newAnswer(env, reply, rtt), nil
	}
	if e := kinds.AsError(err); hasEndedWithParent(ctx, e, parentUntil) {
		return nil, known.NewParentEndedError(e.Delivered())
	}
	return nil, err
}

// hasEndedWithParent reports whether a query has failed with e because its parent has ended. The peer, which has
// as long as the parent lasts, may be the first to see that it is over.
func hasEndedWithParent(ctx context.Context, e *kinds.Error, parentUntil time.Time) bool {
	if e.Code == kinds.Timeout && !parentUntil.IsZero() && !time.Now().Before(parentUntil) {
		return true
	}
	return known.HasParentEnded(ctx) && (e.From == "" || e.Code == kinds.Timeout)
}

func queryTimeout(query kinds.Checked) time.Duration {
	return cmp.Or(query.Deadline, kinds.DefaultQueryDeadline)
}

func (d *Daemon) serveDiscover(ctx context.Context, s *local.Conn, p *client.DiscoverParams) (any, error) {
	ctx, cancel := withProbeTimeout(ctx, p.TimeoutMS) // it may take time to find the peer
	defer cancel()
	env, err := d.composeRequest(ctx, s, kinds.KindDiscover, &p.Head, p.To, nil)
	if err != nil {
		return nil, err
	}
	about, connected := d.node.Peer(env.To)
	key := capabilityKey{env.To, env.Agent}
	if !p.Fresh && connected {
		if known := d.capabilities.get(key, about.Boot); known != nil {
			return known, nil
		}
	}
	reply, rtt, err := d.node.Exchange(ctx, env)
	if err != nil {
		return nil, err
	}
	found := newAnswer(env, reply, rtt)
	if about, connected = d.node.Peer(env.To); connected {
		d.capabilities.put(key, about.Boot, found)
	}
	return found, nil
}

// serveNotify sends a notification to one peer, or to several at the same time, each as a
// message of its own.
func (d *Daemon) serveNotify(ctx context.Context, s *local.Conn, p *client.NotifyParams) (any, error) {
	wait := p.Wait == nil || *p.Wait
	if len(p.To.Names) == 0 {
		return nil, kinds.Errorf(kinds.Invalid, "to: expected a peer, or a list of them")
	}
	if !p.To.List {
		return d.sendNotify(ctx, s, &p.Head, p.To.Names[0], p.Payload, wait)
	}
	if !p.ID.IsZero() {
		return nil, kinds.Errorf(kinds.Invalid, "id: a list of recipients gets an id for each: leave it out, or notify one")
	}
	receipts := make([]client.Receipt, len(p.To.Names))
	var g errgroup.Group
	g.SetLimit(parallelRecipients)
	for i, to := range p.To.Names {
		g.Go(func() error {
			h := p.Head
			h.ID = wire.NewMessageID() // returned also if the call fails, so that it can be repeated
			r, err := d.sendNotify(ctx, s, &h, to, p.Payload, wait)
			if err != nil {
				r = &client.Receipt{ID: h.ID, Error: kinds.AsError(s.MaskErrorAddrs(err))}
			}
			r.To = to
			receipts[i] = *r
			return nil
		})
	}
	g.Wait()
	return receipts, nil
}

func (d *Daemon) sendNotify(ctx context.Context, s *local.Conn, h *client.Head, name string, payload wire.Payload, wait bool) (*client.Receipt, error) {
	began := time.Now()
	env, to, err := d.composeEnvelope(ctx, s, kinds.KindNotify, h, name, payload)
	if err != nil {
		return nil, err
	}
	if to.Certificate != nil { // the search for it may have taken time
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, began.Add(kinds.ReceiptDeadline))
		defer cancel()
	}
	if err := d.countSend(ctx, h, env); err != nil {
		return nil, err
	}
	message, err := d.checkOutgoing(env, h)
	if err != nil {
		return nil, err
	}
	state, err := d.node.Send(ctx, message, wait)
	if err != nil {
		return nil, err
	}
	return &client.Receipt{ID: env.ID, State: client.ReceiptState(state)}, nil
}
