package daemon

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/daemon/inbox"
	"github.com/acpd/acpd/daemon/registry"
	"github.com/acpd/acpd/disk"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/peer"
	"github.com/acpd/acpd/store"
	"github.com/acpd/acpd/wire"
)

// handleExchange answers a request of a trusted peer, in the goroutine of its stream.
func (d *Daemon) handleExchange(ctx context.Context, request *peer.Passing) (*wire.Envelope, error) {
	env := request.Envelope
	var answer wire.Payload
	var err error
	switch env.Kind {
	case kinds.KindQuery:
		answer, err = d.handleQueryOrQuestion(ctx, request)
	case kinds.KindDelegate, kinds.KindCancel:
		out := d.handleMessageOnce(ctx, request.Sender, request.Checked)
		answer, err = out.Ack, out.Err
		if t := d.delegations.Find(client.Taken, env.From, env.ID); t != nil {
			request.SetAgent(&t.Agent)
		}
	case kinds.KindPing:
		answer, err = d.handlePing(request.Sender)
	case kinds.KindDiscover:
		answer, err = d.handleDiscover(request.Sender, env)
	default:
		err = newUnknownKindError(env)
	}
	if err != nil {
		return nil, err
	}
	reply := wire.NewReply(env, request.Spec.Reply, answer)
	agent := request.ChosenAgent()
	if env.Kind == kinds.KindQuery && env.Ref != nil { // a question back may be answered by the owner
		agent = ""
	}
	if agent == env.Agent || d.permissions.MayDiscover(request.Sender) {
		reply.FromAgent = agent
	}
	return reply, nil
}

// beginMessage makes a message known, until the caller calls d.known.End. It returns an error if a known
// message of another peer has its id. Only a peer that may send such a message learns that.
func (d *Daemon) beginMessage(sender identity.Peer, message kinds.Checked) error {
	if d.known.Begin(sender.ID, message.ID) {
		return nil
	}
	if err := d.permissions.CheckAllowed(sender, message.Kind, message.Domain); err != nil {
		return err
	}
	return inbox.NewReusedIDError(message.Envelope)
}

// handleMessage takes a message of a trusted peer; the state becomes its receipt.
func (d *Daemon) handleMessage(ctx context.Context, message *peer.Passing) (wire.ReceiptState, error) {
	out := d.handleMessageOnce(ctx, message.Sender, message.Checked)
	return out.State, out.Err
}

// handleMessageOnce handles a message unless it has come before. Then it returns the outcome of the
// first run.
func (d *Daemon) handleMessageOnce(ctx context.Context, sender identity.Peer, message kinds.Checked) (out inbox.Outcome) {
	env := message.Envelope
	if err := d.beginMessage(sender, message); err != nil {
		return inbox.Outcome{Err: err}
	}
	defer d.known.End(env.ID)
	first, fresh, err := d.repeats.BeginRun(sender.ID, env)
	if err != nil {
		return inbox.Outcome{Err: err}
	}
	if !fresh {
		out, ok := d.repeats.WaitForOutcome(ctx, first)
		if !ok {
			return inbox.Outcome{Err: kinds.NewErrorFromCause(context.Cause(ctx))}
		}
		return out
	}
	ctx = store.WithRequester(ctx, sender.ID)
	// Also when a handler panics: nobody may wait for it for ever.
	out = inbox.Outcome{Err: kinds.Errorf(kinds.Internal, "%s: the receiver failed", env.Kind)}
	keep := true
	defer func() {
		if keep {
			d.repeats.FinishRun(first, out)
		} else {
			d.repeats.ForgetRun(sender.ID, first, out)
		}
	}()
	switch env.Kind {
	case kinds.KindDelegate:
		out, keep = d.handleDelegate(ctx, sender, env, first.Content)
	case kinds.KindCancel:
		out, keep = d.handleCancel(ctx, sender, env)
	case kinds.KindNotify:
		out, keep = d.handleNotify(ctx, sender, message)
	case kinds.KindResult, kinds.KindError:
		out, keep = d.handleReport(ctx, sender, env)
	default:
		out, keep = newRefusedOutcome(newUnknownKindError(env))
	}
	out.Err = d.maskLocalError(env, out.Err)
	return out
}

