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
)

// Events of a watch.
const (
	NewMessage      = "new_message"
	MessageArchived = "message_archived"
	WatchError      = "error"
)

// Event is what a watch tells; [JSON] writes it as the reference does. An error has
// Error and, if it is about a file or a folder, Path; the others have the rest.
type Event struct {
	Agent    string  `json:"agent"`
	Error    string  `json:"error,omitempty"`
	Event    string  `json:"event"`
	File     string  `json:"file,omitempty"`
	From     string  `json:"from,omitempty"`
	Path     string  `json:"path,omitempty"`
	Priority string  `json:"priority,omitempty"`
	Project  *string `json:"project"` // nil if none was found
	Subject  string  `json:"subject,omitempty"`
	Type     string  `json:"type,omitempty"`
}

// Watch tells what changed in an agent's inboxes since it was last asked. What was
// told is kept in state/watch/AGENT[.STATE-ID].json of each project, in the
// reference's form, and so shared with it.
type Watch struct {
	Home     Home
	Agent    string
	Projects []string // those to look at; none: all that have an inbox of the agent
	StateID  string   // a cursor of its own, beside the one that all share: a [message.LegalSuffix]

	// Since is for a project without a cursor: what lay there then is old.
	Since        time.Time
	ShowArchived bool // tell also what is gone

	follow *follower // nil: one look
}

// stateFile is the cursor of a watch.
type stateFile struct {
	Agent    string                  `json:"agent"`
	Messages map[string]stateMessage `json:"messages"`
	Project  string                  `json:"project"`
	StateID  string                  `json:"state_id,omitempty"`
	Version  int                     `json:"version"`
}

type stateMessage struct {
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

// Scan looks once and calls emit for each event, errors first. It reports whether
// there were none.
func (w *Watch) Scan(emit func(Event)) bool {
	agents, ok := w.targets(emit)
	var events []Event
	for _, a := range agents {
		news, good := w.scan(a, emit)
		events, ok = append(events, news...), ok && good
	}
	for _, e := range events {
		emit(e)
	}
	return ok
}

// Follow scans again and again, as things happen, until ctx ends. An error is told
// once, a file that looks unfinished when it has not changed for a while.
func (w *Watch) Follow(ctx context.Context, emit func(Event)) error {
	f := follower{read: make(map[string]seen), told: make(map[string]string)}
	w.follow = &f
	return pulse(ctx, func() (inboxes []string, soon, done bool, err error) {
		f.begin()
		w.Scan(f.once(emit))
		inboxes, soon = f.end()
		return inboxes, soon, false, nil
	})
}

// targets returns the agent in each project that is to be looked at.
func (w *Watch) targets(emit func(Event)) (agents []Agent, ok bool) {
	projects := w.Projects
	if len(projects) == 0 {
		all, _ := w.Home.Projects()
		for _, name := range all {
			if a := (Agent{Project{w.Home, name}, w.Agent}); isFolder(a.Inbox()) {
				projects = append(projects, name)
			}
		}
		if len(projects) == 0 {
			pattern := Agent{Project{w.Home, "*"}, w.Agent}
			emit(Event{Agent: w.Agent, Event: WatchError, Error: "no projects found with inbox path " + pattern.Inbox()})
			return nil, false
		}
	}
	ok = true
	var before []string
	for _, name := range projects {
		if slices.Contains(before, name) {
			continue
		}
		before = append(before, name)
		a, err := w.Home.agent(name, w.Agent)
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

// agent returns an agent that is there and has an inbox, else a [*NotFoundError].
func (h Home) agent(project, name string) (Agent, error) {
	p, err := h.Project(project)
	if err != nil {
		return Agent{}, err
	}
	a, err := p.Agent(name)
	if err == nil && !isFolder(a.Inbox()) {
		err = &NotFoundError{"inbox directory not found: " + a.Inbox(), a.Inbox()}
	}
	return a, err
}

// scan looks at one inbox and moves its cursor.
func (w *Watch) scan(a Agent, emit func(Event)) (events []Event, ok bool) {
	path := w.state(a)
	failed := func(file, path string, err error) {
		ok = false
		emit(Event{Agent: a.Name, Event: WatchError, Project: &a.Project.Name, File: file, Path: path, Error: err.Error()})
	}
	before, err := loadState(path)
	if err != nil {
		failed("", path, fmt.Errorf("invalid state file: %w", err))
		return nil, false
	}
	ok = true
	now := make(map[string]stateMessage)
	first := before == nil
	if w.follow != nil {
		w.follow.inboxes = append(w.follow.inboxes, a.Inbox())
	}
	names, err := list(a.Inbox())
	if err != nil {
		failed("", a.Inbox(), err)
		return nil, false
	}
	if first {
		before = make(map[string]stateMessage)
	}
	for _, name := range names {
		file := filepath.Join(a.Inbox(), name)
		m, changed, err := w.message(file, before)
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, errUnsettled):
			continue
		case err != nil:
			failed(name, file, err)
			continue
		}
		m.File = cursorName(name)
		now[m.File] = m
		if first && !changed.After(w.Since) {
			before[m.File] = m
		}
	}
	events = w.delta(a, before, now)
	if !first && maps.Equal(before, now) {
		return events, ok
	}
	state := stateFile{Agent: a.Name, Messages: now, Project: a.Project.Name, StateID: w.StateID, Version: stateVersion}
	b, err := JSON(state, true)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), folderMode)
	}
	if err == nil {
		err = replace(path, append(b, '\n'))
	}
	if err != nil {
		failed("", path, fmt.Errorf("failed to write state file: %w", err))
		return nil, false
	}
	return events, ok
}

