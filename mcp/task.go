package mcp

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

type taskArguments struct {
	ID     string `json:"id"`
	Do     string `json:"do"`
	Reason string `json:"reason"`
	Page   int    `json:"page"`
}

// callTask shows a query or delegation of the session, waits for it, or cancels it.
func (s *Server) callTask(ctx context.Context, call *toolCall) (*result, error) {
	var a taskArguments
	if err := call.readArguments(&a); err != nil {
		return nil, err
	}
	if !slices.Contains([]string{"", "status", "wait", "result", "cancel"}, a.Do) {
		return nil, kinds.Errorf(kinds.Invalid, "do: expected status, wait, result or cancel")
	}
	if a.ID == "" {
		if a.Do != "" && a.Do != "status" {
			return nil, kinds.Errorf(kinds.Invalid, "id: missing: name the query or delegation")
		}
		return s.listTasks(ctx, a.Page)
	}
	id, err := readID("id", a.ID)
	if err != nil {
		return nil, err
	}
	if c := s.findCall(id); c != nil && !c.isKept() {
		return s.workOnCall(ctx, call, c, &a)
	}
	switch a.Do {
	case "wait":
		task, err := s.awaitTask(ctx, call, id, s.timing.wait)
		if err != nil {
			return nil, explainUnknownTask(err)
		}
		return s.describeTask(ctx, task, a.Page, true)
	case "cancel":
		h := head{Head: client.Head{ID: wire.NewMessageID(), Parent: s.Parent}}
		answer, err := sendWith(ctx, s, h, func(h client.Head) (*client.CancelAnswer, error) {
			return s.Daemon.Cancel(ctx, client.CancelParams{Head: h, Ref: id, Payload: kinds.EncodePayload(&kinds.Cancel{Reason: a.Reason})})
		})
		if err != nil {
			return nil, explainUnknownTask(err)
		}
		return s.describeCancel(ctx, id, answer)
	}
	task, err := twice(ctx, func(ctx context.Context) (*client.Task, error) { return s.Daemon.Task(ctx, id) })
	if err != nil {
		return nil, explainUnknownTask(err)
	}
	return s.describeTask(ctx, task, a.Page, a.Do == "result")
}

// explainUnknownTask says why a task may not be known.
func explainUnknownTask(err error) error {
	if e := kinds.AsError(err); e.Code == kinds.NotFound && e.From == "" {
		return kinds.Errorf(kinds.NotFound, "the id names no query or file that is kept in this session, and no delegation of yours")
	}
	return err
}

// workOnCall does what the model wants of a query, or of a file that is being sent.
func (s *Server) workOnCall(ctx context.Context, call *toolCall, c *keptCall, a *taskArguments) (*result, error) {
	call.sent, call.again = c.id, describeRepeat("acp_"+c.kind(), c.id)
	switch a.Do {
	case "cancel":
		if c.isOver() {
			return &result{State: "ended", ID: c.id, Text: "It has ended already. acp_task with do result shows how."}, nil
		}
		c.cancel()
		<-c.done
		if c.err == nil {
			return s.describeCall(ctx, c, 1) // the answer was faster
		}
		return &result{State: "cancelled", ID: c.id, Text: "It was withdrawn."}, nil
	case "wait":
		return s.awaitCall(ctx, call, c)
	}
	if c.isOver() || c.all != nil && a.Do == "result" {
		return s.describeCall(ctx, c, a.Page)
	}
	return s.newPendingResult(c), nil
}

