package daemon

import (
	"cmp"
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/daemon/inbox"
	"github.com/acpd/acpd/daemon/registry"
	"github.com/acpd/acpd/disk"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/store"
	"github.com/acpd/acpd/wire"
)

// confirmTime is how long an agent has for its word that it has a message.
const confirmTime = 4 * time.Second

// onExchange answers a request of a trusted peer, in the goroutine of its stream.
func (d *Daemon) onExchange(ctx context.Context, request kinds.Checked) (*wire.Envelope, error) {
	env := request.Envelope
	sender, ok := d.trust.Get(env.From)
	if !ok {
		return nil, untrusted(env)
	}
	d.came(env, "")
	var answer wire.Payload
	var err error
	switch env.Kind {
	case kinds.KindQuery:
		answer, err = d.onQuery(ctx, sender, request)
	case kinds.KindDelegate, kinds.KindCancel:
		out := d.once(ctx, sender, request)
		answer, err = out.Ack, out.Err
	case kinds.KindPing:
		answer, err = d.onPing(sender)
	case kinds.KindDiscover:
		answer, err = d.onDiscover(sender, env)
	default:
		err = unknownKind(env)
	}
	var reply *wire.Envelope
	if err == nil {
		reply = wire.NewReply(env, request.Spec.Reply, answer)
	} else {
		reply = kinds.NewErrorReply(env, err)
	}
	d.goes(reply, "")
	return reply, nil
}

// onMessage takes a message of a trusted peer; the state becomes its receipt.
func (d *Daemon) onMessage(ctx context.Context, message kinds.Checked) (wire.ReceiptState, error) {
	sender, ok := d.trust.Get(message.From)
	if !ok {
		return 0, untrusted(message.Envelope)
	}
	d.came(message.Envelope, message.Topic)
	out := d.once(ctx, sender, message)
	return out.State, out.Err
}

// once runs a message unless it has come before; then it returns what became of
// the first run.
func (d *Daemon) once(ctx context.Context, sender identity.Peer, message kinds.Checked) (out inbox.Outcome) {
	env := message.Envelope
	first, fresh, err := d.repeats.Begin(sender.ID, env)
	if err != nil {
		return inbox.Outcome{Err: err}
	}
	if !fresh {
		out, ok := d.repeats.Wait(ctx, first)
		if !ok {
			return inbox.Outcome{Err: ended(ctx)}
		}
		return out
	}
	ctx = store.For(ctx, sender.ID)
	// Also when a handler panics: nobody may wait for it for ever.
	out = inbox.Outcome{Err: kinds.Errorf(kinds.Internal, "%s: the receiver failed", env.Kind)}
	keep := true
	defer func() {
		if keep {
			d.repeats.Finish(first, out)
		} else {
			d.repeats.Forget(sender.ID, first, out)
		}
	}()
	switch env.Kind {
	case kinds.KindDelegate:
		out, keep = d.onDelegate(ctx, sender, env, first.Content)
	case kinds.KindCancel:
		out, keep = d.onCancel(ctx, sender, env)
	case kinds.KindNotify:
		out, keep = d.onNotify(ctx, sender, message)
	case kinds.KindResult, kinds.KindError:
		out, keep = d.onReport(ctx, sender, env)
	default:
		out, keep = refused(unknownKind(env))
	}
	out.Err = d.ownFault(env, out.Err)
	return out
}

// ownFault logs what went wrong on this machine, like a full disk, and returns
// what is the sender's business of it: neither paths nor what the system says.
func (d *Daemon) ownFault(env *wire.Envelope, err error) error {
	if _, coded := errors.AsType[*kinds.Error](err); err == nil || coded || kinds.AsError(err).Code != kinds.Internal {
		return err
	}
	d.log.Error("message not taken", "kind", env.Kind, "id", env.ID, "peer", env.From.Label(), "err", err)
	if disk.IsFull(err) {
		return kinds.Errorf(kinds.Overloaded, "%s: the receiver's disk is full: its owner has to free some space; try again later", env.Kind)
	}
	return kinds.Errorf(kinds.Internal, "%s: the receiver failed: its log says why", env.Kind)
}