// cursorName is a file's name as a cursor has it once it was written and read: JSON has a
// replacement character for each byte that is not UTF-8.
func cursorName(file string) string { return string([]rune(file)) }

func (w *Watch) state(a Agent) string {
	name := a.Name + ".json"
	if w.StateID != "" {
		name = a.Name + "." + w.StateID + ".json"
	}
	return filepath.Join(a.Project.Dir(), "state", "watch", name)
}

// loadState reads a cursor; that of no file is nil.
func loadState(path string) (map[string]stateMessage, error) {
	b, _, err := readAll(path, 0, maxStateSize)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	s := stateFile{Messages: make(map[string]stateMessage)}
	if err := json.Unmarshal(b, &s); err != nil {
		return nil, fmt.Errorf("%w: remove it to begin anew", err)
	}
	if s.Messages == nil {
		s.Messages = make(map[string]stateMessage)
	}
	return s.Messages, nil
}

// message reads what the cursor keeps of a file, and when it was written.
func (w *Watch) message(path string, before map[string]stateMessage) (stateMessage, time.Time, error) {
	if w.follow != nil {
		return w.follow.message(path, before)
	}
	e := open(path)
	if e.Err != nil {
		return stateMessage{}, time.Time{}, e.Err
	}
	return e.state(), e.Info.ModTime(), nil
}

// delta tells the difference between two looks, by name.
func (w *Watch) delta(a Agent, before, now map[string]stateMessage) []Event {
	var news, gone []Event
	for name, m := range now {
		if _, ok := before[name]; !ok {
			news = append(news, m.event(NewMessage, a))
		}
	}
	for name, m := range before {
		if _, ok := now[name]; !ok && w.ShowArchived {
			gone = append(gone, m.event(MessageArchived, a))
		}
	}
	byFile := func(a, b Event) int { return strings.Compare(a.File, b.File) }
	slices.SortFunc(news, byFile)
	slices.SortFunc(gone, byFile)
	return append(news, gone...)
}

func (m stateMessage) event(kind string, a Agent) Event {
	return Event{
		Agent: a.Name, Event: kind, Project: &a.Project.Name,
		File: m.File, From: m.From, Priority: m.Priority, Subject: m.Subject, Type: m.Type,
	}
}
