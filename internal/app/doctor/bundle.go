package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/config"
	"github.com/acpd/acpd/internal/durable"
	"github.com/acpd/acpd/internal/statedir"
)

// Bundle is what a bug report needs. Nothing in it is a name, id, address, path, key or message.
type Bundle struct {
	Acpctl   string            `json:"acpctl"`
	Acpd     string            `json:"acpd,omitzero"` // "" if no daemon answers
	Go       string            `json:"go"`
	System   string            `json:"system"`
	Kernel   string            `json:"kernel,omitzero"`
	Findings []BundleFinding   `json:"findings"`
	Settings map[string]string `json:"settings"` // those that differ from their defaults, if config.yaml is valid
}

// BundleFinding is a finding without its texts, which name peers and files.
type BundleFinding struct {
	Code     Code     `json:"code"`
	Severity Severity `json:"severity"`
	Says     string   `json:"says"` // as the table of codes has it
}

// NewBundle returns the bundle with these findings.
func NewBundle(ctx context.Context, o Options, findings []Finding) *Bundle {
	x := &examination{Options: &o}
	x.askDaemon(ctx)
	b := &Bundle{Acpctl: o.Version, Go: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH, Findings: []BundleFinding{}, Settings: listHarmlessSettings(o.Home)}
	if x.status != nil {
		b.Acpd = x.status.Version
	}
	kernel, _ := o.Machine.readFile("proc/sys/kernel/osrelease")
	b.Kernel = strings.TrimSpace(string(kernel))
	for _, f := range findings {
		b.Findings = append(b.Findings, BundleFinding{f.Code, f.Severity, f.Code.info().Says})
	}
	return b
}

// harmlessValue matches a value of a setting that names nothing: a number, a duration, or a word that settings share.
var harmlessValue = regexp.MustCompile(`^(-?[0-9]{1,10}(\.[0-9]{1,6})?|([0-9]{1,10}(\.[0-9]{1,9})?(h|m|s|ms))+|true|false|on|off|prefer|require|json|text|debug|info|warn|error)$`)

// listHarmlessSettings returns the settings of config.yaml that differ from their defaults. A value that may name
// something is only "set".
func listHarmlessSettings(home string) map[string]string {
	settings := make(map[string]string)
	current, err := config.LoadConfig(filepath.Join(home, statedir.ConfigName))
	defaults, defaultsErr := config.ReadConfig("", strings.NewReader(""))
	if errors.Join(err, defaultsErr) != nil {
		return settings
	}
	for _, change := range current.ListChanges(defaults) {
		settings[change.Setting] = "set"
		if harmlessValue.MatchString(change.To) && change.Key == change.Setting && change.Setting != "name" {
			settings[change.Setting] = change.To
		}
	}
	return settings
}

// Write writes the bundle into a new file that only its owner can read. After an error no file is left.
func (b *Bundle) Write(path string) error {
	text, err := json.Marshal(b, json.Deterministic(true), jsontext.WithIndent("  "))
	if err == nil {
		err = durable.CreateFile(path, append(text, '\n'), durable.PrivateMode)
	}
	switch {
	case errors.Is(err, fs.ErrExist):
		return fmt.Errorf("doctor: --bundle: %s is there already: name a file that is not", client.Line(path))
	case err != nil:
		return fmt.Errorf("doctor: --bundle: %w: name a file in a folder of yours, on a disk with space", err)
	}
	return nil
}
