package sessions

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/daemon/delegation"
	"github.com/acpd/acpd/daemon/inbox"
	"github.com/acpd/acpd/daemon/registry"
	"github.com/acpd/acpd/daemon/waking"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// ChooseSession chooses the session for a query or delegate that names no agent, if no agent that answers
// by itself takes it. If there is no such session, it returns why, or a more precise error. That error
// mentions sessions only to a sender that may discover them. It mentions that the sender's turns are used
// up only to a sender that may wake a session.
func (s *Service) ChooseSession(from identity.ID, kind, domain string, why error) (string, error) {
	sessions := s.Agents.FindSessions(kind, domain)
	sender, ok := s.Trust.FindPeer(from)
	if len(sessions) == 0 || !ok {
		return "", why
	}
	chosen, best, free := s.chooseWakeable(sessions, sender, kind)
	if chosen != nil {
		return chosen.Name, nil
	}
	isKnown := s.MayDiscover(sender)
	name := ""
	if isKnown {
		name = fmt.Sprintf("name a session, such as %q, which reads it at its next turn", sessions[0].Name)
	}
	switch {
	case best == waking.UsedUp:
		return "", newUsedUpError(name, free)
	case !isKnown || kinds.AsError(why).Code != kinds.NoAgent:
		return "", why
	case best == waking.Forbidden:
		name += ", or " + describeWakeAllow(kind)
	}
	return "", kinds.Errorf(kinds.NoAgent, "no agent there answers by itself: %s", name)
}

// describeWakeAllow tells the sender of a message how that kind is allowed to wake a session: another kind may be
// allowed already.
func describeWakeAllow(kind string) string {
	return fmt.Sprintf("its owner lets a %s of yours wake it by typing there, with your name there as PEER: acpctl wake allow PEER --kinds %[1]s", kind)
}

// newUsedUpError returns the error for a peer that may wake sessions, and whose share of their turns is
// used up until a time. name is another remedy, or "".
func newUsedUpError(name string, free time.Time) error {
	left := roundUpToMinute(time.Until(free))
	remedy := fmt.Sprintf("try again in %s", kinds.FormatDuration(left))
	if name != "" {
		remedy += ", or " + name
	}
	e := kinds.Errorf(kinds.Overloaded, "the turns that you may cause there are used up: %s", remedy)
	e.RetryAfterMS = uint64(left.Milliseconds())
	return e
}

// roundUpToMinute returns a time of whole minutes, at least one: to the second, it would tell a peer when
// another one was served.
func roundUpToMinute(left time.Duration) time.Duration {
	return max((left + time.Minute - 1).Truncate(time.Minute), time.Minute)
}

// chooseWakeable returns the first of the sessions that a peer may wake now for a kind. Else it returns
// the first one for which the owner is to be asked. best is the best standing that the peer has at any
// of the sessions. If best is [waking.UsedUp], the owner is notified, and free is when there is room again.
func (s *Service) chooseWakeable(sessions []*registry.Agent, sender identity.Peer, kind string) (chosen *registry.Agent, best waking.Standing, free time.Time) {
	var usedUp []waking.Message
	for _, a := range sessions {
		m := waking.Message{Agent: a.Name, Peer: sender, Kind: kind}
		standing := s.Waker.FindStanding(m)
		if standing == waking.UsedUp {
			usedUp = append(usedUp, m)
		}
		if standing > best {
			best, chosen = standing, a
		}
	}
	if best >= waking.Asks {
		return chosen, best, free
	}
	for _, m := range usedUp {
		if room := s.Waker.RecordUsedUp(m); free.IsZero() || room.Before(free) {
			free = room
		}
	}
	return nil, best, free
}

// newWakeMessage describes a message for a session.
func (s *Service) newWakeMessage(agent string, sender identity.Peer, env *wire.Envelope) waking.Message {
	m := waking.Message{Agent: agent, Peer: sender, Kind: env.Kind, ID: env.ID}
	if t := s.findGivenBy(agent, env); t != nil {
		m.Delegation = t.ID
	} else if env.Ref != nil && kinds.Has(env.Kind, kinds.Report) && s.WasKeptFor(agent, *env.Ref) {
		m.Delegation = *env.Ref // the end of a message that was kept
	}
	if s.Waker.AsksOwner(m) {
		m.Text, m.Digest = client.BeginPeerText(env.Kind, env.Payload), inbox.HashMessage(env)
		m.Again = s.Inbox.IsFromEarlierRun(inbox.MessageKey{Peer: env.From, ID: env.ID})
	}
	return m
}

