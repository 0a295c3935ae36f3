package mailbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/oacp/message"
)

// specVersion is the release of OACP whose tree and rules these are.
const specVersion = "0.4.0"

// The folders of a project. Those that may be empty get a .gitkeep.
var (
	keptFolders = []string{
		"packets/review", "packets/findings", "packets/test", "packets/deploy",
		"checkpoints", "merges", "artifacts",
	}
	bareFolders  = []string{"memory", "memory/archive", "state", "logs"}
	agentFolders = []string{"inbox", "outbox", "dead_letter", "audit/autonomy_decisions"}
)

// receiverConfig is an agent's config.yaml: the settings that the reference has by default.
const receiverConfig = `# How far this agent may act on a message without asking its user.
autonomy:
  default_mode: always_pause
`

func newMemoryFiles(now time.Time) map[string]string {
	return map[string]string{
		"memory/project_facts.md": "# Project Facts\n\n## Agent Roles\n\n- None yet.\n",
		"memory/decision_log.md":  "# Decision Log\n\n## " + now.Format(time.DateOnly) + "\n- Project workspace initialized.\n",
		"memory/open_threads.md":  "# Open Threads\n\n- None yet.\n",
		"memory/known_debt.md":    "# Known Debt\n\n| Item | Severity | Date Found | Source | Status |\n| --- | --- | --- | --- | --- |\n",
	}
}

// Link is a link to make, from artifacts/Name to Source in the repository.
type Link struct{ Source, Name string }

// Workspace holds the parts of a project that InitProject makes.
type Workspace struct {
	Agents []string
	Repo   string // absolute path of a repository to note; may be empty
	Links  []Link // needs Repo
}

// workspaceFile is the content of workspace.json.
type workspaceFile struct {
	ProjectName string  `json:"project_name"`
	RepoPath    *string `json:"repo_path"`
	CreatedAt   string  `json:"created_at"`
	UpdatedAt   string  `json:"updated_at"`
	SpecVersion string  `json:"spec_version"`
}

// InitProject makes a project with the folders and files that the reference tool makes. It keeps
// existing files, but notes the time and the repository in workspace.json. It returns the links
// that it made, and those whose source does not exist.
func (h Home) InitProject(name string, w Workspace) (p Project, made, skipped []Link, err error) {
	p = Project{h, name}
	if err := checkProjectName(name); err != nil {
		return p, nil, nil, err
	}
	for _, agent := range w.Agents {
		if !message.IsLegalAgentName(agent) {
			return p, nil, nil, fmt.Errorf("agent '%s': begin with a letter or digit, and use up to 64 letters, digits, dots, underscores and hyphens", agent)
		}
	}
	if len(w.Links) > 0 && w.Repo == "" {
		return p, nil, nil, errors.New("--link: name the repository too, with --repo")
	}
	for _, l := range w.Links {
		if !filepath.IsLocal(l.Name) {
			return p, nil, nil, fmt.Errorf("--link: %s is not inside artifacts/", l.Name)
		}
	}
	now := time.Now()
	if err = p.makeFolderTree(w.Agents, now); err == nil {
		err = p.writeWorkspaceFile(w.Repo, now)
	}
	if err == nil {
		made, skipped, err = p.makeArtifactLinks(w)
	}
	if err != nil {
		err = fmt.Errorf("init: %w", err)
	}
	return p, made, skipped, err
}

func (p Project) writeWorkspaceFile(repo string, now time.Time) error {
	stamp := now.UTC().Format("2006-01-02T15:04:05.000000+00:00")
	path := filepath.Join(p.Dir(), "workspace.json")
	file := workspaceFile{CreatedAt: stamp}
	if old, err := ReadFileOrLink(path); err == nil && json.Unmarshal(old, &file) != nil {
		file = workspaceFile{CreatedAt: stamp} // an unreadable file is replaced
	}
	file.ProjectName, file.UpdatedAt, file.SpecVersion = p.Name, stamp, specVersion
	if repo != "" {
		file.RepoPath = &repo
	}
	b, err := FormatJSON(file, true)
	if err != nil {
		return err
	}
	return writeFile(path, append(b, '\n'), os.Rename)
}

func (p Project) makeArtifactLinks(w Workspace) (made, skipped []Link, err error) {
	for _, l := range w.Links {
		source := filepath.Join(w.Repo, l.Source)
		if _, err := os.Stat(source); err != nil {
			skipped = append(skipped, Link{source, l.Name})
			continue
		}
		if err := makeSymlink(source, filepath.Join(p.Dir(), "artifacts", l.Name)); err != nil {
			return made, skipped, err
		}
		made = append(made, Link{source, l.Name})
	}
	return made, skipped, nil
}

func (p Project) makeFolderTree(agents []string, now time.Time) error {
	kept := keptFolders
	for _, agent := range agents {
		for _, sub := range agentFolders {
			kept = append(kept[:len(kept):len(kept)], filepath.Join("agents", agent, sub))
		}
	}
	for _, dir := range append(kept[:len(kept):len(kept)], bareFolders...) {
		if err := os.MkdirAll(filepath.Join(p.Dir(), dir), folderMode); err != nil {
			return err
		}
	}
	files := newMemoryFiles(now)
	for _, dir := range kept {
		files[filepath.Join(dir, ".gitkeep")] = ""
	}
	for _, agent := range agents {
		files[filepath.Join("agents", agent, "config.yaml")] = receiverConfig
	}
	for file, text := range files {
		if err := createMissingFile(filepath.Join(p.Dir(), file), text); err != nil {
			return err
		}
	}
	return nil
}

// makeSymlink makes a link at path. It replaces a link or a file, but not a folder.
func makeSymlink(source, path string) error {
	if err := os.MkdirAll(filepath.Dir(path), folderMode); err != nil {
		return err
	}
	if info, err := os.Lstat(path); err == nil {
		if info.IsDir() {
			return fmt.Errorf("%s is a folder, and a link is to be made there: move it away", path)
		}
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	return os.Symlink(source, path)
}
