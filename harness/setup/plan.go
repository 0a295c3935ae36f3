package setup

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Plan is what setting up one program, or undoing it, would write. It writes nothing before
// [Plan.Write].
type Plan struct {
	Title       string // of the program
	IsInstalled bool   // its executable is in PATH or where its installer puts it
	Steps       []Step
	IsBrief     bool // Preview shows only the beginning of new instructions and of a new skill

	o        *Options
	program  *program
	accepted []edit
}

// NewPlan returns the plan of setting up a program.
func NewPlan(name string, o Options) (*Plan, error) {
	p, err := findProgram(name)
	if err == nil {
		err = o.check()
	}
	if err != nil {
		return nil, err
	}
	steps, err := p.listSteps(&o)
	return &Plan{Title: p.title, IsInstalled: findExecutable(p, &o) != "", Steps: steps, o: &o, program: p}, err
}

// Preview returns what a step changes in addition to what was accepted: a diff, which is empty if all is there
// already. note says why a step has nothing to change, or what to know about it.
func (p *Plan) Preview(step *Step) (diff, note string, err error) {
	note = step.Note
	texts := make(map[string]*draft)
	for _, e := range p.accepted {
		if err := applyEdit(texts, e); err != nil {
			return "", note, err
		}
	}
	before := make(map[string]string)
	for path, d := range texts {
		before[path] = string(d.text)
	}
	for _, e := range step.edits {
		err := applyEdit(texts, e)
		if skipped, ok := errors.AsType[skippedError](err); ok {
			return "", skipped.Error(), nil
		}
		if err != nil {
			return "", note, err
		}
		d := texts[e.place.path]
		old, drafted := before[e.place.path]
		if !drafted {
			old = string(d.file.text)
		}
		shown := formatDiff(d.file.describe(), old, string(d.text))
		lines := strings.SplitAfter(shown, "\n") // three are above the file's first one, and behind the last one is ""
		if p.IsBrief && step.Name == StepInstructions && !d.file.exists && !drafted && len(lines) > 8 {
			shown = strings.Join(lines[:7], "") + fmt.Sprintf("… (%d lines; acpctl setup %s --dry-run shows them)\n", len(lines)-4, p.program.name)
		}
		diff += shown
	}
	return diff, note, nil
}

// describe returns the name of a file for a person: with where it leads, if it is a link.
func (f *file) describe() string {
	switch {
	case !f.exists:
		return f.path + " (new)"
	case f.target != f.path:
		return f.path + " (" + f.target + ")"
	}
	return f.path
}

// Accept takes a step into the plan. Instructions that exist are recorded too: if another
// program brought them, they stay until both are undone.
func (p *Plan) Accept(step *Step) { p.accepted = append(p.accepted, step.edits...) }

// draft is a file with what was made of it so far.
type draft struct {
	file *file
	text []byte
}

// applyEdit applies an edit to the draft of its file, which it reads first without one.
func applyEdit(drafts map[string]*draft, e edit) error {
	d := drafts[e.place.path]
	if d == nil {
		f, err := readFile(e.place)
		if err != nil {
			return at(e.place.path, err)
		}
		d = &draft{file: f, text: f.text}
		drafts[e.place.path] = d
	}
	text, err := e.change(bytes.Clone(d.text))
	if err != nil {
		if skipped, ok := errors.AsType[skippedError](err); ok {
			return skipped
		}
		return at(e.place.path, err)
	}
	if !bytes.Equal(text, d.text) {
		if err := d.file.checkWritable(); err != nil {
			return err
		}
	}
	d.text = text
	return nil
}

// Written is a file that was written.
type Written struct {
	Path    string `json:"path"`
	Backup  string `json:"backup,omitempty"` // what it was before
	Removed bool   `json:"removed,omitzero"`
}

// Write writes what was accepted. It reads each file again first, so that what a program has
// written meanwhile stays. If it fails, the files that it returns are written and the others
// are not.
func (p *Plan) Write() (all []Written, err error) {
	unlock, err := p.o.lockState(statePatience)
	if err != nil {
		return nil, err
	}
	defer unlock()
	var places []place
	for _, e := range p.accepted {
		if !slices.ContainsFunc(places, func(q place) bool { return q.path == e.place.path }) {
			places = append(places, e.place)
		}
	}
	for _, place := range places {
		written, err := p.writePlace(place)
		if err != nil {
			return all, at(place.path, err)
		}
		if written != nil {
			all = append(all, *written)
		}
	}
	return all, nil
}

func (p *Plan) writePlace(place place) (*Written, error) {
	unlock, err := lockPlace(place)
	if err != nil {
		return nil, err
	}
	defer unlock()
	drafts := make(map[string]*draft)
	for _, e := range p.accepted {
		if e.place.path == place.path {
			err := applyEdit(drafts, e)
			if _, isSkipped := errors.AsType[skippedError](err); err != nil && !isSkipped {
				return nil, err
			}
		}
	}
	d := drafts[place.path]
	r, err := p.o.readRecord(place.path)
	if err != nil {
		return nil, err
	}
	if bytes.Equal(d.text, d.file.text) {
		if r != nil && !slices.Contains(r.Programs, p.program.name) { // another program's, of use to this one too
			r.Programs = append(r.Programs, p.program.name)
			return nil, p.o.writeRecord(r)
		}
		return nil, nil
	}
	// The record is first on disk: it is of no harm without the change, and undoing needs it.
	dirs := listMissingFolders(d.file.target)
	backup, err := p.o.keep(d.file, r, p.program.name, d.text, dirs)
	if err != nil {
		return nil, err
	}
	if err := d.file.write(d.text); err != nil {
		return nil, err
	}
	return &Written{Path: place.path, Backup: backup}, nil
}
