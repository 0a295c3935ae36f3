package outgoing

import (
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
	"github.com/acpd/acpd/daemon/peers"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/peer"
	"github.com/acpd/acpd/wire"
)

// parallelRecipients bounds the recipients of one notify that are sent to at the same time.
const parallelRecipients = 16

// Methods returns the methods that send a message which ends with its call.
func (s *Service) Methods() map[string]local.Method {
	return map[string]local.Method{
		client.MethodPing:     local.ForAgents(s.servePing),
		client.MethodDiscover: local.ForAgents(s.serveDiscover),
		client.MethodQuery:    {Serve: s.serveQuery, ForGuests: true},
		client.MethodNotify:   local.ForAgents(s.serveNotify),
	}
}

// ResolveRecipient returns the peer, and the agent, that a caller names as PEER or
// PEER/AGENT. It searches for a peer that is not known, for the time that a message of that kind has.
func (s *Service) ResolveRecipient(ctx context.Context, c *local.Conn, to, kind string, payload wire.Payload) (p identity.Peer, agent string, err error) {
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
	p, err = s.Peers.ResolveOrIntroduce(ctx, peers.Search{
		Ref: name, ForGuest: c.IsGuest, MaySearch: func() error { return s.checkMaySearch(c, name) }, Time: func() time.Duration { return readCallTime(kind, payload) },
	})
	if err == nil {
		return p, agent, nil
	}
	if code := kinds.AsError(err).Code; code == kinds.Unreachable || code == kinds.Overloaded || code == kinds.NotAuthorized {
		return p, "", err
	}
	switch {
	case name == s.Name || s.Organisation.IsOwnName(name):
		return p, "", kinds.Errorf(kinds.Invalid, "to: %q is this daemon itself: name a peer, or peer/agent; peers lists them", name)
	case !one && s.Registry.FindByName(name) != nil && !c.IsGuest:
		return p, "", kinds.Errorf(kinds.Invalid, "to: %q is an agent of this daemon: name a peer, or an agent of one as peer/agent; peers lists them", name)
	}
	if !one {
		if near := s.listPeersWithAgent(c, name); len(near) > 0 {
			return p, "", kinds.Errorf(kinds.UnknownPeer, "to: no peer %q is known: did you mean %s?", name, strings.Join(near, " or "))
		}
	}
	if c.IsGuest { // it gets nothing about strangers and blocked keys
		return p, "", kinds.Errorf(kinds.UnknownPeer, "to: %s", err)
	}
	if len(name) >= 6 && strings.HasPrefix(s.Self.String(), strings.ToLower(name)) {
		return p, "", kinds.Errorf(kinds.Invalid, "to: %s is this daemon itself: name a peer", name)
	}
	if s.Peers.IsClaimed(name) {
		return p, "", kinds.Errorf(kinds.UnknownPeer, "to: %q is what a stranger calls itself: if it is the one you mean, acpctl trust %[1]s", name)
	}
	if err := s.Peers.CheckNotBlocked("to", name); err != nil {
		return p, "", err
	}
	if _, unknown := errors.AsType[*identity.UnknownPeerError](err); unknown && s.Config().IsOfAuthority(name) {
		return p, "", kinds.Errorf(kinds.UnknownPeer, "to: %s; no key with a certificate of that name has called, and none is known here to be dialled: give its id an address under peers in config.yaml, call it by its full id, or use a relay that it uses", err)
	}
	return p, "", kinds.Errorf(kinds.UnknownPeer, "to: %s", err)
}

