package daemon

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/config"
	"github.com/acpd/acpd/daemon/delegation"
	"github.com/acpd/acpd/daemon/inbox"
	"github.com/acpd/acpd/daemon/registry"
	"github.com/acpd/acpd/daemon/waking"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// openWaker opens what decides when sessions are woken.
func (d *Daemon) openWaker(ctx context.Context) error {
	rules, warning, err := waking.OpenRules(string(d.home))
	if err != nil {
		return err
	}
	if warning != nil {
		d.log.Warn("wake rules", "warning", warning)
	}
	d.waker, err = waking.OpenWaker(ctx, waking.Config{
		Rules: rules, DB: d.store, Agents: func() *config.Agents { return &d.config.Load().Agents },
		Wakers: d.listConfiguredWakers, Name: d.peerName, Tell: d.publishWakeNotice, Save: d.space.RunWithReserve, Log: d.log,
	})
	if err != nil {
		return err
	}
	command := func() []string { argv, _ := d.findOwnerCommand(); return argv }
	d.ownerNotifier = newOwnerNotifier(command, d.waker.IsAsking, d.log)
	d.inbox.Removed = func(k inbox.MessageKey) { d.waker.ForgetMessage(k.Peer, k.ID) }
	// What an untrust has not written, and what is left of peers that are gone in another way.
	for _, id := range d.waker.ListKnownPeers() {
		if d.forgetWakerIfUntrusted(id) {
			d.leftovers.add(id, d.peerName(id))
		}
	}
	return nil
}

// forgetWakerIfUntrusted forgets what lets a peer wake sessions if it is not trusted, and reports
// whether that is so.
func (d *Daemon) forgetWakerIfUntrusted(id identity.ID) bool {
	if _, ok := d.trust.FindPeer(id); ok {
		return false
	}
	d.waker.ForgetPeer(id)
	return true
}

// listConfiguredWakers returns the trusted peers that config.yaml lets wake an agent, "" for any
// agent.
func (d *Daemon) listConfiguredWakers(agent string) (all []identity.ID) {
	for name, set := range d.config.Load().Agents.Named {
		if agent != "" && name != agent {
			continue
		}
		for ref := range set.Wake {
			if p, ok := d.findConfiguredPeer(ref); ok {
				all = append(all, p.ID)
			}
		}
	}
	return all
}

// findConfiguredPeer returns the trusted peer that a setting names by its name or id.
func (d *Daemon) findConfiguredPeer(ref string) (identity.Peer, bool) {
	if id, err := identity.ParseID(ref); err == nil {
		return d.trust.FindPeer(id)
	}
	p, err := d.trust.Resolve(ref)
	return p, err == nil && p.Name == ref
}

// publishWakeNotice tells subscribers of a bound, or of a message that waits for an approval.
func (d *Daemon) publishWakeNotice(n waking.Notice) {
	typ, details := client.EventBudget, map[string]string{"agent": n.Agent, "kind": n.Kind, "reason": n.Reason}
	if !n.Until.IsZero() {
		details["until"] = n.Until.UTC().Format(time.RFC3339)
	}
	e := ownerEvent{event: eventFailed, peer: n.Peer, name: d.peerName(n.Peer), agent: n.Agent, kind: n.Kind}
	if n.Approval {
		typ, details = client.EventApproval, map[string]string{"agent": n.Agent, "kind": n.Kind, "id": n.Reason}
		e.event, e.number = eventAsks, n.Reason
	} else if n.NeedsPerson {
		details["needs"] = "person"
	}
	if n.Approval || n.NeedsPerson {
		d.ownerNotifier.tell(e)
	}
	d.watch.Publish(typ, n.Peer, d.peerName(n.Peer), time.Now(), details)
}

