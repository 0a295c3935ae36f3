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

// Severity is how bad a finding of the doctor is.
type Severity string

// Severities, from good to bad.
const (
	Fine Severity = "ok"
	Note Severity = "skip"
	Warn Severity = "warn"
	Bad  Severity = "error"
)

// Finding is one line of the doctor's report.
type Finding struct {
	Name     string   `json:"name"`
	Severity Severity `json:"severity"`
	Message  string   `json:"message"`
	Hint     string   `json:"fix_hint,omitempty"` // what to do

	fix func() (done string, err error) // mends it, if that is safe
}

// Category is a group of findings.
type Category struct {
	Name    string    `json:"name"`
	Worst   Severity  `json:"worst_severity"`
	Results []Finding `json:"results"`
}

// Report is what the doctor found; [JSON] writes it as the reference does.
type Report struct {
	HasErrors  bool       `json:"has_errors"`
	Fixed      []string   `json:"fixed"`
	Categories []Category `json:"categories"`
}

// Examine looks at a home and, if project is not empty, at a project: its files, who
// can get at them, how long messages have been waiting, what lies among them that is none, and the
// status of its agents. With fix it mends what is safe to mend.
func (h Home) Examine(project string, fix bool) Report {
	r := Report{Fixed: []string{}}
	r.add("Home", h.examine())
	if project != "" {
		p, err := h.Project(project)
		if err != nil {
			r.add("Workspace", []Finding{{
				Name: "project-dir", Severity: Bad, Message: "Project directory not found: " + p.Dir(),
				Hint: "Run: acpctl oacp init " + project,
			}})
		} else {
			r.add("Workspace", p.workspace())
			r.add("Access", p.access())
			r.add("Inbox Health", p.each(Agent.health))
			r.add("Messages", p.each(Agent.messages))
			r.add("Schemas", p.each(Agent.schema))
			r.add("Agent Status", p.each(Agent.status))
		}
	}
	if fix {
		r.mend()
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

func (r *Report) add(name string, findings []Finding) {
	r.Categories = append(r.Categories, Category{Name: name, Results: append([]Finding{}, findings...)})
}

// mend applies what fixes there are; one that fails stays a finding.
func (r *Report) mend() {
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

func (h Home) examine() []Finding {
	projects, err := h.Projects()
	if err != nil {
		return []Finding{{
			Name: "home", Severity: Warn, Message: fmt.Sprintf("%s — no projects here: %v", h, err),
			Hint: "Run: acpctl oacp init PROJECT, or name another home with --oacp-dir or OACP_HOME",
		}}
	}
	return []Finding{{Name: "home", Severity: Fine, Message: fmt.Sprintf("%s — %d project(s)", h, len(projects))}}
}

func (p Project) workspace() []Finding {
	hint := "Run: acpctl oacp init " + p.Name
	file := Finding{Name: "workspace.json", Severity: Fine, Message: "workspace.json — valid"}
	b, err := ReadNamed(filepath.Join(p.Dir(), "workspace.json"))
	var object map[string]jsontext.Value
	if err != nil {
		file = Finding{Name: file.Name, Severity: Bad, Message: "workspace.json — not found", Hint: hint}
	} else if err := json.Unmarshal(b, &object); err != nil {
		file = Finding{Name: file.Name, Severity: Bad, Message: fmt.Sprintf("workspace.json — invalid: %v", err), Hint: "Fix JSON syntax in workspace.json"}
	}
	names, err := p.Agents()
	if err != nil {
		return []Finding{file, {Name: "agents/", Severity: Bad, Message: "agents/ directory — not found", Hint: hint}}
	}
	findings := []Finding{file, {Name: "agents/", Severity: Fine, Message: fmt.Sprintf("agents/ directory — %d agent(s)", len(names))}}
	for _, name := range names {
		if slices.Contains([]string{"claude", "codex", "cursor"}, name) {
			findings = append(findings, Finding{
				Name: name, Severity: Note, Message: name + " — a name that every project has by default",
				Hint: "For mail between machines, give each agent a name that no other machine has",
			})
		}
	}
	return findings
}

// each looks at every agent.
func (p Project) each(look func(Agent) []Finding) []Finding {
	names, _ := p.Agents() // workspace has told the error
	var all []Finding
	for _, name := range names {
		all = append(all, look(Agent{p, name})...)
	}
	return all
}

// staleInbox is how long a message may wait before the doctor says so.
const staleInbox = 24 * time.Hour

func (a Agent) health() []Finding {
	f := Finding{Name: a.Name + "/inbox", Severity: Fine}
	if !isFolder(a.Inbox()) {
		f.Severity, f.Message, f.Hint = Warn, f.Name+" — directory missing", "mkdir -p "+a.Inbox()
		f.fix = func() (string, error) { return "Created " + a.Name + "/inbox/", makeFolder(a.Inbox()) }
		return []Finding{f}
	}
	names, err := list(a.Inbox())
	if err != nil {
		f.Severity, f.Message = Bad, fmt.Sprintf("%s — %v", f.Name, err)
		return []Finding{f}
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
		f.Message = f.Name + " — empty"
	case oldest > staleInbox:
		f.Severity, f.Hint = Warn, "Process or archive stale inbox messages"
		f.Message = fmt.Sprintf("%s — %d message(s), oldest %dh stale", f.Name, count, int(oldest.Hours()))
	default:
		f.Message = fmt.Sprintf("%s — %d message(s)", f.Name, count)
	}
	return []Finding{f}
}

// maxFindings is how many findings of an agent's messages are told one by one.
const maxFindings = 20

// messages tells what lies in the mailbox and is not a sound message to or from the
// agent. All of it is left alone, by this and by the carrier.
func (a Agent) messages() []Finding {
	var findings []Finding
	for _, box := range []string{"inbox", "outbox"} {
		files, err := os.ReadDir(filepath.Join(a.Dir(), box))
		if err != nil {
			continue // health tells
		}
		for _, file := range files {
			if f := a.file(box, file); f.Message != "" {
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

// abandoned is how old a temporary file is that nobody writes any more.
const abandoned = time.Hour

// file tells what is wrong with a file of a mailbox, nothing if it is in order.
func (a Agent) file(box string, file os.DirEntry) Finding {
	name := file.Name()
	path := filepath.Join(a.Dir(), box, name)
	f := Finding{Name: filepath.Join(a.Name, box, name), Severity: Warn}
	wrong := func(what, hint string) Finding {
		f.Message, f.Hint = f.Name+" — "+what, hint
		return f
	}
	if strings.HasPrefix(name, ".") && strings.Contains(name, ".yaml.tmp-") {
		if info, err := file.Info(); err != nil || time.Since(info.ModTime()) < abandoned {
			return f
		}
		f.fix = func() (string, error) { return "Removed " + f.Name, os.Remove(path) }
		return wrong("left behind by a tool that was killed", "Remove it, or run doctor with --fix")
	}
	switch {
	case !strings.HasSuffix(name, ".yaml") || box == "outbox" && !candidate(name):
		return f // no message, and no tool takes it for one
	case !candidate(name):
		return wrong("hidden: not read as a message here, but listed by the tool oacp", "Rename or remove it")
	case !file.Type().IsRegular():
		return wrong("not a regular file: it is not read", "Put a copy of the file in its place, or remove it")
	}
	e := open(path)
	if e.Err != nil {
		if errors.Is(e.Err, os.ErrNotExist) {
			return f
		}
		return wrong(e.Err.Error(), "Correct it, or move it to dead_letter/")
	}
	m := e.Message
	switch {
	case box == "inbox" && len(m.To) > 0 && !slices.Contains(m.To, a.Name):
		return wrong(fmt.Sprintf("is to %s, and lies in the inbox of %s", strings.Join(m.To, ", "), a.Name), "Move it to the right inbox, or take it as it is")
	case box == "outbox" && m.From != a.Name:
		return wrong(fmt.Sprintf("is from %s, and lies in the outbox of %s", m.From, a.Name), "Move it to the right outbox")
	}
	return a.sound(e, wrong)
}

// sound tells what is wrong inside of a message that has its place.
func (a Agent) sound(e Entry, wrong func(what, hint string) Finding) Finding {
	d, err := message.Parse(e.Data)
	if err != nil {
		return wrong(err.Error(), "Correct it, or move it to dead_letter/")
	}
	if lines := d.Validate(); len(lines) > 0 {
		return wrong(strings.Join(lines, "; "), "Ask its sender for a valid one: acpctl oacp validate")
	}
	if !message.LegalFileName(e.Name) {
		return wrong("its name is not legal on every machine", "Name it in letters, digits, dots, underscores and hyphens")
	}
	return Finding{}
}
