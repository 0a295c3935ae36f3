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
	b, _, err := ReadFile(a.statusPath())
	if err != nil {
		return s, err
	}
	root, err := message.LoadYAML(b)
	if err != nil {
		return s, err
	}
	for key, value := range map[string]**string{"runtime": &s.Runtime, "status": &s.Status, "updated_at": &s.UpdatedAt} {
		if n := message.FindYAMLMember(root, key); n != nil && n.ShortTag() != "!!null" {
			*value = &n.Value
		}
	}
	capabilities := message.FindYAMLMember(root, "capabilities")
	s.Capabilities = capabilities != nil && capabilities.Kind == yaml.SequenceNode
	return s, nil
}

func (a Agent) checkStatusFields() []Finding {
	s, err := a.readStatus()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	f := Finding{Name: a.Name + "/status.yaml"}
	if err != nil {
		return []Finding{f.withResult(Bad, "parse error: "+err.Error(), "")}
	}
	if lines := s.validate(); len(lines) > 0 {
		return []Finding{f.withResult(Bad, strings.Join(lines, "; "), "")}
	}
	return []Finding{f.withResult(Fine, "valid", "")}
}

func (s statusFile) validate() (lines []string) {
	check := func(key string, value *string, isLegal func(string) bool, fault string) {
		switch {
		case value == nil:
			lines = append(lines, fmt.Sprintf("missing required field '%s'", key))
		case !isLegal(*value):
			lines = append(lines, fmt.Sprintf("%s '%s' %s", key, *value, fault))
		}
	}
	checkWord := func(key string, value *string, words ...string) {
		check(key, value, func(s string) bool { return slices.Contains(words, s) }, "not in "+strings.Join(words, ", "))
	}
	checkWord("runtime", s.Runtime, runtimes...)
	checkWord("status", s.Status, "available", "busy", "offline")
	if !s.Capabilities {
		lines = append(lines, "missing required field 'capabilities'")
	}
	check("updated_at", s.UpdatedAt, func(s string) bool {
		_, err := time.Parse(message.StampLayout, s)
		return err == nil
	}, "is not valid ISO 8601 UTC")
	return lines
}

// staleStatus is the age at which an agent's status is stale.
const staleStatus = time.Hour

func (a Agent) checkStatusAge() []Finding {
	f := Finding{Name: a.Name + "/status.yaml"}
	s, err := a.readStatus()
	if errors.Is(err, fs.ErrNotExist) {
		f.fix = func() (string, error) { return "Created " + f.Name, a.createStatusFile() }
		return []Finding{f.withResult(Note, "not found: the agent has not said yet how it is", "It writes one, or doctor with --fix does")}
	}
	if err == nil && s.UpdatedAt != nil { // else checkStatusFields reports it
		if t, err := time.Parse(message.StampLayout, *s.UpdatedAt); err == nil && time.Since(t) > staleStatus {
			f.fix = func() (string, error) { return "Updated " + f.Name + " timestamp", a.touchStatusFile() }
			return []Finding{f.withResult(Warn, fmt.Sprintf("stale (updated %dh ago)", int(time.Since(t).Hours())), "Agent may have exited without clean close")}
		}
	}
	return []Finding{f.withResult(Fine, "present", "")}
}

func (a Agent) createStatusFile() error {
	runtime := "unknown"
	if slices.Contains(runtimes, a.Name) {
		runtime = a.Name
	}
	text := fmt.Sprintf("runtime: %s\nstatus: available\ncapabilities: []\nupdated_at: \"%s\"\n", runtime, message.FormatTimestamp(time.Now()))
	return createMissingFile(a.statusPath(), text)
}

func (a Agent) touchStatusFile() error {
	b, info, err := ReadFile(a.statusPath())
	if err != nil {
		return err
	}
	b = regexp.MustCompile(`(?m)^updated_at:.*$`).ReplaceAll(b, fmt.Appendf(nil, "updated_at: %q", message.FormatTimestamp(time.Now())))
	if err := replaceFile(a.statusPath(), b); err != nil {
		return err
	}
	return os.Chmod(a.statusPath(), info.Mode().Perm())
}