// BeginExchange lets a query or delegate wake its session, as soon as the rules and bounds allow it.
// The caller also hands the message to the session, which may get the wake before.
// The caller calls end when the session has answered, or nobody waits for an answer. After end the
// message wakes nobody. The caller does not call end for a delegation that the session has accepted: it
// waits on until the delegation's end releases it. refuse is called if the owner says no to the message.
func (s *Service) BeginExchange(a *registry.Agent, sender identity.Peer, in *client.Inbound, refuse func()) (end func()) {
	var over atomic.Bool
	waiting := copyForWake(in)
	s.Waker.Enqueue(s.newWakeMessage(a.Name, sender, &in.Envelope), func(ctx context.Context, grant client.WakeGrant) waking.Outcome {
		if over.Load() {
			return waking.Outcome{}
		}
		woken := *waiting
		woken.Wake = &grant
		return s.callWake(ctx, a, &woken)
	}, refuse)
	return func() {
		over.Store(true)
		s.Waker.Release(a.Name, sender.ID, in.ID)
	}
}

// BeginQuery is BeginExchange for a query, which has a limit of time. When the owner says no, the context
// asking ends with the error for the asker. If the session was not woken, or its program waits for its user,
// asking ends shortly before the limit, because the asker's clock began earlier: so the asker gets the
// reason for the missing answer.
func (s *Service) BeginQuery(ctx context.Context, a *registry.Agent, sender identity.Peer, in *client.Inbound, limit time.Duration) (asking context.Context, end func()) {
	asking, cancel := context.WithCancelCause(ctx)
	endExchange := s.BeginExchange(a, sender, in, func() { cancel(NewDeclinedError(in.Kind)) })
	m := waking.Message{Agent: a.Name, Peer: sender, Kind: in.Kind, ID: in.ID}
	timer := time.AfterFunc(limit-min(limit/20, maxEarly), func() {
		if !s.Waker.HasWoken(m) {
			cancel(s.newUnwokenError(m))
		} else if asked := s.Agents.FindByName(a.Name); asked != nil && asked.IsSession() && asked.Session.Asks != "" {
			cancel(kinds.Errorf(kinds.Timeout, "the deadline passed: its owner was asked by %s, and has not answered: allow more time, or delegate it", asked.Session.Asks))
		}
	})
	return asking, func() { timer.Stop(); endExchange(); cancel(nil) }
}

// maxEarly bounds how long before the deadline an asker gets the error that a session was not woken. Most
// messages and their replies take less. A session that knows that its model has not seen the query says so before that.
const maxEarly = time.Second / 2

// ExplainUnseen returns the error for the asker of a query to which a session has answered with err. If err says that
// its model has not seen the query, the asker gets the reason, unless this daemon knows better.
func (s *Service) ExplainUnseen(a *registry.Agent, sender identity.Peer, in *client.Inbound, err error) error {
	e := kinds.AsError(err)
	m := waking.Message{Agent: a.Name, Peer: sender, Kind: in.Kind, ID: in.ID}
	switch {
	case e.Delivered() != kinds.DeliveredNo:
		return err
	case s.Waker.HasWoken(m):
		return e.SanitizeForPeer()
	}
	return s.newUnwokenError(m).WithDelivered(kinds.DeliveredNo)
}

// newUnwokenError returns the error for the asker of a query for which a session was not woken in time.
func (s *Service) newUnwokenError(m waking.Message) *kinds.Error {
	remedy := "allow more time, or delegate it"
	switch s.Waker.FindStanding(m) {
	case waking.Forbidden:
		remedy += "; " + describeWakeAllow(m.Kind)
	case waking.Asks:
		remedy += "; its owner was asked, and has not answered"
	case waking.UsedUp:
		remedy += fmt.Sprintf("; the turns that you may cause there are used up for %s", kinds.FormatDuration(roundUpToMinute(time.Until(s.Waker.RecordUsedUp(m)))))
	}
	return kinds.Errorf(kinds.Timeout, "the deadline passed, and %s was not woken: %s", m.Agent, remedy)
}