func (s *Server) describeCancel(ctx context.Context, id wire.MessageID, answer *client.CancelAnswer) (*result, error) {
	ack, err := kinds.ParsePayload[kinds.Ack](answer.Payload)
	if err != nil {
		return nil, err
	}
	task, err := twice(ctx, func(ctx context.Context) (*client.Task, error) { return s.Daemon.Task(ctx, id) })
	switch {
	case ack.Accepted && err == nil && task.State == client.TaskWithdrawn:
		return &result{State: string(task.State), ID: id, Text: "It was withdrawn, and is not sent any more."}, nil
	case ack.Accepted:
		return &result{State: "cancelled", ID: id, Text: "The delegation was cancelled."}, nil
	case err == nil && (task.State.IsFinal() || task.Over && task.Kind != ""):
		return &result{State: string(task.State), ID: id, Text: describeEnd(task, task.State) + " There is nothing to cancel: acp_task with do result shows how it ended."}, nil
	}
	return &result{State: "not cancelled", ID: id, Text: "The agent there did not give it up: " + string(nameCode(ack.Code)) + ". acp_task tells how it stands."}, nil
}

// describeEnd says how a delegation, or a message that was kept, has ended.
func describeEnd(t *client.Task, state client.TaskState) string {
	verb := "was"
	switch state {
	case client.TaskFailed, client.TaskExpired:
		verb = "has"
	case client.TaskUnknown:
		verb = "is"
	}
	return fmt.Sprintf("The %s %s %s.", describeKind(t), verb, state)
}

// taskDetail is what programs get of a delegation.
type taskDetail struct {
	Peer      string               `json:"peer"`
	Direction client.TaskDirection `json:"direction"`
	Deadline  client.Time          `json:"deadline"`
	Partials  uint64               `json:"partials,omitzero"`
	taskParties
	AgentAwaitedUntil client.Time `json:"agent_awaited_until,omitzero"`
}

// describeTask makes the result that describes a delegation, with its outcome if it has ended.
func (s *Server) describeTask(ctx context.Context, t *client.Task, page int, waited bool) (*result, error) {
	parties := findParties(t)
	there := parties.nameThere(t.Peer)
	r := &result{State: string(t.State), ID: t.ID, From: t.Peer, Detail: taskDetail{t.Peer, t.Direction, t.Deadline, t.Partials, parties, t.AgentAwaitedUntil}}
	payload := t.Result
	if q := t.Question; q != nil {
		r.State, r.Text = "question", t.Peer+" asks back, and waits for the answer."
		id, name := s.names.find(ctx, s, t.Peer)
		err := r.addPeerText(client.PeerMessage{
			Peer: name, ID: id, Kind: kinds.KindQuery, Message: q.ID, Ref: t.ID, Payload: kinds.EncodePayload(&kinds.Query{Question: q.Text}),
			Answer: "Answer it with acp_reply, id " + q.ID.String() + ".",
		}, page, "acp_task with id "+t.ID.String())
		if err != nil {
			return nil, err
		}
		key := messageKey{id, q.ID}
		s.seen.show(key)
		s.seen.keepReply(key, replyWay{question: true})
		return r, nil
	}
	switch {
	case t.Kept != nil:
		return s.newKeptResult(t.Kept, t.State), nil
	case t.Kind != "" && t.State != client.TaskCompleted: // it has ended, and the words are the daemon's
		payload, r.Text = nil, describeEnd(t, t.State)
		if said := strings.TrimPrefix(strings.TrimPrefix(t.Outcome, "withdrawn"), ": "); said != "" {
			r.Text += " " + client.Line(said)
		}
	case parties.Abandoned:
		r.Text = describeEnd(t, t.State) + abandonedText
	case t.State.IsFinal():
		r.Text = describeEnd(t, t.State)
	case t.Over:
		r.Text = fmt.Sprintf("%s: no report is wanted, so nothing more comes.", t.State)
	case !t.AgentAwaySince.IsZero():
		r.Text = fmt.Sprintf("%s: nobody works on it: %s.", t.State, parties.describeAway(t.AgentAwaitedUntil))
	case t.Direction == client.Taken:
		r.Text = fmt.Sprintf("%s: it waits for your acp_reply.", t.State)
	case waited:
		payload, r.State = t.Partial, "pending"
		r.Text = fmt.Sprintf("pending: %s has not finished. The daemon keeps the delegation: go on with acp_task, id %s, do wait, whenever you like.", there, t.ID)
	default:
		payload = t.Partial
		r.Text = fmt.Sprintf("%s: %s works on it.", t.State, there)
	}
	if len(payload) == 0 || t.Direction == client.Taken {
		return r, nil
	}
	if e, err := kinds.ParsePayload[kinds.Error](payload); t.State == client.TaskFailed && err == nil && e.IsDeclined() {
		r.State, r.Text = string(client.TaskRefused), describeEnd(t, client.TaskRefused)+" The agent there declined it."
	}
	id, name := s.names.find(ctx, s, t.Peer)
	err := r.addPeerText(client.PeerMessage{
		Peer: name, ID: id, Kind: kinds.FindReportKind(payload), Ref: t.ID, Payload: payload, Answer: "It belongs to your " + describeKind(t) + ", and needs no answer.",
	}, page, "acp_task with id "+t.ID.String()+", do result")
	return r, err
}

