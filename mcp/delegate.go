package mcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/internal/pace"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

type delegateArguments struct {
	To        string         `json:"to"`
	Task      string         `json:"task"`
	Context   jsontext.Value `json:"context"`
	Domain    string         `json:"domain"`
	DeadlineS float64        `json:"deadline_s"`
	Wait      bool           `json:"wait"`
	Thread    string         `json:"thread"`
	About     string         `json:"about"`
	ID        string         `json:"id"`
	Keep      string         `json:"keep"`
}

// callDelegate hands over work. If the program cancels the call before the peer has accepted the work,
// the work is withdrawn; afterwards it continues.
func (s *Server) callDelegate(ctx context.Context, call *toolCall) (*result, error) {
	var a delegateArguments
	if err := call.readArguments(&a); err != nil {
		return nil, err
	}
	deadline, err := readSeconds("deadline_s", a.DeadlineS, kinds.MaxTaskDeadline)
	if err != nil {
		return nil, err
	}
	keep, err := readKeep(a.Keep)
	if err != nil {
		return nil, err
	}
	h, err := s.newHead(call, a.ID, a.About, a.Thread)
	if err != nil {
		return nil, err
	}
	payload, err := newPayload(kinds.KindDelegate, &kinds.Delegate{Task: a.Task, Context: a.Context, Domain: a.Domain, DeadlineMS: deadline})
	if err != nil {
		return nil, err
	}
	begun := time.Now()
	sent, err := sendWith(ctx, s, h, func(h client.Head) (*client.DelegateAnswer, error) {
		return s.Daemon.Delegate(ctx, client.DelegateParams{Head: h, To: a.To, Payload: payload, KeepMS: keep})
	})
	if err != nil {
		return nil, err
	}
	ack, err := kinds.ParsePayload[kinds.Ack](sent.Payload)
	if err != nil {
		return nil, err
	}
	if !ack.Accepted {
		refusal := kinds.NewErrorFromWire(cmp.Or(string(ack.Code), string(kinds.NotAuthorized)), ack.Message, 0)
		refusal.From = sent.From.String()
		return nil, refusal
	}
	name := s.names.of(ctx, s, sent.From)
	accepted := &result{State: "accepted", ID: sent.ID, From: name, Text: fmt.Sprintf("accepted by %s, id %s. acp_task with this id tells how it goes; the result also comes to acp_inbox.", name, sent.ID)}
	if !a.Wait {
		return accepted, nil
	}
	task, err := s.awaitTask(ctx, call, sent.ID, s.timing.wait-time.Since(begun))
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil { // the work continues, so this is no failure
		accepted.Text += " It could not be waited for: " + client.Line(ownwords.Of(err))
		return accepted, nil
	}
	return s.describeTask(ctx, task, 1, true)
}

// awaitTask waits until a delegation is over, or asks back, for the time of limit at most, and returns it as it
// is then. It outlasts a restart of the daemon.
func (s *Server) awaitTask(ctx context.Context, call *toolCall, id wire.MessageID, limit time.Duration) (*client.Task, error) {
	end := time.Now().Add(limit)
	begun := time.Now()
	for partials := new(uint64); ; {
		left := min(time.Until(end), s.timing.progress)
		if left < time.Millisecond {
			return twice(ctx, func(ctx context.Context) (*client.Task, error) { return s.Daemon.Task(ctx, id) })
		}
		task, err := s.Daemon.Wait(ctx, client.WaitParams{ID: id, TimeoutMS: uint64(left.Milliseconds()), AfterPartials: partials, AfterQuestions: new(uint64)})
		e, coded := errors.AsType[*kinds.Error](err)
		switch {
		case err == nil && (task.Over || task.Question != nil):
			return task, nil
		case err == nil:
			partials = &task.Partials
			s.tellProgress(ctx, call, begun, describePartial(task))
		case ctx.Err() != nil || !coded:
			return nil, err
		case e.Code == kinds.Timeout:
			s.tellProgress(ctx, call, begun, "the work goes on")
		case e.Code == kinds.DaemonUnavailable && time.Until(end) > 0:
			if err := pace.Sleep(ctx, min(250*time.Millisecond, time.Until(end))); err != nil {
				return nil, err
			}
		default:
			return nil, err
		}
	}
}

// describePartial describes how far the work is, without words of the peer: a program may show it to its model.
func describePartial(t *client.Task) string {
	var p struct {
		Progress float64 `json:"progress"`
	}
	if len(t.Partial) > 0 && json.Unmarshal(t.Partial.Object(), &p) == nil && p.Progress > 0 && p.Progress <= 1 {
		return fmt.Sprintf("%s works on it (%d %%)", t.Peer, int(p.Progress*100))
	}
	return t.Peer + " works on it"
}