// maskLocalError logs what went wrong on this machine, such as a full disk. It returns an
// error for the sender, without paths and texts of the system.
func (d *Daemon) maskLocalError(env *wire.Envelope, err error) error {
	if _, coded := errors.AsType[*kinds.Error](err); err == nil || coded || kinds.AsError(err).Code != kinds.Internal {
		return err
	}
	d.refusalLog.WriteLimited(env.From, slog.LevelError, "message not taken", "kind", env.Kind, "id", env.ID, "peer", env.From.Label(), "err", err)
	if disk.IsFullError(err) {
		return kinds.Errorf(kinds.Overloaded, "%s: the receiver's disk is full: its owner has to free some space; try again later", env.Kind)
	}
	return kinds.Errorf(kinds.Internal, "%s: the receiver failed: its log says why", env.Kind)
}

// newRefusedOutcome returns the outcome of a message with which nothing was done, so that a
// repeat may run anew.
func newRefusedOutcome(err error) (inbox.Outcome, bool) { return inbox.Outcome{Err: err}, false }

// newUnknownKindError returns the error for a message whose kind nothing here handles.
func newUnknownKindError(env *wire.Envelope) *kinds.Error {
	return kinds.Errorf(kinds.UnknownKind, "kind: %q is not known here", env.Kind)
}

func (d *Daemon) handlePing(sender identity.Peer) (wire.Payload, error) {
	if err := d.permissions.CheckAllowed(sender, kinds.KindPing, ""); err != nil {
		return nil, err
	}
	state, active, attached := d.agents.SummarizeLoad()
	if d.drain.HasBegun() {
		state = client.DaemonOverloaded
	}
	return kinds.EncodePayload(&kinds.Pong{
		Status: string(state), UptimeSecs: uint64(time.Since(d.started).Seconds()), ActiveTasks: uint64(active),
		AgentName: d.name, Attached: uint64(attached),
	}), nil
}

func (d *Daemon) handleDiscover(sender identity.Peer, env *wire.Envelope) (wire.Payload, error) {
	if err := d.permissions.CheckAllowed(sender, kinds.KindDiscover, ""); err != nil {
		return nil, err
	}
	c, err := d.agents.DescribeCapabilities(d.name, env.Agent)
	if err != nil {
		return nil, err
	}
	c.Sessions = slices.DeleteFunc(c.Sessions, func(agent string) bool { return d.sessions.Waker.MayWake(agent, sender, kinds.KindQuery) })
	for i := range c.Details {
		if a := &c.Details[i]; a.Answers == kinds.AnswersTurn && !slices.Contains(c.Sessions, a.Name) {
			a.Answers = kinds.AnswersWakes
		}
	}
	return kinds.EncodePayload(c), nil
}

func (d *Daemon) handleQueryOrQuestion(ctx context.Context, query *peer.Passing) (wire.Payload, error) {
	if err := d.beginMessage(query.Sender, query.Checked); err != nil {
		return nil, err
	}
	defer d.known.End(query.ID)
	if query.Ref != nil {
		return d.handleQuestion(ctx, query)
	}
	return d.handleQuery(ctx, query)
}

// handleQuery passes a query to an agent. If the sender gives up, the agent is told.
func (d *Daemon) handleQuery(ctx context.Context, query *peer.Passing) (wire.Payload, error) {
	env, sender := query.Envelope, query.Sender
	if err := d.permissions.CheckAllowed(sender, env.Kind, query.Domain); err != nil {
		return nil, err
	}
	if err := d.drain.CheckTakesWork(); err != nil {
		return nil, err
	}
	p, err := d.reserveAgent(sender.ID, env.Kind, query.Domain, env.Agent)
	if err != nil {
		return nil, err
	}
	defer d.agents.ReleasePlace(p)
	query.SetAgent(&p.Agent.Name)
	deadline, answered := queryTimeout(query.Checked), false
	d.known.BeginQuery(env, p.Agent, time.Now().Add(deadline))
	defer func() { d.known.EndQuery(env, answered) }()
	var answer wire.Payload
	in := &client.Inbound{Envelope: *env, Name: sender.Name, DeadlineMS: uint64(deadline.Milliseconds())}
	if p.Agent.IsSession() {
		d.known.AddShown(env, p.Agent.KeyHash) // the session may act upon it when it has answered
		asking, end := d.sessions.BeginQuery(ctx, p.Agent, sender, in, deadline)
		defer end()
		ctx = asking
	}
	if err := callAgent(ctx, deadline, p.Agent, in, &answer); err != nil {
		return nil, err
	}
	answered = true
	return answer, nil
}

