// Package setup connects agent programs to acpctl: it writes the MCP server acp into their
// configuration, on a yes the tools that they may use without asking and a paragraph of
// instructions, and takes it all out again.
//
// It edits by position: what it does not write stays as it is, byte for byte. It keeps what a
// file was before, knows by that how to undo, and writes nothing that was not accepted. It
// reads and writes only files of this user, and follows no link in a project's folder.
//
// Its callers decide who is asked and what is printed. Everything else that makes a session an
// agent, such as waking, is the daemon's.
package setup

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// serverName is the name of the MCP server in every program.
const serverName = "acp"

// socketVariable names to acpctl the socket of the agents' folder.
const socketVariable = "ACP_SOCKET"

// The tools of `acpctl mcp`. Those of the second list carry text of the model's choice to peers
// that it chooses, and those of the third files.
var (
	toolsToRead  = []string{"acp_peers", "acp_inbox", "acp_task", "acp_reply"}
	toolsToSend  = []string{"acp_query", "acp_delegate", "acp_notify"}
	toolsOfFiles = []string{"acp_file"}

	toolsToGuard = slices.Concat(toolsToSend, toolsOfFiles)
	allTools     = slices.Concat(toolsToRead, toolsToGuard)
)

// Options say what to set up, and where.
type Options struct {
	Home    string // the user's home directory
	Project string // the folder of the one project that is meant; "" means all of the user's
	State   string // the folder for what files were before
	Getenv  func(string) string

	Command string // the absolute path of acpctl
	Agent   string // the name under which sessions attach; "" means one by the program
	Socket  string // what ACP_SOCKET is to be; "" if acpctl finds the socket by itself
}

// FindOptions returns options for all of this user's files, without a command.
func FindOptions() (o Options, err error) {
	o.Getenv = os.Getenv
	if o.Home, err = os.UserHomeDir(); err != nil {
		return Options{}, fmt.Errorf("find the home directory: %w: set HOME to it", err)
	}
	state := filepath.Join(o.Home, ".local", "state")
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		state = dir
	}
	o.State = filepath.Join(state, "acpctl", "setup")
	return o, nil
}

// ListPrograms returns the names of the programs that can be set up.
func ListPrograms() []string {
	names := make([]string, len(programs))
	for i, p := range programs {
		names[i] = p.name
	}
	return names
}

// program is what is known of one agent program.
type program struct {
	name, title string
	executables []string // in the home directory, where it may be if it is not in PATH
	// listSteps returns the steps of setting up.
	listSteps func(*Options) ([]Step, error)
	// listParts returns the files that can have something of setup's, and how to take it out.
	listParts func(*Options) ([]part, error)
	server    *serverForm
}

var programs = []*program{claude, codex, openCode}

// DescribeRestart says what makes open sessions of a program use what was set up.
func DescribeRestart(s *Status) string {
	if s.Program == codex.name {
		return "In open sessions of " + s.Title + ", /new begins a thread that uses it."
	}
	return "Restart open sessions of " + s.Title + " to use it."
}

func findProgram(name string) (*program, error) {
	for _, p := range programs {
		if p.name == name {
			return p, nil
		}
	}
	return nil, fmt.Errorf("%q: expected %s", name, strings.Join(ListPrograms(), ", "))
}

// command returns the command line of the server.
func (o *Options) command() []string {
	c := []string{o.Command, "mcp", "--attach"}
	if o.Agent != "" {
		c = append(c, "--name", o.Agent)
	}
	return c
}

func (o *Options) check() error {
	for name, path := range map[string]string{"home directory": o.Home, "state folder": o.State, "path of acpctl": o.Command} {
		if !filepath.IsAbs(path) {
			return fmt.Errorf("the %s is %q, which is no absolute path", name, path)
		}
	}
	switch {
	case o.Socket != "" && !filepath.IsAbs(o.Socket):
		return fmt.Errorf("the socket's path %q is not absolute", o.Socket)
	case o.Project != "" && !filepath.IsAbs(o.Project):
		return fmt.Errorf("the project's folder %q is no absolute path", o.Project)
	case o.Project != "" && filepath.Clean(o.Project) == filepath.Clean(o.Home):
		return errors.New("the project's folder is your home directory: leave the project out")
	}
	return nil
}

// folder returns the absolute path that a variable names, else the one below the home directory.
func (o *Options) folder(variable string, usual ...string) (string, error) {
	switch dir := o.Getenv(variable); {
	case dir == "":
		return filepath.Join(append([]string{o.Home}, usual...)...), nil
	case !filepath.IsAbs(dir):
		return "", fmt.Errorf("%s is %q, which is no absolute path: what it names would depend on the folder", variable, dir)
	default:
		return filepath.Clean(dir), nil
	}
}

