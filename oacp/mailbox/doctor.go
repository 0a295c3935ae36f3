package mailbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/oacp/message"
)

// Severity is the rank of a finding of the doctor.
type Severity string

// Severities, from good to bad.
const (
	Fine Severity = "ok"
	Note Severity = "skip"
	Warn Severity = "warn"
	Bad  Severity = "error"
)

// Finding holds one line of the doctor's report.
type Finding struct {
	Name     string   `json:"name"`
	Severity Severity `json:"severity"`
	Message  string   `json:"message"`
	Hint     string   `json:"fix_hint,omitempty"` // what to do

	fix func() (done string, err error) // nil if no fix is safe
}

// withResult returns the finding with a severity, a hint, and a text behind its name.
func (f Finding) withResult(severity Severity, text, hint string) Finding {
	f.Severity, f.Message, f.Hint = severity, f.Name+" — "+text, hint
	return f
}

// Category is a group of findings.
type Category struct {
	Name    string    `json:"name"`
	Worst   Severity  `json:"worst_severity"`
	Results []Finding `json:"results"`
}

// Report holds the findings of the doctor. [FormatJSON] writes it as the reference does.
type Report struct {
	HasErrors  bool       `json:"has_errors"`
	Fixed      []string   `json:"fixed"`
	Categories []Category `json:"categories"`
}

// Diagnose looks at a home and, if project is not empty, at a project: its files, their
// access by other users, the age of its messages, files among them that are none, and the
// status of its agents. With fix it applies the fixes that are safe.
func (h Home) Diagnose(project string, fix bool) Report {
	r := Report{Fixed: []string{}}
	r.addCategory("Home", h.checkProjects())
	if project != "" {
		p, err := h.FindProject(project)
		if err != nil {
			r.addCategory("Workspace", []Finding{{
				Name: "project-dir", Severity: Bad, Message: "Project directory not found: " + p.Dir(),
				Hint: "Run: acpctl oacp init " + project,
			}})
		} else {
			r.addCategory("Workspace", p.checkWorkspace())
			r.addCategory("Access", p.checkAccess())
			r.addCategory("Inbox Health", p.checkEachAgent(Agent.checkInbox))
			r.addCategory("Messages", p.checkEachAgent(Agent.checkMessages))
			r.addCategory("Schemas", p.checkEachAgent(Agent.checkStatusFields))
			r.addCategory("Agent Status", p.checkEachAgent(Agent.checkStatusAge))
		}
	}
	if fix {
		r.applyFixes()
	}
	for i := range r.Categories {
		c := &r.Categories[i]
		c.Worst = Fine
		for _, s := range []Severity{Note, Warn, Bad} {
			if slices.ContainsFunc(c.Results, func(f Finding) bool { return f.Severity == s }) {
				c.Worst = s
			}
		}
		r.HasErrors = r.HasErrors || c.Worst == Bad
	}
	return r
}

func (r *Report) addCategory(name string, findings []Finding) {
	r.Categories = append(r.Categories, Category{Name: name, Results: append([]Finding{}, findings...)})
}

// applyFixes applies the fixes of the findings. If one fails, its finding stays.
func (r *Report) applyFixes() {
	for _, c := range r.Categories {
		for i := range c.Results {
			f := &c.Results[i]
			if f.fix == nil {
				continue
			}
			done, err := f.fix()
			if err != nil {
				f.Hint = "Could not be fixed: " + err.Error()
				continue
			}
			f.Severity, f.Message, f.Hint = Fine, done, ""
			r.Fixed = append(r.Fixed, done)
		}
	}
}

func (h Home) checkProjects() []Finding {
	projects, err := h.ListProjects()
	if err != nil {
		return []Finding{{
			Name: "home", Severity: Warn, Message: fmt.Sprintf("%s — no projects here: %v", h, err),
			Hint: "Run: acpctl oacp init PROJECT, or name another home with --oacp-dir or OACP_HOME",
		}}
	}
	return []Finding{{Name: "home", Severity: Fine, Message: fmt.Sprintf("%s — %d project(s)", h, len(projects))}}
}

func (p Project) checkWorkspace() []Finding {
	hint := "Run: acpctl oacp init " + p.Name
	file := Finding{Name: "workspace.json"}.withResult(Fine, "valid", "")
	b, err := ReadFileOrLink(filepath.Join(p.Dir(), "workspace.json"))
	var object map[string]jsontext.Value
	if err != nil {
		file = file.withResult(Bad, "not found", hint)
	} else if err := json.Unmarshal(b, &object); err != nil {
		file = file.withResult(Bad, fmt.Sprintf("invalid: %v", err), "Fix JSON syntax in workspace.json")
	}
	names, err := p.ListAgents()
	if err != nil {
		return []Finding{file, {Name: "agents/", Severity: Bad, Message: "agents/ directory — not found", Hint: hint}}
	}
	findings := []Finding{file, {Name: "agents/", Severity: Fine, Message: fmt.Sprintf("agents/ directory — %d agent(s)", len(names))}}
	for _, name := range names {
		if slices.Contains([]string{"claude", "codex", "cursor"}, name) {
			findings = append(findings, Finding{Name: name}.withResult(Note, "a name that every project has by default",
				"For mail between machines, give each agent a name that no other machine has"))
		}
	}
	return findings
}

