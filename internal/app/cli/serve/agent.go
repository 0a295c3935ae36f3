package serve

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/harness/profile"
	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/internal/pace"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// server runs the agent that acpctl serve attaches.
type server struct {
	*frame.Frame
	argv    []string
	prompt  bool
	timeout time.Duration
	stderr  string // how much of the command's stderr peers get
	keyFile string // if empty, the key is kept only in memory
	name    string // as which it is attached
	socket  string // of the agents, for commands

	profile    profileOptions
	runner     *profile.Runner // runs an agent program instead of a command; nil: a command
	unconfined string          // why nothing confines it
	forgetting atomic.Bool     // conversations with untrusted peers are removed

	working  context.Context // ends when all commands are to end
	stopWork context.CancelCauseFunc
	work     sync.WaitGroup // commands, and results on their way

	attachments pace.Rounds // each attaches the agent

	mu      sync.Mutex                                 // guards callOff, and that work begins
	callOff map[wire.MessageID]context.CancelCauseFunc // by delegation whose command runs; bounded by the daemon, see max_concurrent
}

// registerWork registers a piece of work, or returns an error if serving ends. The caller ends it
// with s.work.Done.
func (s *server) registerWork() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.working.Err() != nil {
		return errStopping
	}
	s.work.Add(1)
	return nil
}

// answerQuery runs the command and returns its output as the response.
func (s *server) answerQuery(ctx context.Context, in *client.Inbound) (any, error) {
	if err := s.registerWork(); err != nil {
		return nil, err
	}
	defer s.work.Done()
	q, err := kinds.ParsePayload[kinds.Query](in.Payload)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.working, func() { cancel(context.Cause(s.working)) })()
	started := time.Now()
	out, err := s.doWork(ctx, in, q.Question, q.Domain, nil)
	s.printWorkReport(in, started, err)
	if err != nil {
		return nil, err
	}
	return out.makeResponse(), nil
}

// acceptDelegation accepts at once and starts to work.
func (s *server) acceptDelegation(_ context.Context, in *client.Inbound) (*kinds.Ack, error) {
	d, err := kinds.ParsePayload[kinds.Delegate](in.Payload)
	if err != nil {
		return nil, err
	}
	if err := s.registerWork(); err != nil {
		return nil, err
	}
	ctx, callOff := context.WithCancelCause(s.working)
	s.mu.Lock()
	s.callOff[in.ID] = callOff
	s.mu.Unlock()
	go func() {
		defer s.work.Done()
		defer callOff(nil)
		s.performTask(ctx, in, d)
	}()
	return &kinds.Ack{Accepted: true}, nil
}

// performTask runs the command of a delegation and reports the result.
func (s *server) performTask(ctx context.Context, in *client.Inbound, d *kinds.Delegate) {
	started := time.Now()
	var progress *progressReporter
	var hear func(string)
	if d.OwesResult() && s.runner != nil {
		progress = s.startProgress(ctx, in.ID)
		hear = progress.hear
	}
	out, err := s.doWork(ctx, in, d.Task, d.Domain, hear)
	progress.stop()
	calledOff := s.removeTask(ctx, in.ID)
	if calledOff {
		err = errCalledOff
	}
	s.printWorkReport(in, started, err)
	if calledOff || !d.OwesResult() {
		return
	}
	result := newFailedResult(err)
	if err == nil {
		result = out.makeResult()
	}
	s.reportResult(in.ID, in.Name, result, s.Daemon.SendResult)
}

// reportResult tells the sender of a delegation how it ended.
func (s *server) reportResult(ref wire.MessageID, owner string, payload wire.Payload, send func(context.Context, client.ResultParams) (*client.Receipt, error)) {
	// That work was stopped is worth a last word.
	sending, cancel := context.WithCancel(context.WithoutCancel(s.working))
	defer cancel()
	defer context.AfterFunc(s.working, func() { time.AfterFunc(lastWords, cancel) })()
	params := client.ResultParams{Head: client.Head{ID: wire.NewMessageID()}, Ref: ref, Payload: payload}
	wasDelayed := false
	err := resultDelivery{send: send, attached: s.attachments.Next, delayed: func(why *kinds.Error) {
		wasDelayed = true
		if why.Code == kinds.DaemonUnavailable {
			s.logLine("delegate %s from %s: the daemon is away: the result is kept here, and sent when the daemon is back", ref, owner)
			return
		}
		s.logLine("delegate %s from %s: the result is sent again until it is taken: %v", ref, owner, why)
	}}.deliver(sending, params)
	switch {
	case err != nil:
		s.logLine("delegate %s from %s: the result was not taken: %v", ref, owner, err)
	case wasDelayed:
		s.logLine("delegate %s from %s: the result is taken now", ref, owner)
	}
}