// ownPlace returns the place of a file of the user's.
func ownPlace(path ...string) place {
	return place{path: filepath.Join(path...), mode: 0o600, dirsMode: 0o700}
}

// projectPlace returns the place of a file in a project's folder.
func projectPlace(project string, path ...string) place {
	return place{path: filepath.Join(append([]string{project}, path...)...), project: project, mode: 0o644, dirsMode: 0o755}
}

// part is a file that can have something of setup's, and how that is taken out.
type part struct {
	place  place
	change func(text []byte) ([]byte, error)
	// isEmpty reports whether nothing is left in a file that setup made.
	isEmpty func(text []byte) bool
	// shared is set if another program reads the file too: then undoing changes it only if this
	// program was set up in it.
	shared bool
	// hasServer is set if the file can have the server.
	hasServer bool
}

// edit changes one file.
type edit struct {
	place  place
	change func(text []byte) ([]byte, error)
}

// Step is one thing to set up, which a person accepts or does not.
type Step struct {
	Name      string
	Question  string
	Note      string // what to know about it; or why there is nothing to write
	IsDefault bool   // a yes to all includes it
	edits     []edit
}

// skippedError says why a step does nothing, which is not a failure.
type skippedError struct{ error }

// The names of steps.
const (
	StepServer       = "server"
	stepTools        = "tools"
	StepSending      = "sending"
	StepFiles        = "files"
	StepInstructions = "instructions"
)

// newConfigSteps returns the steps that write the server into one file, and into another, or the
// same, that the program uses tools without asking.
func newConfigSteps(p *program, o *Options, servers place, setServer func(document) error, rules place, allowTools func(document, []string) error) []Step {
	agent := o.Agent
	if agent == "" {
		agent = p.name
	}
	allow := func(tools []string) []edit {
		return []edit{{rules, p.server.open.edit(func(d document) error { return allowTools(d, tools) })}}
	}
	return []Step{{
		Name: StepServer, IsDefault: true,
		Question: fmt.Sprintf("May %s start `%s` as its MCP server acp? Each session is then an agent, %s or %s-2 and so on, for which peers can leave messages.",
			p.title, strings.Join(o.command(), " "), agent, agent),
		edits: []edit{{servers, p.server.open.edit(setServer)}},
	}, {
		Name: stepTools, IsDefault: true, edits: allow(toolsToRead),
		Question: fmt.Sprintf("May %s use %s without asking you? They show what came in, and answer it.", p.title, joinWords(toolsToRead)),
	}, {
		Name: StepSending, edits: allow(toolsToSend),
		Question: fmt.Sprintf("May %s use %s without asking you? With these the model can send what it has read to any of your peers, unasked.", p.title, joinWords(toolsToSend)),
	}, {
		Name: StepFiles, edits: allow(toolsOfFiles),
		Question: fmt.Sprintf("May %s use acp_file without asking you? With it the model can send files of the session's folder to any of your peers, unasked, with your rights, whatever its own permissions say; and it writes files that come below .acp there.", p.title),
	}}
}

// newInstructionsStep returns the step that writes the snippet into a file.
func newInstructionsStep(p *program, at place) Step {
	return Step{
		Name: StepInstructions, IsDefault: true,
		Question: fmt.Sprintf("May the instructions of %s in %s say what the tools are for?", p.title, at.path),
		edits:    []edit{{at, setSnippet}},
	}
}

// newSnippetPart returns the part of a file of instructions.
func newSnippetPart(at place, shared bool) part {
	return part{
		place: at, shared: shared,
		change:  removeSnippet,
		isEmpty: func(text []byte) bool { return len(bytes.TrimSpace(text)) == 0 },
	}
}

// joinWords returns a list as a sentence has it.
func joinWords(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " and " + words[last]
}

// exists reports whether there is a file at a place. After an error it returns true: reading
// the file returns the error.
func exists(p place) bool {
	f, err := readFile(p)
	return err != nil || f.exists
}

// firstExisting returns the first of these places that has a file.
func firstExisting(places ...place) (place, bool) {
	i := slices.IndexFunc(places, exists)
	if i < 0 {
		return place{}, false
	}
	return places[i], true
}

// at returns err with the path of the file that it is about, once.
func at(path string, err error) error {
	if err == nil || strings.Contains(err.Error(), path) {
		return err
	}
	return fmt.Errorf("%s: %w", path, err)
}
