// Package doctor finds out what is wrong with a daemon, its state directory, its machine and its
// peers, and says what to do.
//
// [Examine] looks and changes nothing. It asks the daemon for what the daemon knows; if no daemon
// runs, it reports what files show. [Mend] repairs what is safe to repair. A [Bundle] is what a
// bug report needs, without names, keys and messages.
//
// What it asks of the machine is in [Machine], which tests replace.
package doctor

import (
	"fmt"
	"slices"
)

// Severity ranks findings.
type Severity string

// The severities, from good to bad.
const (
	OK      Severity = "ok"
	Note    Severity = "note"    // what one may want to know
	Warning Severity = "warning" // it works, and will or may not
	Failure Severity = "failure" // it does not work
)

// Finding is one thing that was found.
type Finding struct {
	Code     Code     `json:"code"`
	Severity Severity `json:"severity"`
	Subject  string   `json:"subject"` // what it is about: a file, a peer, an interface
	What     string   `json:"what"`
	Remedy   string   `json:"remedy"`          // what to do; "": nothing
	Fixed    string   `json:"fixed,omitempty"` // what [Mend] did

	fix func() (done string, err error) // nil: it is not for Mend
}

// HasFailure reports whether anything failed.
func HasFailure(all []Finding) bool {
	return slices.ContainsFunc(all, func(f Finding) bool { return f.Severity == Failure })
}

// Mend applies the fixes of the findings, and says in each what was done: then it is a note on what was
// before. One that cannot be applied says why in its remedy.
func Mend(all []Finding) {
	for i := range all {
		f := &all[i]
		if f.fix == nil {
			continue
		}
		done, err := f.fix()
		if err != nil {
			f.Remedy = fmt.Sprintf("--fix could not: %v; %s", err, f.Remedy)
			continue
		}
		f.Severity, f.What, f.Fixed, f.Remedy = Note, "before: "+f.What, done, ""
	}
}
