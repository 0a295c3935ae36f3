package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
)

// part is a measurement that has a fleet of its own.
type part struct {
	name    string
	measure func(*fleet) ([]figure, error)
}

// measureParts builds a variant's programs, has each part measured in a fleet of its
// own, and reports all figures and writes progress to log.
func measureParts(ctx context.Context, v variant, to *report, log io.Writer, parts ...part) error {
	bin, err := os.MkdirTemp("", "bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(bin)
	if err := buildPrograms(ctx, bin, v); err != nil {
		return err
	}
	var all []figure
	for _, p := range parts {
		fmt.Fprintf(log, "%s\n", p.name)
		f, err := newFleet(ctx, v, bin)
		if err != nil {
			return err
		}
		figures, err := p.measure(f)
		err = errors.Join(err, f.stopAll())
		if ctx.Err() != nil { // and then err says only how the processes took it
			return context.Cause(ctx)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		all = append(all, figures...)
	}
	return to.writeFigures(all)
}
