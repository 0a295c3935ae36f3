package mailbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strings"

	"github.com/acpd/acpd/oacp/message"
)

// Home is the root of a tree of mailboxes.
type Home string

// Project is a project of a home. That it is there is not promised.
type Project struct {
	Home Home
	Name string
}

// Agent is an agent of a project. That it is there is not promised.
type Agent struct {
	Project Project
	Name    string
}

// NotFoundError says that a project, an agent or its inbox is not there.
type NotFoundError struct {
	What string // for example: agent 'planner' not found in project 'demo'
	Path string // where it would be
}

func (e *NotFoundError) Error() string { return e.What }

// FindHome returns the home that tools of OACP use here: dir if it is not empty,
// else $OACP_HOME, else that which a marker leads to (.oacp or workspace.json in
// the working directory or above, resolving into projects/NAME/ of a home), else
// ~/oacp. That it is there is not promised.
func FindHome(dir string) (Home, error) {
	if dir == "" {
		dir = os.Getenv("OACP_HOME")
	}
	if dir != "" {
		dir, err := expand(dir)
		return Home(filepath.Clean(dir)), err
	}
	if wd, err := os.Getwd(); err == nil {
		for ; ; wd = filepath.Dir(wd) {
			for _, marker := range []string{".oacp", "workspace.json"} {
				if h := homeOf(filepath.Join(wd, marker)); h != "" {
					return h, nil
				}
			}
			if wd == filepath.Dir(wd) {
				break
			}
		}
	}
	dir, err := expand("~/oacp")
	return Home(dir), err
}

// homeOf returns the home that a marker leads to, "" if it is none.
func homeOf(marker string) Home {
	path, err := filepath.EvalSymlinks(marker)
	if err != nil {
		return ""
	}
	projects := filepath.Dir(filepath.Dir(path))
	if filepath.Base(path) != "workspace.json" || filepath.Base(projects) != "projects" {
		return ""
	}
	return Home(filepath.Dir(projects))
}

// expand replaces ~ or ~NAME at the beginning of a path.
func expand(path string) (string, error) {
	name, rest, _ := strings.Cut(path, "/")
	if !strings.HasPrefix(name, "~") {
		return path, nil
	}
	dir, err := os.UserHomeDir()
	if name != "~" {
		var u *user.User
		if u, err = user.Lookup(name[1:]); err == nil {
			dir = u.HomeDir
		}
	}
	if err != nil {
		return "", fmt.Errorf("home of %s: %w: name a directory without ~", name, err)
	}
	return filepath.Join(dir, rest), nil
}

func (h Home) projects() string { return filepath.Join(string(h), "projects") }

// Projects returns the names of the projects, sorted.
func (h Home) Projects() ([]string, error) { return folders(h.projects()) }

// Project returns a project that is there, else a [*NotFoundError].
func (h Home) Project(name string) (Project, error) {
	p := Project{h, name}
	if err := checkProject(name); err != nil {
		return p, err
	}
	// A project may be a link: its name was given by the one who runs us.
	if info, err := os.Stat(p.Dir()); err != nil || !info.IsDir() {
		return p, &NotFoundError{fmt.Sprintf("project '%s' not found under %s", name, h.projects()), p.Dir()}
	}
	return p, nil
}

// checkProject refuses what would lead out of projects/, and what no tool lists.
func checkProject(name string) error {
	if name == "" || strings.HasPrefix(name, ".") || strings.ContainsAny(name, "/\\\x00\r\n") {
		return errors.New("project name must not contain path separators or start with '.'")
	}
	return nil
}

// Dir is the project's folder.
func (p Project) Dir() string { return filepath.Join(p.Home.projects(), p.Name) }

func (p Project) agents() string { return filepath.Join(p.Dir(), "agents") }

// Agents returns the names of the agents, sorted.
func (p Project) Agents() ([]string, error) {
	names, err := folders(p.agents())
	if errors.Is(err, fs.ErrNotExist) {
		err = &NotFoundError{fmt.Sprintf("project '%s' has no agents directory", p.Name), p.agents()}
	}
	return names, err
}

// Agent returns an agent that is there, else a [*NotFoundError].
func (p Project) Agent(name string) (Agent, error) {
	a := Agent{p, name}
	if !message.LegalAgent(name) || !isFolder(a.Dir()) {
		return a, &NotFoundError{fmt.Sprintf("agent '%s' not found in project '%s'", name, p.Name), filepath.Join(p.agents(), filepath.Base(name))}
	}
	return a, nil
}

// Dir is the agent's folder.
func (a Agent) Dir() string { return filepath.Join(a.Project.agents(), a.Name) }

// Inbox is where messages to the agent lie.
func (a Agent) Inbox() string { return filepath.Join(a.Dir(), "inbox") }

// Archive is where the agent's inbox puts what was done.
func (a Agent) Archive() string { return filepath.Join(a.Inbox(), "archive") }

// Outbox is where the agent keeps copies of what it sent.
func (a Agent) Outbox() string { return filepath.Join(a.Dir(), "outbox") }

// folders returns the names of the folders in dir, without links to folders and
// hidden ones.
func folders(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() && !strings.HasPrefix(e.Name(), ".") {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// isFolder reports whether path is a folder itself, not a link to one.
func isFolder(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.IsDir()
}
