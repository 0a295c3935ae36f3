package openintent

import (
	"cmp"
	"slices"

	"github.com/acpd/acpd/openintent/object"
)

type taskRecord struct {
	in  *intentRecord
	doc *object.Task // another one after each change
}

func (k *taskRecord) intent() *intentRecord { return k.in }

// checkAssignedAgent refuses a task unless the agent that it is assigned to can be resolved.
func (c *Call) checkAssignedAgent(in *intentRecord, d *object.Task) error {
	if d.Assigned == nil || *d.Assigned == "" {
		return nil
	}
	_, err := c.resolveGrantee(in, "assigned_agent", *d.Assigned, "")
	return err
}

// CreateTask creates a task of an intent. The caller has run want.CheckNew.
func (e *Engine) CreateTask(c *Call, want *object.Task) (object.Task, error) {
	doc := *want
	err := e.writeIfAuthorized(c, doc.IntentID, levelWrite, func(t *tx, in *intentRecord) error {
		if in.isTerminal() {
			return object.NewError("intent_terminal", "the intent is %s: it gets no more tasks", in.status)
		}
		var all roomTally
		for _, k := range in.tasks {
			all.countForHome(k.doc.Home, c.Caller.Home)
		}
		if err := cmp.Or(all.checkRoom(c.Caller.Home, "tasks of this intent", object.MaxEntries, "use those that there are"),
			c.checkAssignedAgent(in, &doc),
			checkRoomForLocalAgents(c.Caller.Home, e.guests[""].tasks, "tasks", maxWork, "use those that there are")); err != nil {
			return err
		}
		if err := checkRoomForGuests(e.guestbook.tasks, c.Caller.Home, "let an agent of the intent's own daemon create them"); err != nil {
			return err
		}
		doc.ID, doc.Version, doc.CreatedAt, doc.StartedAt, doc.CompletedAt = e.newID(object.IDTask, t.now), 1, t.now, 0, 0
		doc.Home, doc.ChargedTo = c.Caller.Home, ""
		made := doc
		k := &taskRecord{in: in, doc: &made}
		if err := t.saveTask(in, doc); err != nil {
			return err
		}
		e.withLock(func() {
			set(t, &in.tasks, append(in.tasks, k))
			put(t, e.tasks, doc.ID, k)
			t.adjustCreatedCounts(doc.Home, 0, 1, doc.Size())
		})
		_, err := t.appendEventToLog(in, eventDraft{kind: "task.created", actor: c.Caller.name, payload: object.EncodeJSONObject("task_id", doc.ID, "name", doc.Name)})
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
		return none, object.NewNotFoundError(what)
	}
	if _, err := c.e.findIntentAndRecordUse(c, found.intent().id, levelRead); err != nil {
		return none, object.ReplaceIntentNotFound(err, what)
	}
	return found, nil
}

// GetTask returns a task.
func (e *Engine) GetTask(c *Call, id string) (object.Task, error) {
	k, err := findAndRecordUse(c, e.tasks, id, "task")
	if err != nil {
		return object.Task{}, err
	}
	e.mu.RLock()
	defer e.mu.RUnlock()
	return *k.doc, nil
}

// ListTasks returns a page of the intent's tasks with the status ("": any).
func (e *Engine) ListTasks(c *Call, intentID, status string, p object.Page) ([]object.Task, error) {
	return viewIntent(e, c, intentID, p.CheckBounds, func(in *intentRecord) []object.Task {
		list := []object.Task{}
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
func (e *Engine) PatchTask(c *Call, id string, version int64, read func(*object.Task) error) (doc object.Task, err error) {
	k, err := findAndRecordUse(c, e.tasks, id, "task")
	if err != nil {
		return doc, err
	}
	// Outside of the write, which keeps the outcome only if nothing has changed meanwhile.
	var old *object.Task
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
	if err := doc.CheckFields(); err != nil {
		return doc, err
	}
	err = e.writeIfAuthorized(c, k.in.id, levelWrite, func(t *tx, in *intentRecord) error {
		k := e.tasks[id]
		if k == nil {
			return object.NewNotFoundError("task") // the write that had made it was lost
		}
		if k.doc != old { // it may have the same version, if the other write was lost
			return newVersionConflict(k.doc.Version)
		}
		if err := c.checkAssignedAgent(in, &doc); err != nil {
			return err
		}
		ended := doc.Status != old.Status && object.IsTaskOver(doc.Status)
		if object.IsTaskOver(old.Status) && doc.Status != old.Status {
			return object.NewError("task_over", "the task is %s, which is final: create another", old.Status)
		}
		if doc.Status == "running" && doc.StartedAt == 0 {
			doc.StartedAt = t.now
		}
		if ended {
			doc.CompletedAt = t.now
		}
		if more := doc.Size() - old.Size(); more > 0 && c.Caller.Home != "" {
			if c.Caller.Home != old.PayingHome() {
				doc.ChargedTo, more = c.Caller.Home, doc.Size()
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
			t.adjustCreatedCounts(old.PayingHome(), 0, 0, -old.Size())
			t.adjustCreatedCounts(doc.PayingHome(), 0, 0, doc.Size())
		})
		if doc.Status != old.Status {
			if _, err := t.appendEventToLog(in, eventDraft{kind: object.TaskEvents[doc.Status], actor: c.Caller.name, payload: object.EncodeJSONObject("task_id", doc.ID, "old_status", old.Status, "new_status", doc.Status)}); err != nil {
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
func (t *tx) saveTask(in *intentRecord, doc object.Task) error {
	return t.execute("INSERT INTO openintent_task (id, intent, doc) VALUES (?, ?, ?) ON CONFLICT (id) DO UPDATE SET doc = excluded.doc", doc.ID, in.row, object.EncodeJSONText(doc))
}
