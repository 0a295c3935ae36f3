package tasks

import (
	"cmp"
	"context"
	"slices"
	"sort"
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
	const firstKept = 1 << 52 // where the numbers of rows of what is kept begin: they come first
	var rows []taskRow
	given := make(map[wire.MessageID]bool)
	for _, t := range s.Delegations.List(c.GuestCredential(), func(t *delegation.Delegation, _ client.TaskState) bool { return true }) {
		given[t.ID] = true
		rows = append(rows, taskRow{uint64(t.Row), func() *client.Task { return s.Describe(ctx, t, false) }})
	}
	for i, t := range s.Kept.List(c.GuestCredential()) { // read last: a delegation that is kept again is in one of both
		if !given[t.ID] {
			rows = append(rows, taskRow{firstKept + uint64(i), func() *client.Task { return &t }})
		}
	}
	rows = slices.DeleteFunc(rows, func(r taskRow) bool { return p.After != 0 && r.number >= p.After })
	sort.Slice(rows, func(i, j int) bool { return rows[i].number > rows[j].number })
	out := &client.Tasks{Tasks: []client.Task{}}
	room := s.MaxListBytes()
	for i, r := range rows {
		row := r.describe()
		room -= 640 + wire.MaxJSONLength(row.Task+row.Outcome+row.Message+row.FromAgent+row.ToAgent)
		if row.Kept != nil {
			room -= 128 + wire.MaxJSONLength(row.Kept.LastError)
		}
		if row.Question != nil {
			room -= 256 + wire.MaxJSONLength(row.Question.Text)
		}
		if i == limit || i > 0 && room < 0 {
			out.Next = rows[i-1].number
			break
		}
		out.Tasks = append(out.Tasks, *row)
	}
	return out, nil
}

// taskRow is a row of tasks.
type taskRow struct {
	number   uint64 // the next page has lower ones
	describe func() *client.Task
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
	if kept, err := s.Kept.Describe(ctx, c.GuestCredential(), p.ID); kept != nil || err != nil {
		return kept, err
	}
	t, err := s.findTask(c, p.ID)
	if err == nil {
		return s.Describe(ctx, t, true), nil
	}
	if kept, _ := s.Kept.Describe(ctx, c.GuestCredential(), p.ID); kept != nil {
		return kept, nil // it was being sent, and is kept again
	}
	return nil, err
}

func (s *Service) serveWait(ctx context.Context, c *local.Conn, p *client.WaitParams) (any, error) {
	waiting := ctx
	if p.TimeoutMS > 0 {
		var cancel context.CancelFunc
		waiting, cancel = context.WithTimeout(ctx, time.Duration(min(p.TimeoutMS, uint64(kinds.MaxTaskDeadline.Milliseconds())))*time.Millisecond)
		defer cancel()
	}
	for {
		if kept, err := s.Kept.Wait(waiting, c.GuestCredential(), p.ID); kept != nil || err != nil {
			return kept, err
		}
		t, err := s.findTask(c, p.ID)
		if err == nil {
			err = s.Delegations.WaitForEnd(waiting, t, p.AfterPartials, p.AfterQuestions)
		}
		if kept, _ := s.Kept.Describe(ctx, c.GuestCredential(), p.ID); err != nil && kept != nil {
			continue // it was being sent, and is kept again
		}
		if t == nil {
			return nil, err
		}
		if err != nil {
			return nil, kinds.NewErrorFromCause(err)
		}
		return s.Describe(ctx, t, true), nil
	}
}
