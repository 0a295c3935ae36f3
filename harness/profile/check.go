package profile

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// check returns an error that names the key of what cannot be, and says what can.
func (p *Profile) check() error {
	return cmp.Or(p.checkProgram(), p.Limits.check(), p.checkCommandLine(), p.checkEnvironment(), p.checkFiles(), p.checkCost(), p.Output.check())
}

func (p *Profile) checkProgram() error {
	switch {
	case !profileName.MatchString(p.Name):
		return fmt.Errorf("the name %q: use lower-case letters, digits and hyphens, at most 32", p.Name)
	case p.Program == "" || !filepath.IsAbs(p.Program) && strings.ContainsRune(p.Program, '/'):
		return fmt.Errorf("program: %q: use a name, which is looked for in PATH, or an absolute path", p.Program)
	case !slices.Contains([]Tools{"", ToolsNone, ToolsRead, ToolsWork}, p.Tools):
		return fmt.Errorf("tools: %q: use none, read or work", p.Tools)
	}
	return nil
}

func (l *Limits) check() error {
	switch {
	case l.Timeout < time.Second || l.Timeout > 24*time.Hour:
		return fmt.Errorf("limits: timeout: %v: use a time from 1s to 24h", l.Timeout)
	case l.Output < 1<<10 || l.Output > 256<<20:
		return fmt.Errorf("limits: output: %d: use bytes from 1024 to 268435456", l.Output)
	case !(l.Cost >= 0 && l.Cost <= 1000):
		return fmt.Errorf("limits: cost: %v: use US dollars from 0 to 1000", l.Cost)
	case l.Tokens < 1 || l.Tokens > 1e9:
		return fmt.Errorf("limits: tokens: %d: use a number from 1 to 1000000000", l.Tokens)
	case l.Turns < 1 || l.Turns > 1000:
		return fmt.Errorf("limits: turns: %d: use a number from 1 to 1000", l.Turns)
	case l.Disk < 1<<20 || l.Disk > 1<<40:
		return fmt.Errorf("limits: disk: %d: use bytes from 1048576 to 1099511627776", l.Disk)
	}
	return nil
}

func (p *Profile) checkCommandLine() error {
	for _, a := range p.Args {
		for _, w := range a.When {
			if !slices.Contains(conditions, strings.TrimPrefix(w, "!")) {
				return fmt.Errorf("args: when: %q: use one of %s, with or without a ! before it", w, strings.Join(conditions, ", "))
			}
		}
		for _, text := range a.Args {
			if err := checkPlaceholders(text); err != nil {
				return fmt.Errorf("args: %w", err)
			}
			if strings.Contains(text, placeSession) && !slices.Contains(a.When, "resume") {
				return fmt.Errorf("args: %q: put {session} under when: resume", text)
			}
		}
	}
	return nil
}

// reservedEnv are the variables that every run has.
var reservedEnv = []string{"HOME", "PATH", "TMPDIR", "ACP_SOCKET", "ACP_AGENT", "ACP_AGENT_KEY", "ACP_HOME", "ACP_ID"}

func (p *Profile) checkEnvironment() error {
	for name, text := range p.Env {
		if !variable.MatchString(name) || slices.Contains(reservedEnv, name) {
			return fmt.Errorf("env: %q: it cannot be set here: remove it, or use a name of letters, digits and _ other than %s", name, strings.Join(reservedEnv, ", "))
		}
		if err := checkText(text); err != nil {
			return fmt.Errorf("env: %s: %w", name, err)
		}
	}
	for _, name := range p.Pass {
		if !variable.MatchString(name) || slices.Contains(reservedEnv, name) || strings.HasPrefix(name, "ACP_") || strings.HasPrefix(name, "LD_") || strings.HasPrefix(name, "DYLD_") {
			return fmt.Errorf("pass: %q: it cannot be passed on: remove it", name)
		}
	}
	return nil
}

// checkFiles checks the paths of what a run sees, and the text of the files that are made for it.
func (p *Profile) checkFiles() error {
	for _, c := range p.Credentials {
		if err := checkHomePath(c.As); err != nil {
			return fmt.Errorf("credentials: as: %w", err)
		}
		if err := checkUserPath(c.File); err != nil {
			return fmt.Errorf("credentials: file: %w", err)
		}
	}
	for path, text := range p.Files {
		if err := checkHomePath(path); err != nil {
			return fmt.Errorf("files: %w", err)
		}
		if err := checkText(text); err != nil {
			return fmt.Errorf("files: %s: %w", path, err)
		}
	}
	for _, path := range p.Read {
		if err := checkUserPath(path); err != nil {
			return fmt.Errorf("read: %w", err)
		}
	}
	for _, name := range p.Forbid {
		if name == "." || !filepath.IsLocal(name) || filepath.Clean(name) != name {
			return fmt.Errorf("forbid: %q: use a path below the folder, like .opencode", name)
		}
	}
	if p.Dir != "" {
		if err := checkUserPath(p.Dir); err != nil {
			return fmt.Errorf("dir: %w", err)
		}
	}
	return nil
}

func (p *Profile) checkCost() error {
	if p.Limits.Cost > 0 && !slices.ContainsFunc(p.Output.Rules, func(r Rule) bool { return r.Cost != "" }) {
		return errors.New("limits: cost: no rule of output has cost, so every run would be charged the whole limit, and its tokens would be ignored: add cost to a rule, or leave limits.cost out")
	}
	return nil
}

// placeSession stands for the program's conversation, which a new one has not.
const placeSession = "{session}"

// checkText checks the text of a variable or file, which each run has.
func checkText(text string) error {
	if strings.Contains(text, placeSession) {
		return errors.New("{session} is for args under when: resume: leave it out here")
	}
	return checkPlaceholders(text)
}

func checkPlaceholders(text string) error {
	for _, m := range placeholder.FindAllStringSubmatch(text, -1) {
		if !slices.Contains(placeholders, m[1]) {
			return fmt.Errorf("%s: use one of {%s}", m[0], strings.Join(placeholders, "}, {"))
		}
	}
	return nil
}

// checkHomePath returns an error unless path is one below a run's home.
func checkHomePath(path string) error {
	if !filepath.IsLocal(path) || filepath.Clean(path) != path || path == "." {
		return fmt.Errorf("%q: use a path below the run's home, like .config/file", path)
	}
	return nil
}

// checkUserPath returns an error unless path is absolute or below the user's home.
func checkUserPath(path string) error {
	if rest, ok := strings.CutPrefix(path, "~/"); ok && filepath.IsLocal(rest) || filepath.IsAbs(path) {
		return nil
	}
	return fmt.Errorf("%q: use a path that begins with / or ~/", path)
}