// refused is the outcome of a message with which nothing was done, so that a
// repeat may run anew.
func refused(err error) (inbox.Outcome, bool) { return inbox.Outcome{Err: err}, false }

// unknownKind is the answer to a message of a kind that nothing here handles.
func unknownKind(env *wire.Envelope) *kinds.Error {
	return kinds.Errorf(kinds.UnknownKind, "kind: %q is not known here", env.Kind)
}

func (d *Daemon) onPing(sender identity.Peer) (wire.Payload, error) {
	if err := d.gate.admit(sender, kinds.KindPing, ""); err != nil {
		return nil, err
	}
	status, active, attached := d.agents.Summarize()
	return kinds.Encode(&kinds.Pong{
		Status: status, UptimeSecs: uint64(time.Since(d.started).Seconds()), ActiveTasks: uint64(active),
		AgentName: d.name, Attached: uint64(attached),
	}), nil
}

func (d *Daemon) onDiscover(sender identity.Peer, env *wire.Envelope) (wire.Payload, error) {
	if err := d.gate.admit(sender, kinds.KindDiscover, ""); err != nil {
		return nil, err
	}
	c, err := d.agents.DescribeCapabilities(d.name, env.Agent)
	if err != nil {
		return nil, err
	}
	return kinds.Encode(c), nil
}

// onQuery asks an agent; the sender's giving up is passed on to it.
func (d *Daemon) onQuery(ctx context.Context, sender identity.Peer, query kinds.Checked) (wire.Payload, error) {
	env := query.Envelope
	if err := d.gate.admit(sender, env.Kind, query.Domain); err != nil {
		return nil, err
	}
	p, err := d.pick(sender.ID, env.Kind, query.Domain, env.Agent)
	if err != nil {
		return nil, err
	}
	defer d.agents.Release(p)
	d.exchanges.enter(env)
	defer d.exchanges.leave(env)
	deadline := queryDeadline(query)
	var answer wire.Payload
	in := &client.Inbound{Envelope: *env, Name: sender.Name, DeadlineMS: uint64(deadline.Milliseconds())}
	if err := ask(ctx, deadline, p.Agent, in, &answer); err != nil {
		return nil, err
	}
	return answer, nil
}

// pick chooses the agent for a query or delegate of a peer. One place of each agent
// is left for other peers, while there are any.
func (d *Daemon) pick(from identity.ID, kind, domain, name string) (*registry.Reservation, error) {
	p, err := d.agents.Reserve(from, false, kind, domain, name)
	if _, noPlace := errors.AsType[*registry.ShareError](err); !noPlace {
		return p, err
	}
	if !d.node.ConnectedBut(from) {
		return d.agents.Reserve(from, true, kind, domain, name)
	}
	d.places.Refuse(from)
	e := kinds.Errorf(kinds.Overloaded, "%v: try again later", err)
	e.RetryAfterMS = registry.RetryAfterMS
	return nil, e
}

// onNotify hands a notification to all who want it, or holds it.
func (d *Daemon) onNotify(ctx context.Context, sender identity.Peer, message kinds.Checked) (inbox.Outcome, bool) {
	env := message.Envelope
	if err := d.gate.admit(sender, env.Kind, ""); err != nil {
		return refused(err)
	}
	return d.hand(ctx, env, env.Agent, d.agents.FindTakers(env.Kind, message.Topic, env.Agent), &client.Inbound{Envelope: *env, Name: sender.Name})
}

// hand gives a message to the takers; if none confirms it, it goes to the inbox, for
// the agent that it names or follows from, "" for any. The sender's connection may end meanwhile: the message has arrived all the same.
func (d *Daemon) hand(ctx context.Context, env *wire.Envelope, agent string, takers []*registry.Agent, in *client.Inbound) (inbox.Outcome, bool) {
	ctx = context.WithoutCancel(ctx)
	if held, err := d.inbox.Holds(ctx, env); err != nil {
		return refused(err)
	} else if held {
		return inbox.Outcome{State: wire.Held}, true
	}
	if d.confirmed(ctx, takers, in) {
		return inbox.Outcome{State: wire.Handed}, true
	}
	if err := d.inbox.Hold(ctx, env, agent); err != nil {
		return refused(err)
	}
	// While the agents had their time, an untrust may have emptied the inbox.
	if _, ok := d.trust.Get(env.From); !ok {
		return refused(cmp.Or(d.inbox.RemovePeer(ctx, env.From), error(untrusted(env))))
	}
	return inbox.Outcome{State: wire.Held}, true
}

