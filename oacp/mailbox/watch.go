package mailbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/internal/durable"
)

// Events of a watch.
const (
	newMessage      = "new_message"
	messageArchived = "message_archived"
	WatchError      = "error"
)

// Event is a change that a watch reports. [FormatJSON] writes it as the reference does. An error
// has Error, and Path if it is about a file or folder. Other events have the other fields.
type Event struct {
	Agent    string  `json:"agent"`
	Error    string  `json:"error,omitempty"`
	Event    string  `json:"event"`
	File     string  `json:"file,omitempty"`
	From     string  `json:"from,omitempty"`
	Path     string  `json:"path,omitempty"`
	Priority string  `json:"priority,omitempty"`
	Project  *string `json:"project"` // nil if no project was found
	Subject  string  `json:"subject,omitempty"`
	Type     string  `json:"type,omitempty"`
}

// Watch reports changes of an agent's inboxes since the last scan. A cursor has what was reported:
// state/watch/AGENT[.STATE-ID].json in each project. The reference tool uses the same cursors.
type Watch struct {
	Home     Home
	Agent    string
	Projects []string // if there are none, all that have an inbox of the agent
	StateID  string   // names a cursor that other watches do not use: a [message.IsLegalFileSuffix]

	// Since is used in a project without a cursor: messages after it are new.
	Since        time.Time
	ShowArchived bool // also report messages that are gone

	memory *watchMemory // nil for a single scan
}

// cursorFile is the file that holds a cursor.
type cursorFile struct {
	Agent    string                   `json:"agent"`
	Messages map[string]cursorMessage `json:"messages"`
	Project  string                   `json:"project"`
	StateID  string                   `json:"state_id,omitempty"`
	Version  int                      `json:"version"`
}

type cursorMessage struct {
	File     string `json:"file"`
	From     string `json:"from"`
	Priority string `json:"priority"`
	Subject  string `json:"subject"`
	Type     string `json:"type"`
}

const (
	stateVersion = 1
	maxStateSize = 64 << 20
)

// Scan scans once and calls emit for each event, errors first. It returns false if there was an
// error.
func (w *Watch) Scan(emit func(Event)) bool {
	agents, ok := w.findAgents(emit)
	var events []Event
	for _, a := range agents {
		news, good := w.scanInbox(a, emit)
		events, ok = append(events, news...), ok && good
	}
	for _, e := range events {
		emit(e)
	}
	return ok
}

// Follow scans after each change until ctx ends. It reports an error once, and a file that looks
// unfinished when it has not changed for a while.
func (w *Watch) Follow(ctx context.Context, emit func(Event)) error {
	read, reported := make(map[string]scannedFile), make(map[string]string)
	return scanOnFolderChange(ctx, func() (inboxes []string, soon, done bool, err error) {
		m := watchMemory{read: read, reported: reported, errors: make(map[string]string), found: make(map[string]bool)}
		w.memory = &m
		w.Scan(m.newRepeatedErrorFilter(emit))
		maps.DeleteFunc(read, func(path string, _ scannedFile) bool { return !m.found[path] })
		reported = m.errors
		return m.inboxes, m.soon, false, nil
	})
}

// findAgents returns the agent in each project that is to be scanned. It emits errors, and
// ok is false if there was one.
func (w *Watch) findAgents(emit func(Event)) (agents []Agent, ok bool) {
	projects := w.Projects
	if len(projects) == 0 {
		projects, _ = w.Home.ListProjects()
		projects = slices.DeleteFunc(projects, func(name string) bool { return !isFolder(Agent{Project{w.Home, name}, w.Agent}.Inbox()) })
		if len(projects) == 0 {
			pattern := Agent{Project{w.Home, "*"}, w.Agent}
			emit(Event{Agent: w.Agent, Event: WatchError, Error: "no projects found with inbox path " + pattern.Inbox()})
			return nil, false
		}
	}
	ok = true
	for i, name := range projects {
		if slices.Contains(projects[:i], name) {
			continue
		}
		a, err := w.Home.findAgentWithInbox(name, w.Agent)
		if err != nil {
			e := Event{Agent: w.Agent, Event: WatchError, Project: &name, Error: err.Error()}
			if missing, ok := errors.AsType[*NotFoundError](err); ok {
				e.Path = missing.Path
			}
			emit(e)
			ok = false
			continue
		}
		agents = append(agents, a)
	}
	return agents, ok
}

