package profile

import (
	"errors"
	"fmt"
	"strings"

	"github.com/acpd/acpd/internal/yamldoc"
)

// Parse reads a profile. source names it in errors, which have a line wherever one is to blame.
// Several things that are wrong with keys and their types come as one error that joins them.
func Parse(name, source string, text []byte) (*Profile, error) {
	p := &Profile{Name: name, Limits: defaultLimits}
	d := yamldoc.Decode(text, p, yamldoc.Options{File: source, LooseText: true})
	checkArgs(d, p.Args)
	if errs := d.ListErrors(); len(errs) > 0 {
		return nil, joinErrors(errs)
	}
	if d.IsEmpty() {
		return nil, fmt.Errorf("%s: there is nothing in it: begin with what acpctl serve --show-profile claude prints", source)
	}
	if err := p.check(); err != nil {
		return nil, &yamldoc.Error{File: source, Line: findLine(d, err), Problem: err.Error()}
	}
	return p, nil
}

// checkArgs reports arguments that are neither text nor have both keys.
func checkArgs(d *yamldoc.Document, args []Arg) {
	for i, a := range args {
		at := fmt.Sprintf("args[%d]", i)
		when, list := at+".when", at+".args"
		switch hasWhen, hasList := d.IsSet(when), d.IsSet(list); {
		case len(a.Args) == 1 && !hasList: // text
		case !hasWhen || !hasList:
			d.AddValueError(at, errors.New("use text, or settings with both when and args"))
		case len(a.When) == 0:
			d.AddValueError(when, errors.New("an empty list: name a condition, or write the arguments without it"))
		case len(a.Args) == 0:
			d.AddValueError(list, errors.New("an empty list: add an argument, or remove the entry"))
		}
	}
}

// findLine returns the line of the key that an error of check begins with, as far as the file
// has it; 0 if it has nothing of it.
func findLine(d *yamldoc.Document, err error) (line int) {
	key := ""
	for part := range strings.SplitSeq(err.Error(), ": ") {
		key = yamldoc.JoinKey(key, part)
		if !d.IsSet(key) {
			break // the rest says what is wrong
		}
		line = d.FindLine(key)
	}
	return line
}

func joinErrors(errs []*yamldoc.Error) error {
	var list []error
	for _, e := range errs {
		list = append(list, e)
	}
	return errors.Join(list...)
}
