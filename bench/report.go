package main

import (
	"fmt"
	"io"
)

// A report is where a run's figures go.
type report struct {
	out     io.Writer // as Markdown
	file    string    // as a record, from which bench draw makes plots; "": nowhere
	command string    // that the figures are of
	// versions are those of programs that take part and are not of this repository.
	versions map[string]string
}

// writeFigures writes figures as a table, and records them.
func (r *report) writeFigures(figures []figure) error {
	if err := reportFigures(r.out, figures); err != nil {
		return err
	}
	return r.recordFigures(figures)
}

// recordFigures records figures where the run was told to. It tells of a note that stays from an earlier run,
// since a person must say whether it holds for this one.
func (r *report) recordFigures(figures []figure) error {
	if r.file == "" {
		return nil
	}
	taken, err := newRecord(r.command, r.versions, figures)
	note := ""
	if err == nil {
		note, err = taken.save(r.file)
	}
	if err != nil {
		return fmt.Errorf("recording what was measured: %w", err)
	}
	if note != "" {
		fmt.Fprintf(r.out, "\n%s keeps the note of an earlier run: %q: edit it there if it does not hold for this one.\n", r.file, note)
	}
	return nil
}
