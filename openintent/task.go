package openintent

import (
	"cmp"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/openintent/chain"
)

// Task is the object of RFC-0012 as it is answered and stored.
type Task struct {
	ID           string         `json:"id"`
	IntentID     string         `json:"intent_id"`
	Name         string         `json:"name"`
	Version      int64          `json:"version"`
	Status       string         `json:"status"`
	PlanID       *string        `json:"plan_id"`
	Description  *string        `json:"description"`
	Priority     string         `json:"priority"`
	Input        jsontext.Value `json:"input"`
	Output       jsontext.Value `json:"output"`
	Artifacts    []string       `json:"artifacts"`
	Assigned     *string        `json:"assigned_agent"`
	Capabilities []string       `json:"capabilities_required"`
	DependsOn    []string       `json:"depends_on"`
	Blocks       []string       `json:"blocks"`
	Parent       *string        `json:"parent_task_id"`
	Retry        jsontext.Value `json:"retry_policy"`
	Timeout      *int64         `json:"timeout_seconds"`
	Attempt      int64          `json:"attempt"`
	MaxAttempts  int64          `json:"max_attempts"`
	Permissions  jsontext.Value `json:"permissions"`
	BlockedBy    *string        `json:"blocked_reason"`
	Error        *string        `json:"error"`
	Metadata     jsontext.Value `json:"metadata"`
	CreatedAt    chain.Time     `json:"created_at"`
	StartedAt    chain.Time     `json:"started_at"`
	CompletedAt  chain.Time     `json:"completed_at"`
	Home         string         `json:"home,omitzero"`       // of its creator, if that is another daemon
	ChargedTo    string         `json:"charged_to,omitzero"` // the daemon that has made it longer last, if that is not its creator's
}

type taskRecord struct {
	in  *intentRecord
	doc *Task // another one after each change
}

func (k *taskRecord) intent() *intentRecord { return k.in }

// taskEvents has the event that is logged for each status of a task.
var taskEvents = map[string]string{
	"pending": "task.unblocked", "ready": "task.ready", "claimed": "task.claimed", "running": "task.started", "blocked": "task.blocked",
	"completed": "task.completed", "failed": "task.failed", "cancelled": "task.cancelled", "skipped": "task.skipped",
}

// isTaskOver reports whether the channels of a task in that status close. A
// failed task may be tried again.
func isTaskOver(status string) bool {
	return status == "completed" || status == "cancelled" || status == "skipped"
}

// NewTask returns a task with the default values.
func NewTask() *Task { return &Task{Status: "pending", Priority: "normal", Attempt: 1, MaxAttempts: 3} }

// CheckNew checks a new task and fills in its status.
func (d *Task) CheckNew() error {
	if d.Status == "" {
		d.Status = "pending"
	}
	return d.checkFields()
}

// checkFields refuses values that are not allowed, and fills in missing ones.
func (d *Task) checkFields() error {
	switch {
	case d.Name == "" || len(d.Name) > 1024:
		return NewFieldError("name", "1 to 1024 bytes are needed")
	case taskEvents[d.Status] == "":
		return NewFieldError("status", "one of pending, ready, claimed, running, blocked, completed, failed, cancelled, skipped")
	case max(len(d.Artifacts), len(d.Capabilities), len(d.DependsOn), len(d.Blocks)) > maxEntries:
		return NewFieldError("depends_on", "lists have at most %d entries", maxEntries)
	case d.Assigned != nil && *d.Assigned != "" && !isValidAgentName(*d.Assigned):
		return NewAgentIDError("assigned_agent")
	}
	for field, v := range map[string]*jsontext.Value{"input": &d.Input, "metadata": &d.Metadata} {
		if err := NormalizeJSONObject(field, v); err != nil {
			return err
		}
	}
	if d.Permissions == nil || d.Permissions.Kind() == 'n' {
		d.Permissions = jsontext.Value(`"inherit"`)
	}
	for _, v := range []*jsontext.Value{&d.Output, &d.Retry} {
		if *v == nil {
			*v = jsontext.Value("null")
		}
		if err := v.Compact(); err != nil {
			return err
		}
	}
	if size := len(encodeJSONText(*d)); size > maxTask {
		return NewError("too_large", "the task has %d bytes: at most %d are kept; put large data elsewhere and refer to it", size, maxTask)
	}
	for _, list := range []*[]string{&d.Artifacts, &d.Capabilities, &d.DependsOn, &d.Blocks} {
		*list = append([]string{}, *list...)
	}
	return nil
}

