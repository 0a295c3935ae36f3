// Package profile says how an agent program is run without a person: which command line, which
// environment, what it may see, and what its output means. Three programs are known; a command of
// the owner's runs in the same way.
//
// What the package guarantees:
//
//   - Nothing of a peer's choice gets into a command line, an environment or a file's name: its
//     text goes only to the program's standard input.
//   - A conversation belongs to one peer, one agent of that peer and one thread. Two peers that
//     name the same thread have two conversations. Trust that ends ends them.
//   - A run begins only if the day's budget holds it.
//
// How the program is confined and ended is left to package run, what the peer's text looks like
// to package client, and what a peer gets of an answer to the caller.
package profile

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Profile says how an agent program is run.
type Profile struct {
	Name    string
	Program string // a name, which is looked for in PATH, or a path

	args       func(v *values) []string          // of the command line
	env        func(v *values) map[string]string // set for the run; may be nil
	files      func(v *values) map[string]string // made in the run's home, by their path there; may be nil
	forbid     []string                          // paths that the folder may not have, since the program would obey what is there
	read       func(r *reading, event any)       // reads an object that the program has printed; nil if what it prints is the answer
	cumulative bool                              // tokens count the whole conversation, not only this run

	Pass        []string     // variables that the run gets from acpctl's environment, if they are there
	Credentials []Credential // files of the user that the run may read
	Read        []string     // more files and folders that the run may read
	More        []string     // the owner's arguments for the program, or for the command
	ACP         bool         // the run may speak to the daemon as the agent that it runs for
	Limits      Limits
}

// Tools says which tools of the program a run offers to the model.
type Tools string

// The tools that a run may offer.
const (
	ToolsNone Tools = "none" // none for files and commands
	ToolsRead Tools = "read" // to read what is in the folder; the folder cannot be changed
	ToolsWork Tools = "work" // to read and write there, and to run commands
)

// Credential is a file of the user that a run may read in its own home.
type Credential struct {
	File string // absolute, or beginning with ~/
	As   string // its path in the run's home
}

// Limits bound a run.
type Limits struct {
	Timeout time.Duration
	Output  int64   // bytes on standard output
	Cost    float64 // US dollars; 0 if the program names no cost
	Tokens  uint64  // 0 if the program does not report them
	Disk    int64   // bytes of a conversation's own files, over which it ends
}

// newLimits returns the limits that all runs have, with what one may spend.
func newLimits(cost float64, tokens uint64) Limits {
	return Limits{Timeout: 10 * time.Minute, Output: 16 << 20, Disk: 256 << 20, Cost: cost, Tokens: tokens}
}

// ListNames returns the names of the profiles.
func ListNames() []string { return []string{"claude", "codex", "opencode"} }

// New returns the profile of a name.
func New(name string) (*Profile, error) {
	switch name {
	case "claude":
		return newClaude(), nil
	case "codex":
		return newCodex(), nil
	case "opencode":
		return newOpenCode(), nil
	}
	return nil, fmt.Errorf("%q: expected %s; --confine runs a command of your own in the same way", name, strings.Join(ListNames(), ", "))
}

// NewCommand returns how a command of the owner's is run for an agent. Its output is the answer. It can keep
// files for a conversation in its home. It reports neither tokens nor a cost.
func NewCommand(agent string, argv []string) *Profile {
	p := &Profile{Name: agent, Program: argv[0], More: argv[1:], Limits: newLimits(0, 0)}
	p.args = func(*values) []string { return p.More }
	return p
}

var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// reservedEnv are variables that every run has.
var reservedEnv = []string{"HOME", "PATH", "TMPDIR"}

// Check returns an error if a variable cannot be passed on, or a path says nothing by itself.
func (p *Profile) Check() error {
	for _, name := range p.Pass {
		if !variable.MatchString(name) || slices.Contains(reservedEnv, name) || strings.HasPrefix(name, "ACP_") || strings.HasPrefix(name, "LD_") || strings.HasPrefix(name, "DYLD_") {
			return fmt.Errorf("--pass: %q: it cannot be passed on: remove it", name)
		}
	}
	for _, path := range p.Read {
		if rest, ok := strings.CutPrefix(path, "~/"); !(ok && filepath.IsLocal(rest) || filepath.IsAbs(path)) {
			return fmt.Errorf("--read: %q: use a path that begins with / or ~/", path)
		}
	}
	return nil
}