// untrusted is the answer to a message whose sender was untrusted while it came.
func untrusted(env *wire.Envelope) *kinds.Error {
	return kinds.Errorf(kinds.NotAuthorized, "%s: the receiver does not trust the sender any more", env.Kind)
}

// confirmed reports whether an agent has confirmed the message in time.
func (d *Daemon) confirmed(ctx context.Context, takers []*registry.Agent, in *client.Inbound) bool {
	if len(takers) == 0 {
		return false
	}
	tell := func(a *registry.Agent) error {
		err := ask(ctx, confirmTime, a, in, nil)
		if err != nil {
			d.log.Debug("not confirmed", "agent", a.Name, "kind", in.Kind, "id", in.ID, "err", err)
		}
		return err
	}
	if len(takers) == 1 {
		return tell(takers[0]) == nil
	}
	// The first word counts; the others have their time all the same. Until then they
	// keep the message in memory, which is its sender's to pay for.
	said := make(chan error, len(takers))
	var others sync.WaitGroup
	others.Add(len(takers))
	for _, a := range takers {
		d.calls.Go(func() { defer others.Done(); said <- tell(a) })
	}
	for range takers {
		if <-said != nil {
			continue
		}
		size := int64(len(in.Payload))
		if d.slowTakers.Take(in.From, size) != nil {
			others.Wait()
			return true
		}
		d.calls.Go(func() { others.Wait(); d.slowTakers.Give(in.From, size) })
		return true
	}
	return false
}

// ask calls an agent by the message's kind and puts what goes wrong in the
// sender's terms.
func ask(ctx context.Context, limit time.Duration, a *registry.Agent, in *client.Inbound, answer any) error {
	err := a.Conn.CallFor(ctx, in.From, limit, in.Kind, in, answer)
	if err == nil {
		return nil
	}
	coded, isCoded := errors.AsType[*kinds.Error](err)
	rpc, isRPC := errors.AsType[*jsonrpc.Error](err)
	switch {
	case ctx.Err() != nil:
		return ended(ctx)
	case errors.Is(err, context.DeadlineExceeded):
		return late()
	case errors.Is(err, jsonrpc.ErrFull):
		e := kinds.Errorf(kinds.Overloaded, "agent %s has too many messages to read: try again later", a.Name)
		e.RetryAfterMS = registry.RetryAfterMS
		return e
	case errors.Is(err, jsonrpc.ErrClosed):
		return kinds.Errorf(kinds.NoAgent, "agent %s went away: try again when it is back", a.Name)
	case isCoded:
		return coded.Foreign()
	case isRPC && rpc.Code == jsonrpc.CodeMethodNotFound:
		return kinds.Errorf(kinds.UnknownKind, "agent %s does not take a %s", a.Name, in.Kind)
	}
	return kinds.Errorf(kinds.Internal, "agent %s failed: %v", a.Name, err)
}

// ended says why a context is over.
func ended(ctx context.Context) *kinds.Error { return endedBy(context.Cause(ctx)) }

// endedBy says why a context is over that has a cause.
func endedBy(cause error) *kinds.Error {
	if e, ok := errors.AsType[*kinds.Error](cause); ok {
		return e
	}
	if errors.Is(cause, context.DeadlineExceeded) {
		return late()
	}
	return kinds.Errorf(kinds.Cancelled, "the caller gave up")
}

func late() *kinds.Error { return kinds.Errorf(kinds.Timeout, "the deadline passed: allow more time") }

// givenUp reports whether the sender reset its exchange, as opposed to a
// connection that was lost under it: those errors all are net.ErrClosed too.
func givenUp(ctx context.Context) bool {
	return ctx.Err() != nil && !errors.Is(context.Cause(ctx), net.ErrClosed)
}
