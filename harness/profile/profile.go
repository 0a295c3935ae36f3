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
	Forbid      []string          `yaml:"forbid"`      // names that the folder may not have, for the program would obey them
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

// defaultLimits are those of a profile that sets none.
var defaultLimits = Limits{Timeout: 10 * time.Minute, Output: 16 << 20, Tokens: 200_000, Turns: 30, Disk: 256 << 20}

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