// NewDeclinedError returns the error for the sender of a query or delegation to which the owner of
// this daemon has said no.
func NewDeclinedError(kind string) *kinds.Error {
	return kinds.NewDeclined("the owner there has declined the " + kind)
}

// DeclineTask ends a delegation that a session has accepted, because the owner of this daemon has said
// no. The delegation's sender gets the error, and the session is asked to stop. DeclineTask does nothing
// if the delegation is not accepted, or is over.
func (s *Service) DeclineTask(t *delegation.Delegation, a *registry.Agent, declined *kinds.Error) {
	if !s.Delegations.EndDeclined(t, declined) {
		return
	}
	stop := wire.NewEnvelope(t.Peer, s.Self, kinds.KindCancel, kinds.EncodePayload(&kinds.Cancel{Reason: "the owner has declined it"}))
	stop.Ref = &t.ID
	s.Calls.Go(func() {
		if err := a.Conn.CallFor(context.Background(), t.Peer, registry.ConfirmTime, stop.Kind, &client.Inbound{Envelope: *stop, Name: "your owner"}, nil); err != nil {
			s.Log.Debug("a session was not told that a delegation was declined", "agent", a.Name, "id", t.ID, "code", kinds.AsError(err).Code)
		}
	})
}

// callWake notifies a session of a message, and returns the outcome. With a grant it waits until the
// session's program has begun a turn or refused, which takes as long as the turn before. A message that is
// proven to be read leaves the inbox.
func (s *Service) callWake(ctx context.Context, a *registry.Agent, in *client.Inbound) waking.Outcome {
	s.Known.AddShown(&in.Envelope, a.KeyHash)
	limit := registry.ConfirmTime
	if in.Wake != nil {
		limit = 0
	}
	var said client.WakeAnswer
	err := a.Conn.CallFor(ctx, in.From, limit, client.MethodWake, in, &said)
	if err != nil {
		s.Log.Debug("a session got no notice of a message", "agent", a.Name, "kind", in.Kind, "id", in.ID, "code", kinds.AsError(err).Code)
	}
	o := waking.Outcome{Posted: mayBePosted(said, err), NeedsPerson: err == nil && said.NeedsPerson}
	if err == nil && !o.Posted {
		o.Refused = limitReason(said.Refused)
	}
	if in.Wake != nil {
		s.countWake(o, err)
	}
	if k, known := kinds.FindKind(in.Kind); err == nil && said.Proven && known && k.Class == kinds.Message {
		s.takeProven(ctx, a.Name, inbox.MessageKey{Peer: in.From, ID: in.ID})
	}
	return o
}

// limitReason returns a session's reason as it is shown to the owner.
func limitReason(why string) string {
	if why = client.Line(why); len(why) > client.MaxReason {
		return "its program says why at too great length"
	}
	return why
}

// mayBePosted reports whether a session was woken, or may have been: nothing is certain of one that
// does not answer in time, or that ends meanwhile.
func mayBePosted(said client.WakeAnswer, err error) bool {
	coded, isCoded := errors.AsType[*kinds.Error](err)
	_, isRPC := errors.AsType[*jsonrpc.Error](err)
	switch {
	case err == nil:
		return said.Posted || said.Proven
	case errors.Is(err, jsonrpc.ErrClosed):
		return coded.Delivered() != kinds.DeliveredNo
	}
	return !isRPC && !isCoded && !errors.Is(err, jsonrpc.ErrFull)
}

