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
	ChargedTo    string         `json:"charged_to,omitzero"` // who has made it longer last, where that is another daemon than its creator's
}

type task struct {
	in  *intent
	doc *Task // another one after each change
}

// taskEvents says which event tells of each status a task can have.
var taskEvents = map[string]string{
	"pending": "task.unblocked", "ready": "task.ready", "claimed": "task.claimed", "running": "task.started", "blocked": "task.blocked",
	"completed": "task.completed", "failed": "task.failed", "cancelled": "task.cancelled", "skipped": "task.skipped",
}

// taskOver reports whether the channels of a task in that status close. A
// failed task may be tried again.
func taskOver(status string) bool {
	return status == "completed" || status == "cancelled" || status == "skipped"
}

// NewTask returns what a new task says unless its creator says something else.
func NewTask() *Task { return &Task{Status: "pending", Priority: "normal", Attempt: 1, MaxAttempts: 3} }

// Check fills in what is not said, and bounds a task that a body was read into.
func (d *Task) Check() error {
	if d.Status == "" {
		d.Status = "pending"
	}
	return d.check()
}

func (d *Task) check() error {
	switch {
	case d.Name == "" || len(d.Name) > 1024:
		return Invalid("name", "1 to 1024 bytes are needed")
	case taskEvents[d.Status] == "":
		return Invalid("status", "one of pending, ready, claimed, running, blocked, completed, failed, cancelled, skipped")
	case max(len(d.Artifacts), len(d.Capabilities), len(d.DependsOn), len(d.Blocks)) > maxEntries:
		return Invalid("depends_on", "lists have at most %d entries", maxEntries)
	case d.Assigned != nil && *d.Assigned != "" && !validName(*d.Assigned):
		return BadAgentID("assigned_agent")
	}
	for field, v := range map[string]*jsontext.Value{"input": &d.Input, "metadata": &d.Metadata} {
		if err := CheckObject(field, v); err != nil {
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
	if size := len(text(*d)); size > maxTask {
		return Refuse("too_large", "the task has %d bytes: at most %d are kept; put large data elsewhere and refer to it", size, maxTask)
	}
	for _, list := range []*[]string{&d.Artifacts, &d.Capabilities, &d.DependsOn, &d.Blocks} {
		*list = append([]string{}, *list...)
	}
	return nil
}

// size is how many bytes the object has, about.
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

// payer is the daemon of whose share the object is, "" for this one: its creator's, until
// an agent of another daemon makes it longer.
func (d *Task) payer() string { return cmp.Or(d.ChargedTo, d.Home) }

// taskBytes is what a task's object has beyond what is said of it.
const taskBytes = 1 << 10

// assigns refuses a task whose agent the caller names as nobody else could.
func (c *Call) assigns(in *intent, d *Task) error {
	if d.Assigned == nil || *d.Assigned == "" {
		return nil
	}
	_, err := c.grantee(in, "assigned_agent", *d.Assigned, "")
	return err
}

// CreateTask creates a task of an intent. doc was checked.
func (e *Engine) CreateTask(c *Call, doc Task) (Task, error) {
	err := e.writeIntent(c, doc.IntentID, levelWrite, func(t *tx, in *intent) error {
		if in.terminal() {
			return Refuse("intent_terminal", "the intent is %s: it gets no more tasks", in.status)
		}
		var all part
		for _, k := range in.tasks {
			all.add(k.doc.Home, c.Caller.Home)
		}
		if err := all.room(c.Caller.Home, "tasks of this intent", maxEntries, "use those that there are"); err != nil {
			return err
		}
		if err := c.assigns(in, &doc); err != nil {
			return err
		}
		if c.Caller.Home != "" {
			if err := mayMake(e.guestbook.tasks, c.Caller.Home, "let an agent of the intent's own daemon create them"); err != nil {
				return err
			}
		} else if e.guests[""].tasks >= maxTasks {
			return tooMany("tasks", maxTasks, "use those that there are")
		}
		doc.ID, doc.Version, doc.CreatedAt, doc.StartedAt, doc.CompletedAt = e.newID(idTask, t.now), 1, t.now, 0, 0
		doc.Home, doc.ChargedTo = c.Caller.Home, ""
		made := doc
		k := &task{in: in, doc: &made}
		if err := t.saveTask(in, doc); err != nil {
			return err
		}
		t.apply(
			step{func() { in.tasks = append(in.tasks, k) }, func() { in.tasks = in.tasks[:len(in.tasks)-1] }},
			step{func() { e.tasks[doc.ID] = k }, func() { delete(e.tasks, doc.ID) }},
			step{func() { e.count(doc.Home, 0, 1, doc.size()) }, func() { e.count(doc.Home, 0, -1, -doc.size()) }},
		)
		_, err := t.log(in, event{kind: "task.created", actor: c.Caller.name, payload: Members("task_id", doc.ID, "name", doc.Name)})
		return err
	})
	return doc, err
}

// task finds a task whose intent the caller can see.
func (e *Engine) task(c *Call, id string) (*task, error) {
	var k *task
	e.rlocked(func() { k = e.tasks[id] })
	if k == nil {
		return nil, notFound("task")
	}
	if _, err := e.intent(c, k.in.id, levelRead); err != nil {
		return nil, hidden(err, "task")
	}
	return k, nil
}

// hidden makes an intent that cannot be seen a thing of it that is not there.
func hidden(err error, what string) error {
	if isNotFound(err) {
		return notFound(what)
	}
	return err
}

func isNotFound(err error) bool {
	r, ok := err.(*Error)
	return ok && r.Code == codeNotFound
}

// GetTask returns a task.
func (e *Engine) GetTask(c *Call, id string) (Task, error) {
	k, err := e.task(c, id)
	if err != nil {
		return Task{}, err
	}
	e.mu.RLock()
	defer e.mu.RUnlock()
	return *k.doc, nil
}

// ListTasks returns a page of the intent's tasks with the status ("": any).
func (e *Engine) ListTasks(c *Call, intentID, status string, p Page) ([]Task, error) {
	in, err := e.intent(c, intentID, levelRead)
	if err != nil {
		return nil, err
	}
	if err := p.Check(); err != nil {
		return nil, err
	}
	list := []Task{}
	e.rlocked(func() {
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
	})
	return list, nil
}

// PatchTask changes a task, if it has that version: read reads the members that change into
// a copy of it.
func (e *Engine) PatchTask(c *Call, id string, version int64, read func(*Task) error) (doc Task, err error) {
	k, err := e.task(c, id)
	if err != nil {
		return doc, err
	}
	// Outside of the write, which keeps the outcome only if nothing has changed meanwhile.
	var old *Task
	e.rlocked(func() { old = k.doc })
	if old.Version != version {
		return doc, versionConflict(old.Version)
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
	if err := doc.check(); err != nil {
		return doc, err
	}
	err = e.writeIntent(c, k.in.id, levelWrite, func(t *tx, in *intent) error {
		k := e.tasks[id]
		if k == nil {
			return notFound("task") // the write that had made it was lost
		}
		if k.doc != old { // also one of the same version, where the write of the other was lost
			return versionConflict(k.doc.Version)
		}
		if err := c.assigns(in, &doc); err != nil {
			return err
		}
		ended := doc.Status != old.Status && taskOver(doc.Status)
		if taskOver(old.Status) && doc.Status != old.Status {
			return Refuse("task_over", "the task is %s, which is final: create another", old.Status)
		}
		if doc.Status == "running" && doc.StartedAt == 0 {
			doc.StartedAt = t.now
		}
		if ended {
			doc.CompletedAt = t.now
		}
		if more := doc.size() - old.size(); more > 0 && c.Caller.Home != "" {
			if c.Caller.Home != old.payer() {
				doc.ChargedTo, more = c.Caller.Home, doc.size()
			}
			if err := t.roomOnDisk(in, c.Caller, more); err != nil {
				return err
			}
		}
		if err := t.saveTask(in, doc); err != nil {
			return err
		}
		next := doc
		t.apply(
			step{func() { k.doc = &next }, func() { k.doc = old }},
			step{func() { e.count(old.payer(), 0, 0, -old.size()) }, func() { e.count(old.payer(), 0, 0, old.size()) }},
			step{func() { e.count(doc.payer(), 0, 0, doc.size()) }, func() { e.count(doc.payer(), 0, 0, -doc.size()) }},
		)
		if doc.Status != old.Status {
			if _, err := t.log(in, event{kind: taskEvents[doc.Status], actor: c.Caller.name, payload: Members("task_id", doc.ID, "old_status", old.Status, "new_status", doc.Status)}); err != nil {
				return err
			}
		}
		if ended {
			t.end(in, doc.CompletedAt, func(ch *channel) bool { return ch.ofTask(doc.ID) })
		}
		return nil
	})
	return doc, err
}
