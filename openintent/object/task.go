package object

import (
	"cmp"

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

// TaskEvents has the event that is logged for each status of a task.
var TaskEvents = map[string]string{
	"pending": "task.unblocked", "ready": "task.ready", "claimed": "task.claimed", "running": "task.started", "blocked": "task.blocked",
	"completed": "task.completed", "failed": "task.failed", "cancelled": "task.cancelled", "skipped": "task.skipped",
}

// IsTaskOver reports whether the channels of a task in that status close. A
// failed task may be tried again.
func IsTaskOver(status string) bool {
	return status == "completed" || status == "cancelled" || status == "skipped"
}

// NewTask returns a task with the default values.
func NewTask() *Task { return &Task{Status: "pending", Priority: "normal", Attempt: 1, MaxAttempts: 3} }

// CheckNew checks a new task and fills in its status.
func (d *Task) CheckNew() error {
	if d.Status == "" {
		d.Status = "pending"
	}
	return d.CheckFields()
}

// CheckFields refuses values that are not allowed, and fills in missing ones.
func (d *Task) CheckFields() error {
	switch {
	case d.Name == "" || len(d.Name) > maxTitle:
		return NewFieldError("name", "1 to %d bytes are needed", maxTitle)
	case TaskEvents[d.Status] == "":
		return NewFieldError("status", "one of pending, ready, claimed, running, blocked, completed, failed, cancelled, skipped")
	case max(len(d.Artifacts), len(d.Capabilities), len(d.DependsOn), len(d.Blocks)) > MaxEntries:
		return NewFieldError("depends_on", "lists have at most %d entries", MaxEntries)
	case d.Assigned != nil && *d.Assigned != "" && !IsValidAgentName(*d.Assigned):
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
	if size := len(EncodeJSONText(*d)); size > MaxTask {
		return NewError("too_large", "the task has %d bytes: at most %d are kept; put large data elsewhere and refer to it", size, MaxTask)
	}
	for _, list := range []*[]string{&d.Artifacts, &d.Capabilities, &d.DependsOn, &d.Blocks} {
		*list = append([]string{}, *list...)
	}
	return nil
}

// Size returns about how many bytes the object has.
func (d *Task) Size() int {
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

// PayingHome returns the daemon that the object is charged to, "" for this one. That is its
// creator's daemon, until an agent of another daemon makes the task longer.
func (d *Task) PayingHome() string { return cmp.Or(d.ChargedTo, d.Home) }

// taskBytes are charged for a task's object without the values of its members.
const taskBytes = 1 << 10

// MaxTask bounds the bytes of a task's object.
const MaxTask = 64 << 10
