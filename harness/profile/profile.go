// Package profile says how an agent program is run without a person: which command line, which
// environment, what it may see, and what its output means. A profile is a YAML file; three are
// built in, and the owner of the daemon may write others.
//
// What the package guarantees:
//
//   - Nothing of a peer's choice gets into a command line, an environment or a file's name: its
//     text goes to the program's standard input alone.
//   - A profile is never looked for in the working directory.
//   - A conversation belongs to one peer, one agent of that peer and one thread. Two peers that
//     name the same thread have two conversations. Trust that ends ends them.
//   - A run begins only if the day's budget holds it.
//
// How the program is confined and ended is left to package run, what the peer's text looks like
// to package client, and what a peer hears of an answer to the caller.
package profile

import (
	"cmp"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Profile says how an agent program is run. The fields that a file may leave out have the
// defaults that are named here.
type Profile struct {
	Name string `yaml:"-"` // under which it was found

	About       string            `yaml:"about"`       // one line for people
	Program     string            `yaml:"program"`     // a name, looked for in PATH, or an absolute path
	Args        []Arg             `yaml:"args"`        // of the command line
	Env         map[string]string `yaml:"env"`         // set for the run
	Pass        []string          `yaml:"pass"`        // variables that the run gets from acpctl's environment, if they are there
	Credentials []Credential      `yaml:"credentials"` // files of the user that the run may read
	Files       map[string]string `yaml:"files"`       // made in the run's home, by their path there
	Read        []string          `yaml:"read"`        // more files and folders that the run may read
	Dir         string            `yaml:"dir"`         // the folder that the run works in; "": an empty one of its own
	Tools       Tools             `yaml:"tools"`       // "": read with a dir, else none
	ACP         bool              `yaml:"acp"`         // the run may speak to the daemon as the agent that it runs for
	Schema      string            `yaml:"schema"`      // JSON schema of the answer; "": text
	Output      Output            `yaml:"output"`
	Limits      Limits            `yaml:"limits"`
}

// Tools says which tools of the program a run offers to the model.
type Tools string

// The tools that a run may offer.
const (
	ToolsNone Tools = "none" // none for files and commands
	ToolsRead Tools = "read" // to read what is in the folder; the folder cannot be changed
	ToolsWork Tools = "work" // to read and write there, and to run commands
)

// Arg is an argument of a command line, which a file writes as text, or several that are there
// only if something holds.
type Arg struct {
	When words    `yaml:"when"` // all of these hold; see [conditions]
	Args []string `yaml:"args"`
}

// SetText makes a one argument that is always there.
func (a *Arg) SetText(text string) { a.Args = []string{text} }

// words is a list of words, which a file writes as text if it is one.
type words []string

// SetText makes w a list of one word.
func (w *words) SetText(text string) { *w = words{text} }

// Credential is a file of the user that a run may read in its own home.
type Credential struct {
	File string `yaml:"file"` // absolute, or beginning with ~/
	As   string `yaml:"as"`   // its path in the run's home
}

// Limits bound a run.
type Limits struct {
	Timeout time.Duration `yaml:"timeout"` // 10m
	Output  int64         `yaml:"output"`  // bytes on standard output; 16 MiB
	Cost    float64       `yaml:"cost"`    // US dollars; 0: the program names no cost
	Tokens  uint64        `yaml:"tokens"`  // 200000
	Turns   int           `yaml:"turns"`   // for {turns}; 30
	Disk    int64         `yaml:"disk"`    // bytes of a conversation's own files, over which it ends; 256 MiB
}

//go:embed embedded/*.yaml
var embedded embed.FS

const maxFile = 256 << 10 // bytes of a profile

var (
	profileName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,31}$`)
	placeholder = regexp.MustCompile(`\{([a-z_]+)\}`)
	variable    = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

// conditions are the words that may stand in when, also after a !, by which they hold where
// they else would not.
var conditions = []string{"resume", "new", "tools.none", "tools.read", "tools.work", "acp", "schema", "model", "confined", "unconfined"}

// placeholders are the words that may stand in braces in args, files and env.
var placeholders = []string{"session", "home", "dir", "turns", "cost", "model", "schema", "schema_file", "tools", "acp", "acpctl"}

// ListNames returns the names of the profiles in a folder and of those that are built in.
func ListNames(folder string) []string {
	var names []string
	for _, from := range []fs.FS{mustSub(embedded), dirFS(folder)} {
		found, _ := fs.Glob(from, "*.yaml")
		for _, f := range found {
			if name := strings.TrimSuffix(f, ".yaml"); profileName.MatchString(name) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func mustSub(f embed.FS) fs.FS {
	sub, err := fs.Sub(f, "embedded")
	if err != nil {
		panic(err) // the folder is part of the program
	}
	return sub
}

func dirFS(folder string) fs.FS {
	if folder == "" {
		return embed.FS{}
	}
	return os.DirFS(folder)
}

// ReadNamed returns the text of the profile of a name: the one in the folder, else the one that
// is built in. An empty folder has none. The folder has to be the owner's alone.
func ReadNamed(folder, name string) (text []byte, err error) {
	if !profileName.MatchString(name) {
		return nil, fmt.Errorf("%q: use the name of a profile, of %s; a file is named by its path, with a slash in it", name, strings.Join(ListNames(folder), ", "))
	}
	if folder != "" {
		path := filepath.Join(folder, name+".yaml")
		text, err := ReadFile(path)
		if !errors.Is(err, fs.ErrNotExist) {
			return text, err
		}
	}
	text, err = embedded.ReadFile("embedded/" + name + ".yaml")
	if err != nil {
		return nil, fmt.Errorf("%q: there is no such profile: use one of %s, or write %s", name, strings.Join(ListNames(folder), ", "), filepath.Join(cmp.Or(folder, "the state directory's profiles"), name+".yaml"))
	}
	return text, nil
}

// ReadFile returns the text of a profile in a file. Nobody but the user of this process, or
// root, may be able to write it.
func ReadFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	switch {
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s: it is no file: name one", path)
	case info.Mode().Perm()&0o022 != 0:
		return nil, fmt.Errorf("%s: others may write it: run chmod go-w on it", path)
	case !isOwn(info):
		return nil, fmt.Errorf("%s: it is another user's: copy it", path)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("%s: it is longer than %d bytes: name another file", path, maxFile)
	}
	return text, err
}

func (p *Profile) setDefaults() {
	p.Limits.Timeout = cmp.Or(p.Limits.Timeout, 10*time.Minute)
	p.Limits.Output = cmp.Or(p.Limits.Output, 16<<20)
	p.Limits.Tokens = cmp.Or(p.Limits.Tokens, 200_000)
	p.Limits.Turns = cmp.Or(p.Limits.Turns, 30)
	p.Limits.Disk = cmp.Or(p.Limits.Disk, 256<<20)
}

// check returns an error that names the key of what cannot be, and says what can.
func (p *Profile) check() error {
	switch {
	case !profileName.MatchString(p.Name):
		return fmt.Errorf("the name %q: use lower-case letters, digits and hyphens, at most 32", p.Name)
	case p.Program == "" || !filepath.IsAbs(p.Program) && strings.ContainsRune(p.Program, '/'):
		return fmt.Errorf("program: %q: use a name, which is looked for in PATH, or an absolute path", p.Program)
	case p.Limits.Timeout < time.Second || p.Limits.Timeout > 24*time.Hour:
		return fmt.Errorf("limits: timeout: %v: use a time from 1s to 24h", p.Limits.Timeout)
	case p.Limits.Output < 1<<10 || p.Limits.Output > 256<<20:
		return fmt.Errorf("limits: output: %d: use bytes from 1024 to 268435456", p.Limits.Output)
	case !(p.Limits.Cost >= 0 && p.Limits.Cost <= 1000):
		return fmt.Errorf("limits: cost: %v: use US dollars from 0 to 1000", p.Limits.Cost)
	case p.Limits.Tokens > 1e9:
		return fmt.Errorf("limits: tokens: %d: use a number up to 1000000000", p.Limits.Tokens)
	case p.Limits.Turns < 1 || p.Limits.Turns > 1000:
		return fmt.Errorf("limits: turns: %d: use a number from 1 to 1000", p.Limits.Turns)
	case p.Limits.Disk < 1<<20 || p.Limits.Disk > 1<<40:
		return fmt.Errorf("limits: disk: %d: use bytes from 1048576 to 1099511627776", p.Limits.Disk)
	case !slices.Contains([]Tools{"", ToolsNone, ToolsRead, ToolsWork}, p.Tools):
		return fmt.Errorf("tools: %q: use none, read or work", p.Tools)
	}
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
			if strings.Contains(text, "{session}") && !slices.Contains(a.When, "resume") {
				return fmt.Errorf("args: %q: put {session} under when: resume", text)
			}
		}
	}
	for name, text := range p.Env {
		if !variable.MatchString(name) || slices.Contains(reservedEnv, name) {
			return fmt.Errorf("env: %q: it cannot be set here", name)
		}
		if err := checkPlaceholders(text); err != nil {
			return fmt.Errorf("env: %s: %w", name, err)
		}
	}
	for _, name := range p.Pass {
		if !variable.MatchString(name) || slices.Contains(reservedEnv, name) || strings.HasPrefix(name, "ACP_") || strings.HasPrefix(name, "LD_") || strings.HasPrefix(name, "DYLD_") {
			return fmt.Errorf("pass: %q: it cannot be passed on", name)
		}
	}
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
		if err := checkPlaceholders(text); err != nil {
			return fmt.Errorf("files: %s: %w", path, err)
		}
	}
	for _, path := range p.Read {
		if err := checkUserPath(path); err != nil {
			return fmt.Errorf("read: %w", err)
		}
	}
	if p.Dir != "" {
		if err := checkUserPath(p.Dir); err != nil {
			return fmt.Errorf("dir: %w", err)
		}
	}
	if p.Limits.Cost > 0 && !slices.ContainsFunc(p.Output.Rules, func(r Rule) bool { return r.Cost != "" }) {
		return errors.New("limits: cost: no rule of output has cost, so every run would count as its most, and its tokens not at all: add cost to a rule, or leave limits.cost out")
	}
	return p.Output.check()
}

// reservedEnv are the variables that every run has.
var reservedEnv = []string{"HOME", "PATH", "TMPDIR", "ACP_SOCKET", "ACP_AGENT", "ACP_AGENT_KEY", "ACP_HOME", "ACP_ID"}

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
