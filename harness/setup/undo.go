package setup

import (
	"bytes"
	"os"
	"slices"
)

// Undo is what taking setup's work out of a program's configuration would write.
type Undo struct {
	Title string

	o       *Options
	program *program
	parts   []part
}

// NewUndo returns what undoing the setup of a program takes. It needs no setup that is known:
// it recognises what setup writes.
func NewUndo(name string, o Options) (*Undo, error) {
	p, err := findProgram(name)
	if err == nil {
		err = o.check()
	}
	if err != nil {
		return nil, err
	}
	parts, err := p.listParts(&o)
	return &Undo{p.title, &o, p, parts}, err
}

// outcome is what undoing makes of a file.
type outcome struct {
	file    *file
	record  *record
	text    []byte
	gone    bool // the file is removed
	leave   bool // another program still needs what is there
	changes bool
}

func (u *Undo) findOutcome(q part) (*outcome, error) {
	f, err := readFile(q.place)
	if err != nil {
		return nil, err
	}
	r, err := u.o.readRecord(q.place.path)
	if err != nil {
		return nil, err
	}
	out := &outcome{file: f, record: r, text: f.text}
	switch {
	case !f.exists:
		return out, nil
	case r == nil && q.shared, r != nil && !slices.Contains(r.Programs, u.program.name):
		out.leave = true
		return out, nil
	case r != nil && len(r.Programs) > 1:
		out.leave = true
		return out, nil
	}
	if r != nil && r.IsExact && r.After == hashText(f.text) {
		before, ok := u.o.readBackup(r)
		if ok || !r.Existed {
			out.text, out.gone, out.changes = before, !r.Existed, true
			return out, f.checkWritable()
		}
	}
	if out.text, err = q.change(bytes.Clone(f.text)); err != nil {
		return nil, err
	}
	out.changes = !bytes.Equal(out.text, f.text)
	if out.changes {
		if err := f.checkWritable(); err != nil {
			return nil, err
		}
	}
	out.gone = out.changes && r != nil && !r.Existed && q.isEmpty(out.text)
	return out, nil
}

// Preview returns what changes: a diff, "" if there is nothing to undo.
func (u *Undo) Preview() (diff string, err error) {
	for _, q := range u.parts {
		out, err := u.findOutcome(q)
		if err != nil {
			return "", at(q.place.path, err)
		}
		text := string(out.text)
		if out.gone {
			text = ""
		}
		diff += formatDiff(out.file.describe(), string(out.file.text), text)
	}
	return diff, nil
}

// Write takes setup's work out, and forgets it. If it fails, the files that it returns are
// done and the others are not.
func (u *Undo) Write() (all []Written, err error) {
	unlock, err := u.o.lockState(statePatience)
	if err != nil {
		return nil, err
	}
	defer unlock()
	var dirs []string // that setup made
	defer func() { removeEmptyFolders(dirs) }()
	for _, q := range u.parts {
		written, err := u.writePart(q, &dirs)
		if err != nil {
			return all, at(q.place.path, err)
		}
		if written != nil {
			all = append(all, *written)
		}
	}
	return all, nil
}

func (u *Undo) writePart(q part, dirs *[]string) (*Written, error) {
	unlock, err := lockPlace(q.place)
	if err != nil {
		return nil, err
	}
	defer unlock()
	out, err := u.findOutcome(q)
	if err != nil {
		return nil, err
	}
	if out.leave {
		if r := out.record; r != nil && slices.Contains(r.Programs, u.program.name) {
			r.Programs = slices.DeleteFunc(r.Programs, func(name string) bool { return name == u.program.name })
			return nil, u.o.writeRecord(r)
		}
		return nil, nil
	}
	if out.record != nil {
		*dirs = append(*dirs, out.record.MadeDirs...)
	}
	os.Remove(out.file.target + tempMark) // a crash may have left it
	switch {
	case !out.changes:
	case out.gone:
		err = out.file.remove()
	default:
		err = out.file.write(out.text)
	}
	if err == nil && out.record != nil {
		err = u.o.removeRecord(q.place.path)
	}
	if err != nil || !out.changes {
		return nil, err
	}
	return &Written{Path: q.place.path, Removed: out.gone}, nil
}
