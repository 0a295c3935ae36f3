package mailbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/acpd/acpd/internal/shellpath"
	"github.com/acpd/acpd/oacp/message"
)

// Home is the root of a tree of mailboxes.
type Home string

// Project is a project of a home. Its folder may not exist.
type Project struct {
	Home Home
	Name string
}

// Agent is an agent of a project. Its folder may not exist.
type Agent struct {
	Project Project
	Name    string
}

// NotFoundError is the error for a project, agent or inbox that does not exist.
type NotFoundError struct {
	What string // for example: agent 'planner' not found in project 'demo'
	Path string // where it would be
}

func (e *NotFoundError) Error() string { return e.What }

// FindHome returns the home that tools of OACP use here, which may not exist: dir if it is not
// empty, else $OACP_HOME, else the home to which a marker leads, else ~/oacp. A marker is .oacp
// or workspace.json in the working directory or above it, and a link into projects/NAME/ of a
// home.
func FindHome(dir string) (Home, error) {
	if dir == "" {
		dir = os.Getenv("OACP_HOME")
	}
	if dir != "" {
		dir, err := shellpath.ExpandTilde(dir)
		return Home(filepath.Clean(dir)), err
	}
	if wd, err := os.Getwd(); err == nil {
		for ; ; wd = filepath.Dir(wd) {
			for _, marker := range []string{".oacp", "workspace.json"} {
				if h := findMarkedHome(filepath.Join(wd, marker)); h != "" {
					return h, nil
				}
			}
			if wd == filepath.Dir(wd) {
				break
			}
		}
	}
	dir, err := shellpath.ExpandTilde("~/oacp")
	return Home(dir), err
}

// findMarkedHome returns the home to which a marker leads, or "" if the file is no marker.
func findMarkedHome(marker string) Home {
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

func (h Home) projectsDir() string { return filepath.Join(string(h), "projects") }

// ListProjects returns the names of the projects, sorted.
func (h Home) ListProjects() ([]string, error) { return listFolderNames(h.projectsDir()) }

// FindProject returns a project, or a [*NotFoundError] if it does not exist.
func (h Home) FindProject(name string) (Project, error) {
	p := Project{h, name}
	if err := checkProjectName(name); err != nil {
		return p, err
	}
	// A project may be a link, because the user has typed its name.
	if info, err := os.Stat(p.Dir()); err != nil || !info.IsDir() {
		return p, &NotFoundError{fmt.Sprintf("project '%s' not found under %s", name, h.projectsDir()), p.Dir()}
	}
	return p, nil
}

// checkProjectName refuses names that would lead out of projects/, and names that no tool lists.
func checkProjectName(name string) error {
	if name == "" || strings.HasPrefix(name, ".") || strings.ContainsAny(name, "/\\\x00\r\n") {
		return errors.New("project name must not contain path separators or start with '.'")
	}
	return nil
}

// Dir returns the path of the project's folder.
func (p Project) Dir() string { return filepath.Join(p.Home.projectsDir(), p.Name) }

func (p Project) agentsDir() string { return filepath.Join(p.Dir(), "agents") }

// ListAgents returns the names of the agents, sorted.
func (p Project) ListAgents() ([]string, error) {
	names, err := listFolderNames(p.agentsDir())
	if errors.Is(err, fs.ErrNotExist) {
		err = &NotFoundError{fmt.Sprintf("project '%s' has no agents directory", p.Name), p.agentsDir()}
	}
	return names, err
}

// FindAgent returns an agent, or a [*NotFoundError] if it does not exist.
func (p Project) FindAgent(name string) (Agent, error) {
	a := Agent{p, name}
	if !message.IsLegalAgentName(name) || !isFolder(a.Dir()) {
		return a, &NotFoundError{fmt.Sprintf("agent '%s' not found in project '%s'", name, p.Name), filepath.Join(p.agentsDir(), filepath.Base(name))}
	}
	return a, nil
}

// Dir returns the path of the agent's folder.
func (a Agent) Dir() string { return filepath.Join(a.Project.agentsDir(), a.Name) }

// Inbox returns the path of the folder of messages to the agent.
func (a Agent) Inbox() string { return filepath.Join(a.Dir(), "inbox") }

// Archive returns the path of the folder of messages that the agent has finished.
func (a Agent) Archive() string { return filepath.Join(a.Inbox(), "archive") }

// Outbox returns the path of the folder of copies of sent messages.
func (a Agent) Outbox() string { return filepath.Join(a.Dir(), "outbox") }

// listFolderNames returns the sorted names of the folders in dir, without hidden ones and links.
func listFolderNames(dir string) ([]string, error) {
	return listEntryNames(dir, func(e fs.DirEntry) bool { return e.IsDir() && !strings.HasPrefix(e.Name(), ".") })
}

// listEntryNames returns the names of the entries of dir for which keep is true, sorted.
func listEntryNames(dir string, keep func(fs.DirEntry) bool) (names []string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if keep(e) {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// isFolder reports whether path is a folder, and not a link to one.
func isFolder(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.IsDir()
}
