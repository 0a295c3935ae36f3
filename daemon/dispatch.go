package daemon

import (
	"context"
	"errors"
	"net"
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
		return nil, newUntrusted(env)
	}
	d.noteReceived(env, "")
	var answer wire.Payload
	var err error
	switch env.Kind {
	case kinds.KindQuery:
		answer, err = d.onQuery(ctx, sender, request)
	case kinds.KindDelegate, kinds.KindCancel:
		out := d.runOnce(ctx, sender, request)
		answer, err = out.Ack, out.Err
	case kinds.KindPing:
		answer, err = d.onPing(sender)
	case kinds.KindDiscover:
		answer, err = d.onDiscover(sender, env)
	default:
		err = newUnknownKind(env)
	}
	var reply *wire.Envelope
	if err == nil {
		reply = wire.NewReply(env, request.Spec.Reply, answer)
	} else {
		reply = kinds.NewErrorReply(env, err)
	}
	d.noteSent(reply, "")
	return reply, nil
}

// onMessage takes a message of a trusted peer; the state becomes its receipt.
func (d *Daemon) onMessage(ctx context.Context, message kinds.Checked) (wire.ReceiptState, error) {
	sender, ok := d.trust.Get(message.From)
	if !ok {
		return 0, newUntrusted(message.Envelope)
	}
	d.noteReceived(message.Envelope, message.Topic)
	out := d.runOnce(ctx, sender, message)
	return out.State, out.Err
}

// runOnce runs a message unless it has come before; then it returns what became of
// the first run.
func (d *Daemon) runOnce(ctx context.Context, sender identity.Peer, message kinds.Checked) (out inbox.Outcome) {
	env := message.Envelope
	first, fresh, err := d.repeats.Begin(sender.ID, env)
	if err != nil {
		return inbox.Outcome{Err: err}
	}
	if !fresh {
		out, ok := d.repeats.Wait(ctx, first)
		if !ok {
			return inbox.Outcome{Err: explainEnd(ctx)}
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
		out, keep = refused(newUnknownKind(env))
	}
	out.Err = d.hideOwnFault(env, out.Err)
	return out
}

// hideOwnFault logs what went wrong on this machine, like a full disk, and returns
// what is the sender's business of it: neither paths nor what the system says.
func (d *Daemon) hideOwnFault(env *wire.Envelope, err error) error {
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

// newUnknownKind is the answer to a message of a kind that nothing here handles.
func newUnknownKind(env *wire.Envelope) *kinds.Error {
	return kinds.Errorf(kinds.UnknownKind, "kind: %q is not known here", env.Kind)
}

func (d *Daemon) onPing(sender identity.Peer) (wire.Payload, error) {
	if err := d.permissions.check(sender, kinds.KindPing, ""); err != nil {
		return nil, err
	}
	status, active, attached := d.agents.Summarize()
	return kinds.Encode(&kinds.Pong{
		Status: status, UptimeSecs: uint64(time.Since(d.started).Seconds()), ActiveTasks: uint64(active),
		AgentName: d.name, Attached: uint64(attached),
	}), nil
}

func (d *Daemon) onDiscover(sender identity.Peer, env *wire.Envelope) (wire.Payload, error) {
	if err := d.permissions.check(sender, kinds.KindDiscover, ""); err != nil {
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
	if err := d.permissions.check(sender, env.Kind, query.Domain); err != nil {
		return nil, err
	}
	p, err := d.reserveAgent(sender.ID, env.Kind, query.Domain, env.Agent)
	if err != nil {
		return nil, err
	}
	defer d.agents.Release(p)
	d.queries.add(env)
	defer d.queries.remove(env)
	deadline := queryDeadline(query)
	var answer wire.Payload
	in := &client.Inbound{Envelope: *env, Name: sender.Name, DeadlineMS: uint64(deadline.Milliseconds())}
	if err := callAgent(ctx, deadline, p.Agent, in, &answer); err != nil {
		return nil, err
	}
	return answer, nil
}

// reserveAgent chooses the agent for a query or delegate of a peer. One place of each agent
// is left for other peers, while there are any.
func (d *Daemon) reserveAgent(from identity.ID, kind, domain, name string) (*registry.Reservation, error) {
	p, err := d.agents.Reserve(from, false, kind, domain, name)
	if _, noPlace := errors.AsType[*registry.ShareError](err); !noPlace {
		return p, err
	}
	if !d.node.ConnectedBut(from) {
		return d.agents.Reserve(from, true, kind, domain, name)
	}
	d.agentPlaces.Refuse(from)
	e := kinds.Errorf(kinds.Overloaded, "%v: try again later", err)
	e.RetryAfterMS = registry.RetryAfterMS
	return nil, e
}

// newUntrusted is the answer to a message whose sender was untrusted while it came.
func newUntrusted(env *wire.Envelope) *kinds.Error {
	return kinds.Errorf(kinds.NotAuthorized, "%s: the receiver does not trust the sender any more", env.Kind)
}

// callAgent calls an agent by the message's kind and puts what goes wrong in the
// sender's terms.
func callAgent(ctx context.Context, limit time.Duration, a *registry.Agent, in *client.Inbound, answer any) error {
	err := a.Conn.CallFor(ctx, in.From, limit, in.Kind, in, answer)
	if err == nil {
		return nil
	}
	coded, isCoded := errors.AsType[*kinds.Error](err)
	rpc, isRPC := errors.AsType[*jsonrpc.Error](err)
	switch {
	case ctx.Err() != nil:
		return explainEnd(ctx)
	case errors.Is(err, context.DeadlineExceeded):
		return newTimeout()
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

// explainEnd says why a context is over.
func explainEnd(ctx context.Context) *kinds.Error { return explainCause(context.Cause(ctx)) }

// explainCause says why a context is over that has a cause.
func explainCause(cause error) *kinds.Error {
	if e, ok := errors.AsType[*kinds.Error](cause); ok {
		return e
	}
	if errors.Is(cause, context.DeadlineExceeded) {
		return newTimeout()
	}
	return kinds.Errorf(kinds.Cancelled, "the caller gave up")
}

func newTimeout() *kinds.Error {
	return kinds.Errorf(kinds.Timeout, "the deadline passed: allow more time")
}

// isGivenUp reports whether the sender reset its exchange, as opposed to a
// connection that was lost under it: those errors all are net.ErrClosed too.
func isGivenUp(ctx context.Context) bool {
	return ctx.Err() != nil && !errors.Is(context.Cause(ctx), net.ErrClosed)
}