// readCallTime returns how long a call takes at most, according to its payload, which has not been checked yet.
func readCallTime(kind string, payload wire.Payload) time.Duration {
	if k, known := kinds.FindKind(kind); known && k.Class == kinds.Message {
		return kinds.ReceiptDeadline
	}
	most := kinds.AckDeadline
	if kind == kinds.KindQuery {
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

// listPeersWithAgent returns the agents of a name, as peer/agent in the order of the names, at the peers that the
// caller may call. It uses what discover has returned lately.
func (s *Service) listPeersWithAgent(c *local.Conn, name string) (all []string) {
	for _, id := range s.capabilities.findPeersWithAgent(name) {
		if p, ok := s.Trust.FindPeer(id); ok && s.checkMayCall(c, c.Credential().Name, p) == nil {
			all = append(all, p.Name+"/"+name)
		}
	}
	slices.Sort(all)
	return all
}

// ComposeRequest returns the checked envelope of a call.
func (s *Service) ComposeRequest(ctx context.Context, c *local.Conn, kind string, h *client.Head, to string, payload wire.Payload) (kinds.Checked, error) {
	env, _, err := s.ComposeEnvelope(ctx, c, kind, h, to, payload)
	if err != nil {
		return kinds.Checked{}, err
	}
	return s.Check(env, h)
}

// Check validates an envelope that was made here for a head, as [kinds.CheckEnvelope] does. It notes for the owner
// that a session's chain of messages is too long.
func (s *Service) Check(env *wire.Envelope, h *client.Head) (kinds.Checked, error) {
	checked, err := kinds.CheckEnvelope(env)
	checked.Parent, checked.Guessed = h.Parent, h.Guessed
	if err != nil && kinds.AsError(err).Code == kinds.LoopDetected {
		s.Sessions.Waker.NoteLoop(env.FromAgent, env.To, env.Kind, err)
	}
	return checked, err
}

// ComposeEnvelope returns the envelope of a call, to which the caller may add, and its
// receiver.
func (s *Service) ComposeEnvelope(ctx context.Context, c *local.Conn, kind string, h *client.Head, to string, payload wire.Payload) (*wire.Envelope, identity.Peer, error) {
	p, agent, err := s.ResolveRecipient(ctx, c, to, kind, payload)
	if err != nil {
		return nil, p, err
	}
	if err := s.Drain.CheckMayBegin(c, kind, h); err != nil {
		return nil, p, err
	}
	chain, err := s.Known.FindParentChain(ctx, c.GuestCredential(), h)
	if err != nil {
		return nil, p, err
	}
	env := wire.NewEnvelope(s.Self, p.ID, kind, payload)
	if !h.ID.IsZero() {
		env.ID = h.ID
	}
	env.Agent, env.Thread, env.Hops, env.Trace = agent, chain.Thread, chain.Hops, chain.Trace
	env.FromAgent = c.Credential().Name
	return env, p, s.checkMayCall(c, env.FromAgent, p)
}

// NewAnswer returns the answer to a call as the local API has it.
func NewAnswer(env kinds.Checked, reply *wire.Envelope, rtt time.Duration) *client.Answer {
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

func (s *Service) servePing(ctx context.Context, c *local.Conn, p *client.PingParams) (any, error) {
	ctx, cancel := withProbeTimeout(ctx, p.TimeoutMS) // it may take time to find the peer
	defer cancel()
	env, err := s.ComposeRequest(ctx, c, kinds.KindPing, &p.Head, p.To, nil)
	if err != nil {
		return nil, err
	}
	if env.Agent != "" {
		return nil, kinds.Errorf(kinds.Invalid, "to: %q names an agent, and a ping is answered by the daemon: leave out /%s", p.To, env.Agent)
	}
	reply, rtt, err := s.Node.Exchange(ctx, env)
	if err != nil {
		return nil, err
	}
	return &client.PingAnswer{Answer: *NewAnswer(env, reply, rtt), TS: reply.TS}, nil
}

// serveQuery reads its own params, since the deadline that they hold is the request's.
func (s *Service) serveQuery(ctx context.Context, c *local.Conn, r *jsonrpc.Request) (any, error) {
	p := new(client.QueryParams)
	if err := r.ReadParams(p); err != nil {
		return nil, err
	}
	if !p.Ref.IsZero() {
		if p.KeepMS > 0 {
			return nil, kinds.Errorf(kinds.Invalid, "keep_ms: a question about a delegation is not kept: leave it out")
		}
		return s.Ask(ctx, c, r, p)
	}
	began := time.Now()
	var parentUntil time.Time // zero: the parent bounds no deadline
	if !p.Parent.IsZero() && !p.Guessed {
		parentUntil = s.Known.FindDeadline(p.Parent)
	}
	if !parentUntil.IsZero() {
		left := parentUntil.Sub(began)
		if left <= 0 {
			return nil, known.NewParentEndedError(kinds.DeliveredNo)
		}
		p.Payload = kinds.LimitDeadline(p.Payload, left)
	}
	env, err := s.ComposeRequest(ctx, c, kinds.KindQuery, &p.Head, p.To, p.Payload)
	if err != nil {
		return nil, err
	}
	if err := s.CountSend(ctx, &p.Head, env.Envelope); err != nil {
		return nil, err
	}
	left := env.QueryTimeout() - time.Since(began)
	defer r.CancelAfter(left)()
	ctx, leave, err := s.Known.FollowParent(ctx, &p.Head)
	if err != nil {
		return nil, err
	}
	defer leave()
	var answer *client.Answer
	err = s.Kept.SendOrKeep(ctx, env.Envelope, c.Credential(), p.KeepMS, func() error {
		reply, rtt, err := s.Node.Exchange(ctx, env)
		if err == nil {
			answer = NewAnswer(env, reply, rtt)
		} else if e := kinds.AsError(err); hasEndedWithParent(ctx, e, parentUntil) {
			return known.NewParentEndedError(e.Delivered())
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return answer, nil
}

// hasEndedWithParent reports whether a query has failed with e because its parent has ended. The peer, which has
// as long as the parent lasts, may be the first to see that it is over.
func hasEndedWithParent(ctx context.Context, e *kinds.Error, parentUntil time.Time) bool {
	if e.Code == kinds.Timeout && !parentUntil.IsZero() && !time.Now().Before(parentUntil) {
		return true
	}
	return known.HasParentEnded(ctx) && (e.From == "" || e.Code == kinds.Timeout)
}

func (s *Service) serveDiscover(ctx context.Context, c *local.Conn, p *client.DiscoverParams) (any, error) {
	ctx, cancel := withProbeTimeout(ctx, p.TimeoutMS) // it may take time to find the peer
	defer cancel()
	env, err := s.ComposeRequest(ctx, c, kinds.KindDiscover, &p.Head, p.To, nil)
	if err != nil {
		return nil, err
	}
	about, connected := s.Node.Peer(env.To)
	key := capabilityKey{env.To, env.Agent}
	if !p.Fresh && connected {
		if known := s.capabilities.get(key, about.Boot); known != nil {
			return known, nil
		}
	}
	reply, rtt, err := s.Node.Exchange(ctx, env)
	if err != nil {
		return nil, err
	}
	found := NewAnswer(env, reply, rtt)
	if about, connected = s.Node.Peer(env.To); connected {
		s.capabilities.put(key, about.Boot, found)
	}
	return found, nil
}

// serveNotify sends a notification to one peer, or to several at the same time, each as a
// message of its own.
func (s *Service) serveNotify(ctx context.Context, c *local.Conn, p *client.NotifyParams) (any, error) {
	wait := p.Wait == nil || *p.Wait
	if p.KeepMS > 0 && !wait {
		return nil, kinds.Errorf(kinds.Invalid, "keep_ms: without the receipt nobody knows whether it arrived: leave out wait: false, or keep_ms")
	}
	if len(p.To.Names) == 0 {
		return nil, kinds.Errorf(kinds.Invalid, "to: expected a peer, or a list of them")
	}
	if !p.To.List {
		return s.sendNotify(ctx, c, &p.Head, p.To.Names[0], p, wait)
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
			r, err := s.sendNotify(ctx, c, &h, to, p, wait)
			if err != nil {
				r = &client.Receipt{ID: h.ID, Error: kinds.AsError(c.MaskErrorAddrs(err))}
			}
			r.To = to
			receipts[i] = *r
			return nil
		})
	}
	g.Wait()
	return receipts, nil
}

func (s *Service) sendNotify(ctx context.Context, c *local.Conn, h *client.Head, name string, p *client.NotifyParams, wait bool) (*client.Receipt, error) {
	began := time.Now()
	env, to, err := s.ComposeEnvelope(ctx, c, kinds.KindNotify, h, name, p.Payload)
	if err != nil {
		return nil, err
	}
	if to.Certificate != nil { // the search for it may have taken time
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, began.Add(kinds.ReceiptDeadline))
		defer cancel()
	}
	message, err := s.Check(env, h)
	if err == nil {
		err = client.CheckTopic(message.Topic)
	}
	if err != nil {
		return nil, err
	}
	if err := s.CountSend(ctx, h, env); err != nil {
		return nil, err
	}
	var state peer.Outcome
	err = s.Kept.SendOrKeep(ctx, env, c.Credential(), p.KeepMS, func() error {
		state, err = s.Node.Send(ctx, message, wait)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &client.Receipt{ID: env.ID, State: client.ReceiptState(state)}, nil
}