// failAbandonedTasks reports delegations as failed that an earlier process of this name had
// accepted and not ended. It runs before this process attaches, so none of its own is among
// them. If an agent of the name is attached they are its own, and it returns an error.
//
// The agents' socket wants the key of that process for this. Without it there is nothing to
// report: the daemon keeps the name, or has no open work for it.
func (s *server) failAbandonedTasks(ctx context.Context, name, key string) error {
	if s.AsGuest {
		if key == "" {
			return nil
		}
		s.Daemon.SpeakAs = client.SpeakParams{Name: name, Key: key}
	}
	tasks, err := s.Daemon.Tasks(ctx)
	if s.AsGuest && errors.Is(err, &kinds.Error{Code: kinds.NoAgent}) {
		s.Daemon.SpeakAs = client.SpeakParams{} // its work is over
		return nil
	}
	if err == nil && !s.AsGuest {
		err = s.checkNotAttached(ctx, name)
	}
	if err != nil {
		return err
	}
	lost := kinds.EncodePayload(kinds.Errorf(kinds.Internal, "the command's process ended before it was done"))
	for _, t := range tasks {
		if t.Agent == name && t.State == client.TaskAccepted && s.registerWork() == nil {
			go func() {
				defer s.work.Done()
				s.logLine("delegate %s from %s: an earlier process had accepted it and ended: it is reported as failed", t.ID, t.Peer)
				s.reportResult(t.ID, t.Peer, lost, s.Daemon.SendError)
			}()
		}
	}
	return nil
}

// checkNotAttached returns an error if an agent of the name is attached. It is called when the tasks
// were listed: an agent that has attached since is seen here, and has no task of that list.
func (s *server) checkNotAttached(ctx context.Context, name string) error {
	status, err := s.Daemon.Status(ctx)
	if err == nil && slices.ContainsFunc(status.Agents, func(a client.Agent) bool { return a.Name == name }) {
		err = kinds.Errorf(kinds.Invalid, "an agent named %s is attached already: choose another name with --name, or stop that one", name)
	}
	return err
}

// removeTask forgets a task, which cannot be called off any more, and reports whether it was.
func (s *server) removeTask(ctx context.Context, id wire.MessageID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.callOff, id)
	return context.Cause(ctx) == error(errCalledOff)
}

// cancelTask ends the command of a delegation.
func (s *server) cancelTask(_ context.Context, in *client.Inbound) (*kinds.Ack, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if in.Ref == nil || s.callOff[*in.Ref] == nil {
		return &kinds.Ack{Code: kinds.NotFound, Message: "no command runs for it: it has ended"}, nil
	}
	s.callOff[*in.Ref](errCalledOff)
	return &kinds.Ack{Accepted: true}, nil
}

// workReport holds what serve prints for each piece of work.
type workReport struct {
	ID     wire.MessageID   `json:"id"`
	From   string           `json:"from"`
	Kind   string           `json:"kind"`
	State  client.TaskState `json:"state"` // completed or failed
	TookMS int64            `json:"took_ms"`
	Error  *kinds.Error     `json:"error,omitzero"`
}

func (s *server) printWorkReport(in *client.Inbound, started time.Time, err error) {
	line := workReport{ID: in.ID, From: in.Name, Kind: in.Kind, State: client.TaskCompleted, TookMS: time.Since(started).Milliseconds()}
	if err != nil {
		line.State, line.Error = client.TaskFailed, kinds.AsError(err)
	}
	s.PrintData(line, func() {
		text := fmt.Sprintf("%s %s from %s: %s in %d ms", line.Kind, line.ID, line.From, line.State, line.TookMS)
		if err != nil {
			text += ": " + line.Error.Message
		}
		s.logLine("%s", text)
	})
}

// logLine writes one line for the operator. Text of peers and commands in it cannot add a line that looks like
// another of serve's.
func (s *server) logLine(format string, args ...any) {
	s.Warn(format, args...)
}