// taskRow is a row of the list of tasks.
type taskRow struct {
	ID    wire.MessageID `json:"id"`
	Kind  string         `json:"kind"`
	Peer  string         `json:"peer"`
	State string         `json:"state"`
	Begun client.Time    `json:"begun,omitzero"`
	taskParties
}

// String returns the row as a line for the model.
func (r *taskRow) String() string {
	s := fmt.Sprintf("%s  %s  %s  %s", r.ID, r.Kind, client.Line(cutText(r.nameThere(r.Peer), 100)), r.State)
	if away := r.describeAway(client.Time{}); away != "" {
		s += " (" + away + ")"
	}
	if r.Abandoned {
		s += " (abandoned)"
	}
	return s
}

// listTasks lists the queries that are kept, and the delegations of the session.
func (s *Server) listTasks(ctx context.Context, page int) (*result, error) {
	tasks, err := twice(ctx, s.Daemon.Tasks)
	if err != nil {
		return nil, err
	}
	var rows []taskRow
	for _, c := range s.listCalls() {
		if c.isKept() {
			continue // the daemon lists it
		}
		state := "pending"
		switch {
		case c.isOver() && c.err != nil:
			state = string(nameCode(kinds.AsError(c.err).Code))
		case c.isOver() && c.file != nil:
			state = string(c.file.sent.State)
		case c.isOver():
			state = "answered"
		}
		rows = append(rows, taskRow{ID: c.id, Kind: c.kind(), Peer: c.to, State: state, Begun: client.Time{Time: c.begun.Truncate(time.Second)}})
	}
	for i := range tasks {
		t, kind := &tasks[i], kinds.KindDelegate
		if t.Direction == client.Taken {
			kind = "delegate to you"
		}
		kind = cmp.Or(t.Kind, kind)
		rows = append(rows, taskRow{ID: t.ID, Kind: kind, Peer: t.Peer, State: string(t.State), taskParties: findParties(t)})
	}
	first, end, err := cutRows(len(rows), tasksOfPage, page)
	if err != nil {
		return nil, err
	}
	r := &result{State: "listed", isList: true}
	var text strings.Builder
	for i := range rows[first:end] {
		fmt.Fprintln(&text, &rows[first+i])
	}
	if len(rows) == 0 {
		text.WriteString("No queries or delegations.")
	}
	r.Text, r.Detail = text.String(), map[string]any{"tasks": rows[first:end]}
	if end < len(rows) {
		r.Next = max(page, 1) + 1
		r.addNextPage("acp_task")
	}
	return r, nil
}

// tasksOfPage is how many rows are on a page of the list of tasks, or of files.
const tasksOfPage = 30

// cutRows returns which of n rows are on a page of so many.
func cutRows(n, rows, page int) (first, end int, err error) {
	pages := max(1, (n+rows-1)/rows)
	if page > pages {
		return 0, 0, kinds.Errorf(kinds.Invalid, "page: expected at most %d", pages)
	}
	first = (max(page, 1) - 1) * rows
	return first, min(n, first+rows), nil
}