// findAgentWithInbox returns an agent, or a [*NotFoundError] if it or its inbox does not exist.
func (h Home) findAgentWithInbox(project, name string) (Agent, error) {
	p, err := h.FindProject(project)
	if err != nil {
		return Agent{}, err
	}
	a, err := p.FindAgent(name)
	if err == nil && !isFolder(a.Inbox()) {
		err = &NotFoundError{"inbox directory not found: " + a.Inbox(), a.Inbox()}
	}
	return a, err
}

// scanInbox looks at one inbox and moves its cursor.
func (w *Watch) scanInbox(a Agent, emit func(Event)) (events []Event, ok bool) {
	path := w.cursorFilePath(a)
	failed := func(file, path string, err error) {
		ok = false
		emit(Event{Agent: a.Name, Event: WatchError, Project: &a.Project.Name, File: file, Path: path, Error: err.Error()})
	}
	before, err := readCursorFile(path)
	if err != nil {
		failed("", path, fmt.Errorf("invalid state file: %w", err))
		return nil, false
	}
	ok = true
	now := make(map[string]cursorMessage)
	first := before == nil
	if w.memory != nil {
		w.memory.inboxes = append(w.memory.inboxes, a.Inbox())
	}
	names, err := listMessageFiles(a.Inbox())
	if err != nil {
		failed("", a.Inbox(), err)
		return nil, false
	}
	if first {
		before = make(map[string]cursorMessage)
	}
	for _, name := range names {
		file := filepath.Join(a.Inbox(), name)
		m, changed, err := w.readCursorMessage(file, before)
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, errUnsettled):
			continue
		case err != nil:
			failed(name, file, err)
			continue
		}
		m.File = toCursorFileName(name)
		now[m.File] = m
		if first && !changed.After(w.Since) {
			before[m.File] = m
		}
	}
	events = a.diffMessages(newMessage, before, now)
	if w.ShowArchived {
		events = append(events, a.diffMessages(messageArchived, now, before)...)
	}
	if !first && maps.Equal(before, now) {
		return events, ok
	}
	state := cursorFile{Agent: a.Name, Messages: now, Project: a.Project.Name, StateID: w.StateID, Version: stateVersion}
	b, err := FormatJSON(state, true)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), folderMode)
	}
	if err == nil {
		err = writeFile(path, append(b, '\n'), os.Rename)
	}
	if err != nil {
		failed("", path, fmt.Errorf("failed to write state file: %w", err))
		return nil, false
	}
	return events, ok
}

// toCursorFileName returns a file's name as a cursor has it: JSON replaces each byte that is not
// UTF-8.
func toCursorFileName(file string) string { return string([]rune(file)) }

func (w *Watch) cursorFilePath(a Agent) string {
	name := a.Name + ".json"
	if w.StateID != "" {
		name = a.Name + "." + w.StateID + ".json"
	}
	return filepath.Join(a.Project.Dir(), "state", "watch", name)
}

// readCursorFile reads a cursor. It returns nil if there is no file.
func readCursorFile(path string) (map[string]cursorMessage, error) {
	b, err := durable.ReadRegularFile(path, maxStateSize)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var s cursorFile
	if err := json.Unmarshal(b, &s); err != nil {
		return nil, fmt.Errorf("%w: remove it to begin anew", err)
	}
	if s.Messages == nil {
		s.Messages = make(map[string]cursorMessage)
	}
	return s.Messages, nil
}

// readCursorMessage returns what the cursor has of a file, and when the file was written.
func (w *Watch) readCursorMessage(path string, before map[string]cursorMessage) (cursorMessage, time.Time, error) {
	if w.memory != nil {
		return w.memory.readSettledFile(path, before)
	}
	e := readMessageEntry(path)
	if e.Err != nil {
		return cursorMessage{}, time.Time{}, e.Err
	}
	return e.toCursorMessage(), e.Info.ModTime(), nil
}

// diffMessages returns events of kind for the messages of now that before does not have, sorted by
// file name.
func (a Agent) diffMessages(kind string, before, now map[string]cursorMessage) (events []Event) {
	for name, m := range now {
		if _, ok := before[name]; !ok {
			events = append(events, Event{
				Agent: a.Name, Event: kind, Project: &a.Project.Name,
				File: m.File, From: m.From, Priority: m.Priority, Subject: m.Subject, Type: m.Type,
			})
		}
	}
	slices.SortFunc(events, func(a, b Event) int { return strings.Compare(a.File, b.File) })
	return events
}