// Tell notifies a session of a message that is in the inbox for it, and wakes the session if that is allowed.
// It reports whether the session has proved within [registry.ConfirmTime] that it has the message, by an ack
// or by the answer of its program. If so, the message has left the inbox.
func (s *Service) Tell(ctx context.Context, a *registry.Agent, sender identity.Peer, in *client.Inbound) (proven bool) {
	m := s.newWakeMessage(a.Name, sender, &in.Envelope)
	k := inbox.MessageKey{Peer: in.From, ID: in.ID}
	taken, stop := s.Waker.Watch(a.Name, k.Peer, k.ID)
	defer stop()
	timer := time.NewTimer(registry.ConfirmTime)
	defer timer.Stop()
	told := copyForWake(in)
	if !kinds.IsPartial(in.Kind, in.Payload) {
		told.Wake = s.Waker.Request(ctx, m, func(ctx context.Context, grant client.WakeGrant) waking.Outcome { return s.wakeLater(ctx, m, k, grant) })
	}
	posted := make(chan bool, 1)
	s.Calls.Go(func() {
		o := s.callWake(ctx, a, told)
		if told.Wake != nil {
			s.Waker.Finish(ctx, m, o)
		}
		posted <- o.Posted
	})
	for onItsWay := true; onItsWay; {
		select {
		case onItsWay = <-posted:
			posted = nil
		case <-taken:
			return true
		case <-timer.C:
			onItsWay = false
		case <-a.Conn.Done():
			onItsWay = false
		}
	}
	select {
	case <-taken:
		return true
	default:
		return false
	}
}

// takeProven removes a message that the program of a session has proved to have taken.
func (s *Service) takeProven(ctx context.Context, agent string, k inbox.MessageKey) {
	err := s.Disk.RunWithReserve(func() error { _, err := s.Inbox.TakeMessage(ctx, k, agent); return err })
	if err != nil {
		s.Log.Warn("a message that a session has read stays in the inbox", "agent", agent, "id", k.ID, "err", err)
		return
	}
	s.Waker.Acknowledge(agent, k.Peer, k.ID)
}

// wakeLater wakes a session for a message that has been in the inbox for some time.
func (s *Service) wakeLater(ctx context.Context, m waking.Message, k inbox.MessageKey, grant client.WakeGrant) (none waking.Outcome) {
	a := s.Agents.FindByName(m.Agent)
	if a == nil || !a.IsSession() {
		return none
	}
	env, err := s.Inbox.ReadMessage(ctx, k)
	if err != nil || env == nil || m.Digest != (inbox.Digest{}) && m.Digest != inbox.HashMessage(env) {
		return none // what the owner has approved is no longer there
	}
	sender, ok := s.Trust.FindPeer(k.Peer)
	if !ok && k.Peer != s.Self {
		return none
	}
	in := &client.Inbound{Envelope: *env, Name: cmp.Or(sender.Name, m.Peer.Name), Wake: &grant}
	if env.Ref != nil {
		if t := s.Delegations.Find(client.Given, env.From, *env.Ref); t != nil {
			in.Delegation = s.DescribeDelegation(ctx, t, false)
		}
	}
	return s.callWake(ctx, a, copyForWake(in))
}

// ChooseTold returns the session that is notified of a held message: the one that is named, or else the
// one that chooseWakeable chooses, or nil.
func (s *Service) ChooseTold(agent string, takers []*registry.Agent, sender identity.Peer, kind string) *registry.Agent {
	var sessions []*registry.Agent
	for _, a := range takers {
		switch {
		case !a.IsSession():
		case a.Name == agent:
			return a
		case agent == "":
			sessions = append(sessions, a)
		}
	}
	chosen, _, _ := s.chooseWakeable(sessions, sender, kind)
	return chosen
}

// End ends what a session had begun. It does nothing for other agents, which may come back.
func (s *Service) End(a *registry.Agent) {
	if a.IsSession() {
		s.Waker.Detach(a.Name)
		s.Delegations.EndForLostSession(a.Name)
	}
}

// findGivenBy returns the delegation that a result, an error or a question belongs to, if the
// agent has given it, or nil. It ignores the ref of other kinds, in which a peer may write anything.
func (s *Service) findGivenBy(agent string, env *wire.Envelope) *delegation.Delegation {
	if env.Ref == nil || env.Kind != kinds.KindQuery && !kinds.Has(env.Kind, kinds.Report) {
		return nil
	}
	t := s.Delegations.Find(client.Given, env.From, *env.Ref)
	if t == nil || t.Agent != agent {
		return nil
	}
	return t
}
