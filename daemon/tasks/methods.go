package tasks

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/daemon/delegation"
	"github.com/acpd/acpd/daemon/local"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// serveTasks lists delegations, the newest first, as many as fit a line.
func (s *Service) serveTasks(ctx context.Context, c *local.Conn, p *client.TasksParams) (any, error) {
	const few, most = 100, 1000
	if p.Limit < 0 {
		return nil, kinds.Errorf(kinds.Invalid, "tasks: limit: expected 1 or more")
	}
	limit := min(cmp.Or(p.Limit, few), most)
	all := s.Delegations.List(c.GuestCredential(), func(t *delegation.Delegation, _ client.TaskState) bool {
		return p.After == 0 || uint64(t.Row) < p.After
	})
	slices.SortFunc(all, func(a, b *delegation.Delegation) int { return cmp.Compare(b.Row, a.Row) })
	out := &client.Tasks{Tasks: []client.Task{}}
	room := s.MaxListBytes()
	for i, t := range all {
		row := s.Describe(ctx, t, false)
		room -= 640 + wire.MaxJSONLength(row.Task+row.Outcome+row.Message+row.FromAgent+row.ToAgent)
		if row.Question != nil {
			room -= 256 + wire.MaxJSONLength(row.Question.Text)
		}
		if i == limit || i > 0 && room < 0 {
			out.Next = uint64(all[i-1].Row)
			break
		}
		out.Tasks = append(out.Tasks, *row)
	}
	return out, nil
}

func (s *Service) findTask(c *local.Conn, id wire.MessageID) (*delegation.Delegation, error) {
	t := s.Delegations.FindByID(c.GuestCredential(), id, client.Given, client.Taken)
	switch {
	case t == nil && c.IsGuest:
		return nil, kinds.Errorf(kinds.NotFound, "id: %s names no delegation that this agent has given or works on: see tasks", id)
	case t == nil:
		return nil, kinds.Errorf(kinds.NotFound, "id: %s names no delegation that was given or taken here: see tasks", id)
	}
	return t, nil
}

func (s *Service) serveTask(ctx context.Context, c *local.Conn, p *client.TaskParams) (any, error) {
	t, err := s.findTask(c, p.ID)
	if err != nil {
		return nil, err
	}
	return s.Describe(ctx, t, true), nil
}

func (s *Service) serveWait(ctx context.Context, c *local.Conn, p *client.WaitParams) (any, error) {
	t, err := s.findTask(c, p.ID)
	if err != nil {
		return nil, err
	}
	waiting := ctx
	if p.TimeoutMS > 0 {
		var cancel context.CancelFunc
		waiting, cancel = context.WithTimeout(ctx, time.Duration(min(p.TimeoutMS, uint64(kinds.MaxTaskDeadline.Milliseconds())))*time.Millisecond)
		defer cancel()
	}
	if err := s.Delegations.WaitForEnd(waiting, t, p.AfterPartials, p.AfterQuestions); err != nil {
		return nil, kinds.NewErrorFromCause(err)
	}
	return s.Describe(ctx, t, true), nil
}
