package incoming

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

// HandleExchange answers a request of a trusted peer, in the goroutine of its stream.
func (s *Service) HandleExchange(ctx context.Context, request *peer.Passing) (*wire.Envelope, error) {
	env := request.Envelope
	var answer wire.Payload
	var err error
	switch env.Kind {
	case kinds.KindQuery:
		answer, err = s.handleQueryOrQuestion(ctx, request)
	case kinds.KindDelegate, kinds.KindCancel:
		out := s.handleMessageOnce(ctx, request.Sender, request.Checked)
		answer, err = out.Ack, out.Err
		if t := s.Delegations.Find(client.Taken, env.From, env.ID); t != nil {
			request.SetAgent(&t.Agent)
		}
	case kinds.KindPing:
		answer, err = s.handlePing(request.Sender)
	case kinds.KindDiscover:
		answer, err = s.handleDiscover(request.Sender, env)
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
	if agent == env.Agent || s.Permissions.MayDiscover(request.Sender) {
		reply.FromAgent = agent
	}
	return reply, nil
}

// beginMessage makes a message known, until the caller calls s.Known.End. It returns an error if a known
// message of another peer has its id. Only a peer that may send such a message learns that.
func (s *Service) beginMessage(sender identity.Peer, message kinds.Checked) error {
	if s.Known.Begin(sender.ID, message.ID) {
		return nil
	}
	if err := s.Permissions.CheckAllowed(sender, message.Kind, message.Domain); err != nil {
		return err
	}
	return inbox.NewReusedIDError(message.Envelope)
}

// HandleMessage takes a message of a trusted peer; the state becomes its receipt.
func (s *Service) HandleMessage(ctx context.Context, message *peer.Passing) (wire.ReceiptState, error) {
	out := s.handleMessageOnce(ctx, message.Sender, message.Checked)
	return out.State, out.Err
}

// handleMessageOnce handles a message unless it has come before. Then it returns the outcome of the
// first run.
func (s *Service) handleMessageOnce(ctx context.Context, sender identity.Peer, message kinds.Checked) (out inbox.Outcome) {
	env := message.Envelope
	if err := s.beginMessage(sender, message); err != nil {
		return inbox.Outcome{Err: err}
	}
	defer s.Known.End(env.ID)
	first, fresh, err := s.Repeats.BeginRun(sender.ID, env)
	if err != nil {
		return inbox.Outcome{Err: err}
	}
	if !fresh {
		out, ok := s.Repeats.WaitForOutcome(ctx, first)
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
			s.Repeats.FinishRun(first, out)
		} else {
			s.Repeats.ForgetRun(sender.ID, first, out)
		}
	}()
	switch env.Kind {
	case kinds.KindDelegate:
		out, keep = s.Tasks.HandleDelegate(ctx, sender, env, first.Content)
	case kinds.KindCancel:
		out, keep = s.Tasks.HandleCancel(ctx, sender, env)
	case kinds.KindNotify:
		out, keep = s.handleNotify(ctx, sender, message)
	case kinds.KindResult, kinds.KindError:
		out, keep = s.Tasks.HandleReport(ctx, sender, env)
	default:
		out, keep = inbox.Refuse(newUnknownKindError(env))
	}
	if out.Err = s.Agents.MaskLocalError(env, out.Err); out.Unhanded {
		out.Err = kinds.MarkNotDelivered(out.Err)
	}
	return out
}

// newUnknownKindError returns the error for a message whose kind nothing here handles.
func newUnknownKindError(env *wire.Envelope) *kinds.Error {
	return kinds.Errorf(kinds.UnknownKind, "kind: %q is not known here", env.Kind)
}

func (s *Service) handlePing(sender identity.Peer) (wire.Payload, error) {
	if err := s.Permissions.CheckAllowed(sender, kinds.KindPing, ""); err != nil {
		return nil, err
	}
	state, active, attached := s.Registry.SummarizeLoad()
	if s.Drain.HasBegun() {
		state = client.DaemonOverloaded
	}
	return kinds.EncodePayload(&kinds.Pong{
		Status: string(state), UptimeSecs: uint64(time.Since(s.Started).Seconds()), ActiveTasks: uint64(active),
		AgentName: s.Name, Attached: uint64(attached),
	}), nil
}