// size returns about how many bytes the object has.
func (d *Task) size() int {
	n := taskBytes + len(d.Name) + len(d.Input) + len(d.Output) + len(d.Retry) + len(d.Permissions) + len(d.Metadata)
	for _, s := range []*string{d.PlanID, d.Description, d.Assigned, d.Parent, d.BlockedBy, d.Error} {
		if s != nil {
			n += len(*s)
		}
	}
	for _, list := range [][]string{d.Artifacts, d.Capabilities, d.DependsOn, d.Blocks} {
		for _, s := range list {
			n += len(s) + len(`"",`)
		}
	}
	return n
}

// payingHome returns the daemon that the object is charged to, "" for this one. That is its
// creator's daemon, until an agent of another daemon makes the task longer.
func (d *Task) payingHome() string { return cmp.Or(d.ChargedTo, d.Home) }

// taskBytes are charged for a task's object without the values of its members.
const taskBytes = 1 << 10

// checkAssignedAgent refuses a task unless the agent that it is assigned to can be resolved.
func (c *Call) checkAssignedAgent(in *intentRecord, d *Task) error {
	if d.Assigned == nil || *d.Assigned == "" {
		return nil
	}
	_, err := c.resolveGrantee(in, "assigned_agent", *d.Assigned, "")
	return err
}

// CreateTask creates a task of an intent. The caller has run want.CheckNew.
func (e *Engine) CreateTask(c *Call, want *Task) (Task, error) {
	doc := *want
	err := e.writeIfAuthorized(c, doc.IntentID, levelWrite, func(t *tx, in *intentRecord) error {
		if in.isTerminal() {
			return NewError("intent_terminal", "the intent is %s: it gets no more tasks", in.status)
		}
		var all roomTally
		for _, k := range in.tasks {
			all.countForHome(k.doc.Home, c.Caller.Home)
		}
		if err := cmp.Or(all.checkRoom(c.Caller.Home, "tasks of this intent", maxEntries, "use those that there are"),
			c.checkAssignedAgent(in, &doc),
			checkRoomForLocalAgents(c.Caller.Home, e.guests[""].tasks, "tasks", maxTasks, "use those that there are")); err != nil {
			return err
		}
		if err := checkRoomForGuests(e.guestbook.tasks, c.Caller.Home, "let an agent of the intent's own daemon create them"); err != nil {
			return err
		}
		doc.ID, doc.Version, doc.CreatedAt, doc.StartedAt, doc.CompletedAt = e.newID(idTask, t.now), 1, t.now, 0, 0
		doc.Home, doc.ChargedTo = c.Caller.Home, ""
		made := doc
		k := &taskRecord{in: in, doc: &made}
		if err := t.saveTask(in, doc); err != nil {
			return err
		}
		e.withLock(func() {
			set(t, &in.tasks, append(in.tasks, k))
			put(t, e.tasks, doc.ID, k)
			t.adjustCreatedCounts(doc.Home, 0, 1, doc.size())
		})
		_, err := t.appendEventToLog(in, eventDraft{kind: "task.created", actor: c.Caller.name, payload: EncodeJSONObject("task_id", doc.ID, "name", doc.Name)})
		return err
	})
	return doc, err
}

// findAndRecordUse finds a thing of an intent that the caller can see, and records that the caller's
// agent uses the intent.
func findAndRecordUse[T interface {
	comparable
	intent() *intentRecord
}](c *Call, all map[string]T, id, what string) (found T, err error) {
	var none T
	c.e.withReadLock(func() { found = all[id] })
	if found == none {
		return none, newNotFoundError(what)
	}
	if _, err := c.e.findIntentAndRecordUse(c, found.intent().id, levelRead); err != nil {
		return none, replaceIntentNotFound(err, what)
	}
	return found, nil
}

// replaceIntentNotFound makes the error about an intent that the caller cannot see one about a thing
// of the intent. It returns other errors as they are.
func replaceIntentNotFound(err error, what string) error {
	if isNotFound(err) {
		return newNotFoundError(what)
	}
	return err
}

// isNotFound reports whether an error refuses an id of a thing that is not there.
func isNotFound(err error) bool {
	r, ok := err.(*Error)
	return ok && r.Code == codeNotFound
}

// GetTask returns a task.
func (e *Engine) GetTask(c *Call, id string) (Task, error) {
	k, err := findAndRecordUse(c, e.tasks, id, "task")
	if err != nil {
		return Task{}, err
	}
	e.mu.RLock()
	defer e.mu.RUnlock()
	return *k.doc, nil
}

