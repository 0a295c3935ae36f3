package mailbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/internal/durable"
	"github.com/acpd/acpd/oacp/message"
)

// specVersion is the release of OACP whose tree and rules these are.
const specVersion = "0.4.0"

// folders and files of a project, beside its agents; kept by .gitkeep where nothing
// else is sure to lie in them.
var (
	keptFolders = []string{
		"packets/review", "packets/findings", "packets/test", "packets/deploy",
		"checkpoints", "merges", "artifacts",
	}
	bareFolders  = []string{"memory", "memory/archive", "state", "logs"}
	agentFolders = []string{"inbox", "outbox", "dead_letter", "audit/autonomy_decisions"}
)

// receiverConfig is what the reference takes for granted where no file says more.
const receiverConfig = `# How far this agent may act on a message without asking its user.
autonomy:
  default_mode: always_pause
`

func memoryFiles(now time.Time) map[string]string {
	return map[string]string{
		"project_facts.md": "# Project Facts\n\n## Agent Roles\n\n- None yet.\n",
		"decision_log.md":  "# Decision Log\n\n## " + now.Format(time.DateOnly) + "\n- Project workspace initialized.\n",
		"open_threads.md":  "# Open Threads\n\n- None yet.\n",
		"known_debt.md":    "# Known Debt\n\n| Item | Severity | Date Found | Source | Status |\n| --- | --- | --- | --- | --- |\n",
	}
}

// illegalAgent is the name that no agent can have, told as the reference tells it.
type illegalAgent string

func (name illegalAgent) Error() string {
	return fmt.Sprintf("Invalid agent name '%s': must start with alphanumeric, contain only [A-Za-z0-9._-], and be 1-64 chars", string(name))
}

// Link is a link to make: artifacts/Name to Source in the repository.
type Link struct{ Source, Name string }

// Workspace says what Init makes.
type Workspace struct {
	Agents []string
	Repo   string // absolute path of a repository to note, or empty
	Links  []Link // needs Repo
}

// workspaceFile is workspace.json.
type workspaceFile struct {
	ProjectName string  `json:"project_name"`
	RepoPath    *string `json:"repo_path"`
	CreatedAt   string  `json:"created_at"`
	UpdatedAt   string  `json:"updated_at"`
	SpecVersion string  `json:"spec_version"`
}

// Init makes a project with the tree that the reference tool makes; files that are
// there stay; workspace.json notes the time, and the repository if one is named. It returns the links that it made
// and those whose source is not there.
func (h Home) Init(name string, w Workspace) (p Project, made, skipped []Link, err error) {
	p = Project{h, name}
	if err := checkProject(name); err != nil {
		return p, nil, nil, err
	}
	for _, agent := range w.Agents {
		if !message.LegalAgent(agent) {
			return p, nil, nil, illegalAgent(agent)
		}
	}
	if len(w.Links) > 0 && w.Repo == "" {
		return p, nil, nil, errors.New("--link requires --repo")
	}
	for _, l := range w.Links {
		if !filepath.IsLocal(l.Name) {
			return p, nil, nil, fmt.Errorf("--link: %s is not inside artifacts/", l.Name)
		}
	}
	if err := p.tree(w.Agents); err != nil {
		return p, nil, nil, fmt.Errorf("init: %w", err)
	}
	now := time.Now()
	for file, text := range memoryFiles(now) {
		if err := create(filepath.Join(p.Dir(), "memory", file), text); err != nil {
			return p, nil, nil, fmt.Errorf("init: %w", err)
		}
	}
	stamp := now.UTC().Format("2006-01-02T15:04:05.000000+00:00")
	path := filepath.Join(p.Dir(), "workspace.json")
	file := workspaceFile{CreatedAt: stamp}
	if old, err := ReadNamed(path); err == nil && json.Unmarshal(old, &file) != nil {
		file = workspaceFile{CreatedAt: stamp} // what cannot be read is written anew
	}
	file.ProjectName, file.UpdatedAt, file.SpecVersion = name, stamp, specVersion
	if w.Repo != "" {
		file.RepoPath = &w.Repo
	}
	b, err := JSON(file, true)
	if err == nil {
		err = replace(path, append(b, '\n'))
	}
	if err != nil {
		return p, nil, nil, fmt.Errorf("init: %w", err)
	}
	for _, l := range w.Links {
		source := filepath.Join(w.Repo, l.Source)
		if _, err := os.Stat(source); err != nil {
			skipped = append(skipped, Link{source, l.Name})
			continue
		}
		if err := link(source, filepath.Join(p.Dir(), "artifacts", l.Name)); err != nil {
			return p, made, skipped, fmt.Errorf("init: %w", err)
		}
		made = append(made, Link{source, l.Name})
	}
	return p, made, skipped, nil
}

func (p Project) tree(agents []string) error {
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
	for _, dir := range kept {
		if err := create(filepath.Join(p.Dir(), dir, ".gitkeep"), ""); err != nil {
			return err
		}
	}
	for _, agent := range agents {
		if err := create(filepath.Join(p.Dir(), "agents", agent, "config.yaml"), receiverConfig); err != nil {
			return err
		}
	}
	return nil
}

// create writes a file that is not there yet, which readers see whole or not at all.
func create(path, text string) error {
	removeStaged(path)
	if _, err := os.Lstat(path); err == nil {
		return nil
	}
	err := putWhole(path, []byte(text), durable.RenameNew)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// replace writes a file of the tool's own, which readers see whole: the old or the new.
func replace(path string, data []byte) error {
	removeStaged(path)
	return putWhole(path, data, os.Rename)
}

// putWhole writes a file by a temporary one, which rename brings to its place. Where another
// process has removed that as one that was left behind, it writes the next.
func putWhole(path string, data []byte, rename func(from, to string) error) error {
	for n := 1; ; n++ {
		temp, err := stage(filepath.Dir(path), stagedName(path), data)
		if err != nil {
			return err
		}
		if err = rename(temp, path); err == nil {
			return nil
		}
		os.Remove(temp)
		if !errors.Is(err, fs.ErrNotExist) || n == maxStaged {
			return err
		}
	}
}

// maxStaged is how often a file is written that others remove.
const maxStaged = 100

// stagedName is what the temporary files of a file are called after.
func stagedName(path string) string { return strings.TrimPrefix(filepath.Base(path), ".") }

// removeStaged removes the temporary files of a file, which processes that were killed have
// left behind, as well as it can. One that is at work writes another.
func removeStaged(path string) {
	left, _ := filepath.Glob(filepath.Join(quoteGlob(filepath.Dir(path)), quoteGlob("."+stagedName(path)+tempMark)+"????????"))
	for _, temp := range left {
		os.Remove(temp)
	}
}

// quoteGlob makes a pattern that matches one name alone.
var quoteGlob = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace

// link makes a link at path, in the place of a link or a file but not of a folder.
func link(source, path string) error {
	if err := os.MkdirAll(filepath.Dir(path), folderMode); err != nil {
		return err
	}
	if info, err := os.Lstat(path); err == nil {
		if info.IsDir() {
			return fmt.Errorf("artifact destination exists and is not a symlink: %s", path)
		}
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	return os.Symlink(source, path)
}