// chooseSession chooses the session for a query or delegate that names no agent, when no agent takes it
// that answers by itself. If there is no such session, it returns why, or an error that says more. Only
// a sender that may discover is told that there are sessions. Only a sender that may wake one is told
// that its own turns are used up.
func (d *Daemon) chooseSession(from identity.ID, kind, domain string, why error) (string, error) {
	sessions := d.agents.FindSessions(kind, domain)
	sender, ok := d.trust.FindPeer(from)
	if len(sessions) == 0 || !ok {
		return "", why
	}
	chosen, best, free := d.chooseWakeable(sessions, sender, kind)
	if chosen != nil {
		return chosen.Name, nil
	}
	isKnown := d.mayDiscover(sender)
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

// describeWakeAllow says to the sender of a message what lets that kind wake a session: another kind may be allowed.
func describeWakeAllow(kind string) string {
	return fmt.Sprintf("its owner lets a %s of yours wake it by typing there, with your name there as PEER: acpctl wake allow PEER --kinds %[1]s", kind)
}

// newUsedUpError returns the error for a peer that may wake sessions, and whose share of their turns is
// used up until a time. name is another remedy, "" for none.
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
// of the sessions. If best is [waking.UsedUp], the owner hears of it, and free says when there is room
// again.
func (d *Daemon) chooseWakeable(sessions []*registry.Agent, sender identity.Peer, kind string) (chosen *registry.Agent, best waking.Standing, free time.Time) {
	var usedUp []waking.Message
	for _, a := range sessions {
		m := waking.Message{Agent: a.Name, Peer: sender, Kind: kind}
		standing := d.waker.FindStanding(m)
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
		if room := d.waker.RecordUsedUp(m); free.IsZero() || room.Before(free) {
			free = room
		}
	}
	return nil, best, free
}

// newWakeMessage describes a message for a session.
func (d *Daemon) newWakeMessage(agent string, sender identity.Peer, env *wire.Envelope) waking.Message {
	m := waking.Message{Agent: agent, Peer: sender, Kind: env.Kind, ID: env.ID}
	if t := d.findGivenBy(agent, env); t != nil {
		m.Delegation = t.ID
	}
	if d.waker.AsksOwner(m) {
		m.Text, m.Digest = client.BeginPeerText(env.Kind, env.Payload), inbox.HashMessage(env)
		m.Again = d.inbox.IsFromEarlierRun(inbox.MessageKey{Peer: env.From, ID: env.ID})
	}
	return m
}

// beginExchangeWithSession lets a query or delegate wake its session, as soon as the rules and bounds
// let it. The caller also hands the message to the session, which may have heard of the wake before.
// The caller calls end when the session has answered, or nobody waits for an answer. After end the
// message wakes nobody. A delegation that the session has accepted waits on, until the waker is told of
// its end. refuse is called if the owner says no to the message.
func (d *Daemon) beginExchangeWithSession(a *registry.Agent, sender identity.Peer, in *client.Inbound, refuse func()) (end func()) {
	var over atomic.Bool
	waiting := copyForWake(in)
	d.waker.Enqueue(d.newWakeMessage(a.Name, sender, &in.Envelope), func(ctx context.Context, grant client.WakeGrant) waking.Outcome {
		if over.Load() {
			return waking.Outcome{}
		}
		woken := *waiting
		woken.Wake = &grant
		said, err := d.callWake(ctx, a, &woken)
		return readOutcome(said, err)
	}, refuse)
	return func() {
		over.Store(true)
		d.waker.Release(a.Name, sender.ID, in.ID)
	}
}

// beginQueryAtSession is beginExchangeWithSession for a query that has a limit of time. The context
// asking ends with the error for the asker when the owner says no. If the session was not woken, or its
// program waits for its user, asking ends shortly before the limit: the asker's clock has begun earlier,
// and the asker is to hear why there is no answer.
func (d *Daemon) beginQueryAtSession(ctx context.Context, a *registry.Agent, sender identity.Peer, in *client.Inbound, limit time.Duration) (asking context.Context, end func()) {
	asking, cancel := context.WithCancelCause(ctx)
	endExchange := d.beginExchangeWithSession(a, sender, in, func() { cancel(newOwnerDeclinedError(in.Kind)) })
	m := waking.Message{Agent: a.Name, Peer: sender, Kind: in.Kind, ID: in.ID}
	timer := time.AfterFunc(limit-min(limit/10, maxEarly), func() {
		if !d.waker.HasWoken(m) {
			cancel(d.newUnwokenError(m))
		} else if asked := d.agents.FindByName(a.Name); asked != nil && asked.IsSession() && asked.Session.Asks != "" {
			cancel(kinds.Errorf(kinds.Timeout, "the deadline passed: its owner was asked by %s, and has not answered: allow more time, or delegate it", asked.Session.Asks))
		}
	})
	return asking, func() { timer.Stop(); endExchange(); cancel(nil) }
}

// maxEarly bounds how long before the deadline an asker hears that a session was not woken. It is more
// than most messages are under way, both ways together.
const maxEarly = time.Second / 2

// newUnwokenError returns the error for the asker of a query for which a session was not woken in time.
func (d *Daemon) newUnwokenError(m waking.Message) *kinds.Error {
	remedy := "allow more time, or delegate it"
	switch d.waker.FindStanding(m) {
	case waking.Forbidden:
		remedy += "; " + describeWakeAllow(m.Kind)
	case waking.Asks:
		remedy += "; its owner was asked, and has not answered"
	case waking.UsedUp:
		remedy += fmt.Sprintf("; the turns that you may cause there are used up for %s", kinds.FormatDuration(roundUpToMinute(time.Until(d.waker.RecordUsedUp(m)))))
	}
	return kinds.Errorf(kinds.Timeout, "the deadline passed, and %s was not woken: %s", m.Agent, remedy)
}

// newOwnerDeclinedError returns the error for the sender of a query or delegation to which the owner of
// this daemon has said no.
func newOwnerDeclinedError(kind string) *kinds.Error {
	return kinds.NewDeclined("the owner there has declined the " + kind)
}

// declineTask ends a delegation that a session has accepted, because the owner of this daemon has said
// no. The delegation's sender gets the error, and the session is told to stop. declineTask does nothing
// if the delegation is not accepted, or is over.
func (d *Daemon) declineTask(t *delegation.Delegation, a *registry.Agent, declined *kinds.Error) {
	if !d.delegations.EndDeclined(t, declined) {
		return
	}
	stop := wire.NewEnvelope(t.Peer, d.id, kinds.KindCancel, kinds.EncodePayload(&kinds.Cancel{Reason: "the owner has declined it"}))
	stop.Ref = &t.ID
	d.calls.Go(func() {
		if err := callAgent(context.Background(), confirmTime, a, &client.Inbound{Envelope: *stop, Name: "your owner"}, nil); err != nil {
			d.log.Debug("a session was not told that a delegation was declined", "agent", a.Name, "id", t.ID, "code", kinds.AsError(err).Code)
		}
	})
}

// callWake tells a session of a message.
func (d *Daemon) callWake(ctx context.Context, a *registry.Agent, in *client.Inbound) (said client.WakeAnswer, err error) {
	d.known.AddShown(&in.Envelope, a.KeyHash)
	if in.Wake != nil {
		defer func() { d.measures.countWake(said, err) }()
	}
	if err = a.Conn.CallFor(ctx, in.From, confirmTime, client.MethodWake, in, &said); err != nil {
		d.log.Debug("a session got no notice of a message", "agent", a.Name, "kind", in.Kind, "id", in.ID, "code", kinds.AsError(err).Code)
	}
	return said, err
}

// readOutcome returns what became of a wake, by the answer of the session.
func readOutcome(said client.WakeAnswer, err error) waking.Outcome {
	o := waking.Outcome{Posted: mayBePosted(said, err), NeedsPerson: err == nil && said.NeedsPerson}
	if err == nil && !o.Posted {
		o.Refused = limitReason(said.Refused)
	}
	return o
}

// limitReason returns what a session says of itself, as it is shown to the owner.
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

// tellSession tells a session of a message that lies in the inbox for it, and wakes the session
// if that is allowed. It reports whether the session has proved that it has the message, by an
// ack or by its program's word, within confirmTime. If so, the message has left the inbox.
func (d *Daemon) tellSession(ctx context.Context, a *registry.Agent, sender identity.Peer, in *client.Inbound) (proven bool) {
	m := d.newWakeMessage(a.Name, sender, &in.Envelope)
	k := inbox.MessageKey{Peer: in.From, ID: in.ID}
	taken, stop := d.waker.Watch(a.Name, k.Peer, k.ID)
	defer stop()
	timer := time.NewTimer(confirmTime)
	defer timer.Stop()
	told := *in
	if !isPartial(&in.Envelope) {
		told.Wake = d.waker.Request(ctx, m, func(ctx context.Context, grant client.WakeGrant) waking.Outcome { return d.wakeLater(ctx, m, k, grant) })
	}
	said, err := d.callWake(ctx, a, &told)
	if err == nil && said.Proven {
		d.takeProven(ctx, a.Name, k)
	}
	if told.Wake != nil {
		d.waker.Finish(ctx, m, readOutcome(said, err))
	}
	select {
	case <-taken:
		return true
	default:
	}
	if err != nil || !said.Posted {
		return false // nothing is on its way to the session's model
	}
	select {
	case <-taken:
		return true
	case <-timer.C:
	case <-a.Conn.Done():
	}
	return false
}

// takeProven removes a message that the program of a session has proved to have taken.
func (d *Daemon) takeProven(ctx context.Context, agent string, k inbox.MessageKey) {
	err := d.space.RunWithReserve(func() error { _, err := d.inbox.TakeMessage(ctx, k, agent); return err })
	if err != nil {
		d.log.Warn("a message that a session has read stays in the inbox", "agent", agent, "id", k.ID, "err", err)
		return
	}
	d.waker.Acknowledge(agent, k.Peer, k.ID)
}

// wakeLater wakes a session for a message that lies in the inbox since some time.
func (d *Daemon) wakeLater(ctx context.Context, m waking.Message, k inbox.MessageKey, grant client.WakeGrant) (none waking.Outcome) {
	a := d.agents.FindByName(m.Agent)
	if a == nil || !a.IsSession() {
		return none
	}
	env, err := d.inbox.ReadMessage(ctx, k)
	if err != nil || env == nil || m.Digest != (inbox.Digest{}) && m.Digest != inbox.HashMessage(env) {
		return none // what the owner has approved lies there no more
	}
	sender, ok := d.trust.FindPeer(k.Peer)
	if !ok {
		return none
	}
	in := &client.Inbound{Envelope: *env, Name: sender.Name, Wake: &grant}
	if env.Ref != nil {
		if t := d.delegations.Find(client.Given, env.From, *env.Ref); t != nil {
			in.Delegation = d.describeDelegation(ctx, t, false)
		}
	}
	said, err := d.callWake(ctx, a, in)
	if err == nil && said.Proven {
		d.takeProven(ctx, m.Agent, k)
	}
	return readOutcome(said, err)
}

// chooseTold returns the session that is told of a held message: the one that is named, or, if
// none is, the one that chooseWakeable chooses. It returns nil if there is none.
func (d *Daemon) chooseTold(agent string, takers []*registry.Agent, sender identity.Peer, kind string) *registry.Agent {
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
	chosen, _, _ := d.chooseWakeable(sessions, sender, kind)
	return chosen
}

// releaseSession says that nothing waits for what a session does about a delegation.
func (d *Daemon) releaseSession(t *delegation.Delegation) { d.waker.Release(t.Agent, t.Peer, t.ID) }

// endSession ends what a session had begun. It does nothing for other agents, which may come
// back.
func (d *Daemon) endSession(a *registry.Agent) {
	if a.IsSession() {
		d.waker.Detach(a.Name)
		d.delegations.EndForLostSession(a.Name)
	}
}

// findGivenBy returns the delegation that a result, an error or a question belongs to, if the
// agent has given it, else nil. A peer may write a ref into what is none of these.
func (d *Daemon) findGivenBy(agent string, env *wire.Envelope) *delegation.Delegation {
	if env.Ref == nil || env.Kind != kinds.KindQuery && !kinds.Has(env.Kind, kinds.Report) {
		return nil
	}
	t := d.delegations.Find(client.Given, env.From, *env.Ref)
	if t == nil || t.Agent != agent {
		return nil
	}
	return t
}