func (s *Service) handleDiscover(sender identity.Peer, env *wire.Envelope) (wire.Payload, error) {
	if err := s.Permissions.CheckAllowed(sender, kinds.KindDiscover, ""); err != nil {
		return nil, err
	}
	c, err := s.Registry.DescribeCapabilities(s.Name, env.Agent)
	if err != nil {
		return nil, err
	}
	c.Sessions = slices.DeleteFunc(c.Sessions, func(agent string) bool { return s.Sessions.Waker.MayWake(agent, sender, kinds.KindQuery) })
	for i := range c.Details {
		if a := &c.Details[i]; a.Answers == kinds.AnswersTurn && !slices.Contains(c.Sessions, a.Name) {
			a.Answers = kinds.AnswersWakes
		}
	}
	return kinds.EncodePayload(c), nil
}

func (s *Service) handleQueryOrQuestion(ctx context.Context, query *peer.Passing) (wire.Payload, error) {
	if err := s.beginMessage(query.Sender, query.Checked); err != nil {
		return nil, err
	}
	defer s.Known.End(query.ID)
	if query.Ref != nil {
		return s.Tasks.HandleQuestion(ctx, query)
	}
	return s.handleQuery(ctx, query)
}

// handleQuery passes a query to an agent. If the sender gives up, the agent is notified.
func (s *Service) handleQuery(ctx context.Context, query *peer.Passing) (wire.Payload, error) {
	env, sender := query.Envelope, query.Sender
	if err := s.Permissions.CheckAllowed(sender, env.Kind, query.Domain); err != nil {
		return nil, kinds.MarkNotDelivered(err)
	}
	if err := s.Drain.CheckTakesWork(); err != nil {
		return nil, kinds.MarkNotDelivered(err)
	}
	p, err := s.Agents.ReservePlace(sender.ID, env.Kind, query.Domain, env.Agent)
	if err != nil {
		return nil, kinds.MarkNotDelivered(err)
	}
	defer s.Registry.ReleasePlace(p)
	query.SetAgent(&p.Agent.Name)
	deadline, answered := query.QueryTimeout(), false
	s.Known.BeginQuery(env, p.Agent, time.Now().Add(deadline))
	defer func() { s.Known.EndQuery(env, answered) }()
	var answer wire.Payload
	in := &client.Inbound{Envelope: *env, Name: sender.Name, DeadlineMS: uint64(deadline.Milliseconds())}
	if p.Agent.IsSession() {
		s.Known.AddShown(env, p.Agent.KeyHash) // the session may act upon it when it has answered
		asking, end := s.Sessions.BeginQuery(ctx, p.Agent, sender, in, deadline)
		defer end()
		ctx = asking
	}
	if err := agents.Call(ctx, deadline, p.Agent, in, &answer); err != nil {
		return nil, s.Sessions.ExplainUnseen(p.Agent, sender, in, err)
	}
	answered = true
	return answer, nil
}

// handleNotify hands a notification to all agents that want it, or holds it.
func (s *Service) handleNotify(ctx context.Context, sender identity.Peer, message kinds.Checked) (inbox.Outcome, bool) {
	env := message.Envelope
	if err := client.CheckTopic(message.Topic); err != nil {
		return inbox.Refuse(err)
	}
	if err := s.Permissions.CheckAllowed(sender, env.Kind, ""); err != nil {
		return inbox.Refuse(err)
	}
	if err := s.Drain.CheckTakesWork(); err != nil {
		return inbox.Refuse(err)
	}
	return s.Agents.HandOrHold(ctx, sender, env, env.Agent, "", s.Registry.FindTakers(env.Kind, message.Topic, env.Agent), &client.Inbound{Envelope: *env, Name: sender.Name})
}
