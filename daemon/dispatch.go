package daemon

import (
	"context"
	"slices"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/daemon/agents"
	"github.com/acpd/acpd/daemon/inbox"
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
		out, keep = d.tasks.HandleDelegate(ctx, sender, env, first.Content)
	case kinds.KindCancel:
		out, keep = d.tasks.HandleCancel(ctx, sender, env)
	case kinds.KindNotify:
		out, keep = d.handleNotify(ctx, sender, message)
	case kinds.KindResult, kinds.KindError:
		out, keep = d.tasks.HandleReport(ctx, sender, env)
	default:
		out, keep = inbox.Refuse(newUnknownKindError(env))
	}
	out.Err = d.attached.MaskLocalError(env, out.Err)
	return out
}

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
		return d.tasks.HandleQuestion(ctx, query)
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
	p, err := d.attached.ReservePlace(sender.ID, env.Kind, query.Domain, env.Agent)
	if err != nil {
		return nil, err
	}
	defer d.agents.ReleasePlace(p)
	query.SetAgent(&p.Agent.Name)
	deadline, answered := query.QueryTimeout(), false
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
	if err := agents.Call(ctx, deadline, p.Agent, in, &answer); err != nil {
		return nil, err
	}
	answered = true
	return answer, nil
}

// handleNotify hands a notification to all agents that want it, or holds it.
func (d *Daemon) handleNotify(ctx context.Context, sender identity.Peer, message kinds.Checked) (inbox.Outcome, bool) {
	env := message.Envelope
	if err := d.permissions.CheckAllowed(sender, env.Kind, ""); err != nil {
		return inbox.Refuse(err)
	}
	if err := d.drain.CheckTakesWork(); err != nil {
		return inbox.Refuse(err)
	}
	return d.attached.HandOrHold(ctx, sender, env, env.Agent, d.agents.FindTakers(env.Kind, message.Topic, env.Agent), &client.Inbound{Envelope: *env, Name: sender.Name})
}