// reserveAgent chooses the agent for a query or delegate of a peer. One place of each agent
// is left for other peers, while there are any, and half of those of a session in any case. Half of
// all places of an agent are left for peers that the owner trusts, while there are any.
func (d *Daemon) reserveAgent(from identity.ID, kind, domain, name string) (*registry.Reservation, error) {
	p, err := d.agents.ReserveAgent(from, false, kind, domain, name)
	if err != nil && name == "" && isNoAgentError(err) {
		if name, err = d.sessions.ChooseSession(from, kind, domain, err); err == nil {
			p, err = d.agents.ReserveAgent(from, false, kind, domain, name)
		}
	}
	if err != nil && name != "" && isNoAgentError(err) {
		err = d.suggestAgent(from, kind, name, err)
	}
	if _, noPlace := errors.AsType[*registry.ShareError](err); !noPlace {
		return p, err
	}
	if !d.node.IsAnyConnected(func(id identity.ID) bool { return id != from }) {
		p, err = d.agents.ReserveAgent(from, true, kind, domain, name)
		if _, noPlace := errors.AsType[*registry.ShareError](err); !noPlace {
			return p, err
		}
	}
	d.agentPlaces.CountRefusal(from)
	e := kinds.Errorf(kinds.Overloaded, "%v: try again later", err)
	e.RetryAfterMS = registry.RetryAfterMS
	return nil, e
}

// suggestAgent returns the error for a name that none of the agents has that take the kind. A sender
// that may discover may know which agents there are: the error names those whose name is close, or
// else some of them. For any other sender the error is why.
func (d *Daemon) suggestAgent(from identity.ID, kind, name string, why error) error {
	sender, ok := d.trust.FindPeer(from)
	if !ok || !d.permissions.MayDiscover(sender) {
		return why
	}
	var names []string
	for _, a := range d.agents.FindTakers(kind, "", "") {
		names = append(names, a.Name)
	}
	if len(names) == 0 {
		return why
	}
	some := "name one that does, like " + strings.Join(names[:min(3, len(names))], " or ")
	return kinds.Errorf(kinds.NoAgent, "no agent %q is attached that takes this: %s", name, identity.FormatSuggestion(name, names, some))
}

// isNoAgentError reports whether no agent that is attached takes a query or delegate.
func isNoAgentError(err error) bool {
	e, ok := errors.AsType[*kinds.Error](err)
	return ok && (e.Code == kinds.NoAgent || e.Code == kinds.UnknownDomain)
}

// callAgent calls an agent by the message's kind. It returns errors in the terms of the
// sender.
func callAgent(ctx context.Context, limit time.Duration, a *registry.Agent, in *client.Inbound, answer any) error {
	err := a.Conn.CallFor(ctx, in.From, limit, in.Kind, in, answer)
	if err == nil {
		return nil
	}
	coded, isCoded := errors.AsType[*kinds.Error](err)
	rpc, isRPC := errors.AsType[*jsonrpc.Error](err)
	switch {
	case ctx.Err() != nil:
		return kinds.NewErrorFromCause(context.Cause(ctx))
	case errors.Is(err, context.DeadlineExceeded):
		return kinds.NewErrorFromCause(context.DeadlineExceeded)
	case errors.Is(err, jsonrpc.ErrFull):
		e := kinds.Errorf(kinds.Overloaded, "agent %s has too many messages to read: try again later", a.Name)
		e.RetryAfterMS = registry.RetryAfterMS
		return e
	case errors.Is(err, jsonrpc.ErrClosed):
		gone := kinds.Errorf(kinds.NoAgent, "agent %s went away: try again when it is back", a.Name)
		if a.IsSession() && (!isCoded || coded.Delivered() != kinds.DeliveredNo) {
			gone = gone.WithDelivered(kinds.DeliveredUnknown) // its model may have begun
		}
		return gone
	case isCoded && coded.Code.Info().Local: // of a call of the agent's, with words for this machine
		return kinds.Errorf(kinds.Internal, "agent %s failed: a call that it made has failed", a.Name)
	case isCoded:
		return coded.SanitizeForPeer()
	case isRPC && rpc.Code == jsonrpc.CodeMethodNotFound:
		return kinds.Errorf(kinds.UnknownKind, "agent %s does not take a %s", a.Name, in.Kind)
	case isRPC:
		return kinds.Errorf(kinds.Internal, "agent %s answers with the JSON-RPC error %d: have its owner look after it", a.Name, rpc.Code)
	}
	return kinds.Errorf(kinds.Internal, "agent %s failed: %v", a.Name, err)
}

// isResetBySender reports whether the sender reset its exchange, as opposed to a
// connection that was lost under it: those errors all are net.ErrClosed too.
func isResetBySender(ctx context.Context) bool {
	return ctx.Err() != nil && !errors.Is(context.Cause(ctx), net.ErrClosed)
}