// checkEachAgent returns the findings of a check of every agent.
func (p Project) checkEachAgent(check func(Agent) []Finding) (all []Finding) {
	names, _ := p.ListAgents() // checkWorkspace reports the error
	for _, name := range names {
		all = append(all, check(Agent{p, name})...)
	}
	return all
}

// staleInbox is the time that a message may wait before the doctor warns.
const staleInbox = 24 * time.Hour

func (a Agent) checkInbox() []Finding {
	f := Finding{Name: a.Name + "/inbox"}
	if !isFolder(a.Inbox()) {
		f.fix = func() (string, error) { return "Created " + a.Name + "/inbox/", makeFolder(a.Inbox()) }
		return []Finding{f.withResult(Warn, "directory missing", "mkdir -p "+a.Inbox())}
	}
	names, err := listMessageFiles(a.Inbox())
	if err != nil {
		return []Finding{f.withResult(Bad, err.Error(), "")}
	}
	var oldest time.Duration
	count := 0
	for _, name := range names {
		if info, err := os.Lstat(filepath.Join(a.Inbox(), name)); err == nil {
			count++
			oldest = max(oldest, time.Since(info.ModTime()))
		}
	}
	switch {
	case count == 0:
		f = f.withResult(Fine, "empty", "")
	case oldest > staleInbox:
		f = f.withResult(Warn, fmt.Sprintf("%d message(s), oldest %dh stale", count, int(oldest.Hours())), "Process or archive stale inbox messages")
	default:
		f = f.withResult(Fine, fmt.Sprintf("%d message(s)", count), "")
	}
	return []Finding{f}
}

// maxFindings bounds the findings of an agent's messages that are listed.
const maxFindings = 20

// checkMessages finds files in the mailbox that are no sound messages to or from the agent.
// Neither doctor nor carrier changes them.
func (a Agent) checkMessages() []Finding {
	var findings []Finding
	for _, box := range []string{"inbox", "outbox"} {
		files, err := os.ReadDir(filepath.Join(a.Dir(), box))
		if err != nil {
			continue // checkInbox reports it
		}
		for _, file := range files {
			if f := a.checkMailboxFile(box, file); f.Message != "" {
				findings = append(findings, f)
			}
		}
	}
	if len(findings) == 0 {
		return []Finding{{Name: a.Name + "/messages", Severity: Fine, Message: a.Name + " — nothing out of order"}}
	}
	if rest := len(findings) - maxFindings; rest > 0 {
		findings = append(findings[:maxFindings], Finding{Name: a.Name + "/messages", Severity: Warn, Message: fmt.Sprintf("%s — %d more", a.Name, rest)})
	}
	return findings
}

// abandonedAge is the age at which nobody writes a temporary file any more.
const abandonedAge = time.Hour

// checkMailboxFile returns the fault of a file of a mailbox, a finding without a message if it has
// none.
func (a Agent) checkMailboxFile(box string, file os.DirEntry) Finding {
	name := file.Name()
	path := filepath.Join(a.Dir(), box, name)
	f := Finding{Name: filepath.Join(a.Name, box, name)}
	wrong := func(what, hint string) Finding { return f.withResult(Warn, what, hint) }
	if strings.HasPrefix(name, ".") && strings.Contains(name, ".yaml.tmp-") {
		if info, err := file.Info(); err != nil || time.Since(info.ModTime()) < abandonedAge {
			return f
		}
		f.fix = func() (string, error) { return "Removed " + f.Name, os.Remove(path) }
		return wrong("left behind by a tool that was killed", "Remove it, or run doctor with --fix")
	}
	switch {
	case !strings.HasSuffix(name, ".yaml") || box == "outbox" && !isMessageName(name):
		return f // no message, and no tool takes it for one
	case !isMessageName(name):
		return wrong("hidden: not read as a message here, but listed by the tool oacp", "Rename or remove it")
	case !file.Type().IsRegular():
		return wrong("not a regular file: it is not read", "Replace it with a copy of the file, or remove it")
	}
	e := readMessageEntry(path)
	if e.Err != nil {
		if errors.Is(e.Err, os.ErrNotExist) {
			return f
		}
		return wrong(e.Err.Error(), "Correct it, or move it to dead_letter/")
	}
	m := e.Message
	switch {
	case box == "inbox" && len(m.To) > 0 && !slices.Contains(m.To, a.Name):
		return wrong(fmt.Sprintf("is to %s, but is stored in the inbox of %s", strings.Join(m.To, ", "), a.Name), "Move it to the right inbox, or take it as it is")
	case box == "outbox" && m.From != a.Name:
		return wrong(fmt.Sprintf("is from %s, but is stored in the outbox of %s", m.From, a.Name), "Move it to the right outbox")
	}
	d, _ := message.ParseDocument(e.Data) // readMessageEntry has seen no error
	if lines := d.Validate(); len(lines) > 0 {
		return wrong(strings.Join(lines, "; "), "Ask its sender for a valid one: acpctl oacp validate")
	}
	if !message.IsLegalFileName(e.Name) {
		return wrong("its name is not legal on every machine", "Name it in letters, digits, dots, underscores and hyphens")
	}
	return f
}