// ListTasks returns a page of the intent's tasks with the status ("": any).
func (e *Engine) ListTasks(c *Call, intentID, status string, p Page) ([]Task, error) {
	return viewIntent(e, c, intentID, p.checkBounds, func(in *intentRecord) []Task {
		list := []Task{}
		for _, k := range in.tasks {
			if status != "" && k.doc.Status != status {
				continue
			}
			if p.Offset--; p.Offset >= 0 {
				continue
			}
			if len(list) == p.Limit {
				break
			}
			list = append(list, *k.doc)
		}
		return list
	})
}

// PatchTask changes a task, if the task has that version. read reads the members that change
// into a copy of the task.
func (e *Engine) PatchTask(c *Call, id string, version int64, read func(*Task) error) (doc Task, err error) {
	k, err := findAndRecordUse(c, e.tasks, id, "task")
	if err != nil {
		return doc, err
	}
	// Outside of the write, which keeps the outcome only if nothing has changed meanwhile.
	var old *Task
	e.withReadLock(func() { old = k.doc })
	if old.Version != version {
		return doc, newVersionConflict(old.Version)
	}
	doc = *old
	doc.Artifacts, doc.Capabilities = slices.Clone(old.Artifacts), slices.Clone(old.Capabilities)
	doc.DependsOn, doc.Blocks = slices.Clone(old.DependsOn), slices.Clone(old.Blocks)
	doc.Input, doc.Output, doc.Retry = old.Input.Clone(), old.Output.Clone(), old.Retry.Clone()
	doc.Permissions, doc.Metadata = old.Permissions.Clone(), old.Metadata.Clone()
	if err := read(&doc); err != nil {
		return doc, err
	}
	doc.ID, doc.IntentID, doc.Home, doc.ChargedTo, doc.Version, doc.CreatedAt, doc.StartedAt, doc.CompletedAt = old.ID, old.IntentID, old.Home, old.ChargedTo, version+1, old.CreatedAt, old.StartedAt, old.CompletedAt
	if err := doc.checkFields(); err != nil {
		return doc, err
	}
	err = e.writeIfAuthorized(c, k.in.id, levelWrite, func(t *tx, in *intentRecord) error {
		k := e.tasks[id]
		if k == nil {
			return newNotFoundError("task") // the write that had made it was lost
		}
		if k.doc != old { // it may have the same version, if the other write was lost
			return newVersionConflict(k.doc.Version)
		}
		if err := c.checkAssignedAgent(in, &doc); err != nil {
			return err
		}
		ended := doc.Status != old.Status && isTaskOver(doc.Status)
		if isTaskOver(old.Status) && doc.Status != old.Status {
			return NewError("task_over", "the task is %s, which is final: create another", old.Status)
		}
		if doc.Status == "running" && doc.StartedAt == 0 {
			doc.StartedAt = t.now
		}
		if ended {
			doc.CompletedAt = t.now
		}
		if more := doc.size() - old.size(); more > 0 && c.Caller.Home != "" {
			if c.Caller.Home != old.payingHome() {
				doc.ChargedTo, more = c.Caller.Home, doc.size()
			}
			if err := t.checkDiskShare(in, c.Caller, more); err != nil {
				return err
			}
		}
		if err := t.saveTask(in, doc); err != nil {
			return err
		}
		next := doc
		e.withLock(func() {
			set(t, &k.doc, &next)
			t.adjustCreatedCounts(old.payingHome(), 0, 0, -old.size())
			t.adjustCreatedCounts(doc.payingHome(), 0, 0, doc.size())
		})
		if doc.Status != old.Status {
			if _, err := t.appendEventToLog(in, eventDraft{kind: taskEvents[doc.Status], actor: c.Caller.name, payload: EncodeJSONObject("task_id", doc.ID, "old_status", old.Status, "new_status", doc.Status)}); err != nil {
				return err
			}
		}
		if ended {
			t.closeChannelsWhere(in, doc.CompletedAt, func(ch *channelRecord) bool { return ch.belongsToTask(doc.ID) })
		}
		return nil
	})
	return doc, err
}

// saveTask writes a task's object to the store.
func (t *tx) saveTask(in *intentRecord, doc Task) error {
	return t.execute("INSERT INTO openintent_task (id, intent, doc) VALUES (?, ?, ?) ON CONFLICT (id) DO UPDATE SET doc = excluded.doc", doc.ID, in.row, encodeJSONText(doc))
}
