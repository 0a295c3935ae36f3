package mailbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/acpd/acpd/oacp/message"
)

// statusFile is an agent's status.yaml.
type statusFile struct {
	Runtime, Status, UpdatedAt *string // nil if they are not there
	Capabilities               bool    // there is a list of them
}

var runtimes = []string{"claude", "codex", "cursor", "gemini", "human", "unknown"}

func (a Agent) statusPath() string { return filepath.Join(a.Dir(), "status.yaml") }

func (a Agent) readStatus() (s statusFile, err error) {
	b, _, err := Read(a.statusPath())
	if err != nil {
		return s, err
	}
	root, err := message.Load(b)
	if err != nil {
		return s, err
	}
	for key, value := range map[string]**string{"runtime": &s.Runtime, "status": &s.Status, "updated_at": &s.UpdatedAt} {
		if n := message.Member(root, key); n != nil && n.ShortTag() != "!!null" {
			*value = &n.Value
		}
	}
	capabilities := message.Member(root, "capabilities")
	s.Capabilities = capabilities != nil && capabilities.Kind == yaml.SequenceNode
	return s, nil
}

func (a Agent) schema() []Finding {
	s, err := a.readStatus()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	f := Finding{Name: a.Name + "/status.yaml", Severity: Fine, Message: a.Name + "/status.yaml — valid"}
	var lines []string
	if err != nil {
		lines = []string{"parse error: " + err.Error()}
	} else {
		lines = s.validate()
	}
	if len(lines) > 0 {
		f.Severity, f.Message = Bad, f.Name+" — "+strings.Join(lines, "; ")
	}
	return []Finding{f}
}

func (s statusFile) validate() (lines []string) {
	check := func(key string, value *string, legal func(string) bool, expected string) {
		switch {
		case value == nil:
			lines = append(lines, fmt.Sprintf("missing required field '%s'", key))
		case !legal(*value):
			lines = append(lines, fmt.Sprintf("%s '%s' %s", key, *value, expected))
		}
	}
	oneOf := func(words []string) (func(string) bool, string) {
		return func(s string) bool { return slices.Contains(words, s) }, "not in " + strings.Join(words, ", ")
	}
	legal, expected := oneOf(runtimes)
	check("runtime", s.Runtime, legal, expected)
	legal, expected = oneOf([]string{"available", "busy", "offline"})
	check("status", s.Status, legal, expected)
	if !s.Capabilities {
		lines = append(lines, "missing required field 'capabilities'")
	}
	check("updated_at", s.UpdatedAt, func(s string) bool {
		_, err := time.Parse(stampLayout, s)
		return err == nil
	}, "is not valid ISO 8601 UTC")
	return lines
}

// staleStatus is how long an agent may go on without saying how it is.
const staleStatus = time.Hour

func (a Agent) status() []Finding {
	f := Finding{Name: a.Name + "/status.yaml", Severity: Fine, Message: a.Name + "/status.yaml — present"}
	s, err := a.readStatus()
	if errors.Is(err, fs.ErrNotExist) {
		f.Severity, f.Message, f.Hint = Note, f.Name+" — not found: the agent has not said yet how it is", "It writes one, or doctor with --fix does"
		f.fix = func() (string, error) { return "Created " + f.Name, a.createStatus() }
		return []Finding{f}
	}
	if err != nil || s.UpdatedAt == nil {
		return []Finding{f} // schema tells
	}
	if t, err := time.Parse(stampLayout, *s.UpdatedAt); err == nil && time.Since(t) > staleStatus {
		f.Severity, f.Hint = Warn, "Agent may have exited without clean close"
		f.Message = fmt.Sprintf("%s — stale (updated %dh ago)", f.Name, int(time.Since(t).Hours()))
		f.fix = func() (string, error) { return "Updated " + f.Name + " timestamp", a.touchStatus() }
	}
	return []Finding{f}
}

func (a Agent) createStatus() error {
	runtime := "unknown"
	if slices.Contains(runtimes, a.Name) {
		runtime = a.Name
	}
	text := fmt.Sprintf("runtime: %s\nstatus: available\ncapabilities: []\nupdated_at: \"%s\"\n", runtime, message.Stamp(time.Now()))
	return create(a.statusPath(), text)
}

func (a Agent) touchStatus() error {
	b, info, err := Read(a.statusPath())
	if err != nil {
		return err
	}
	line := regexp.MustCompile(`(?m)^updated_at:.*$`)
	b = line.ReplaceAll(b, fmt.Appendf(nil, "updated_at: %q", message.Stamp(time.Now())))
	if err := replace(a.statusPath(), b); err != nil {
		return err
	}
	return os.Chmod(a.statusPath(), info.Mode().Perm())
}
