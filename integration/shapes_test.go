package integration

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/acpd/acpd/internal/app/cli"
	"github.com/acpd/acpd/internal/app/cli/frame"
)

var updateShapes = flag.Bool("update-shapes", false, "add to shapes/*.txt what has been added to what acpctl prints with --json, and to docs/local-api.json")

// withoutJSON are the verbs that print nothing of their own with --json.
var withoutJSON = []string{
	"cert", "channel", "config", "oacp", "relay", "service", "wake", // they show the verbs below them
	"mcp",          // it speaks MCP
	"pipe",         // it carries packets
	"up",           // it speaks with a person
	"service logs", // it shows the log as the system has it
}

// shapes has, by verbs, the fields of what they print with --json, as lines: path and type.
type shapes map[string]map[string]bool

// add adds the fields of JSON values, one after the other.
func (s shapes) add(t *testing.T, verb, printed string) {
	t.Helper()
	d := jsontext.NewDecoder(strings.NewReader(printed))
	for n := 0; ; n++ {
		text, err := d.ReadValue()
		if err != nil {
			if n == 0 || strings.TrimSpace(printed[d.InputOffset():]) != "" {
				t.Errorf("acpctl %s --json prints %q: %v", verb, printed, err)
			}
			return
		}
		var v any
		if err := json.Unmarshal(text, &v); err != nil {
			t.Fatal(err)
		}
		s.addValue(verb, "", v)
	}
}

func (s shapes) addValue(verb, path string, v any) {
	switch v := v.(type) {
	case map[string]any:
		s.addLine(verb, path, "object")
		for name, member := range v {
			s.addValue(verb, path+"."+name, member)
		}
	case []any:
		s.addLine(verb, path, "array")
		for _, item := range v {
			s.addValue(verb, path+"[]", item)
		}
	case string:
		s.addLine(verb, path, "string")
	case float64:
		s.addLine(verb, path, "number")
	case bool:
		s.addLine(verb, path, "boolean")
	default:
		s.addLine(verb, path, "null")
	}
}

func (s shapes) addLine(verb, path, kind string) {
	if s[verb] == nil {
		s[verb] = make(map[string]bool)
	}
	s[verb][fmt.Sprintf("%s: %s %s", verb, cmp.Or(path, "."), kind)] = true
}

// list returns all lines, sorted.
func (s shapes) list() (lines []string) {
	for _, of := range s {
		for line := range of {
			lines = append(lines, line)
		}
	}
	slices.Sort(lines)
	return lines
}

// checkShapes compares lines with those of a file, to which lines are only ever added.
func checkShapes(t *testing.T, path string, now []string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil && !*updateShapes {
		t.Fatal(err)
	}
	recorded := strings.FieldsFunc(string(text), func(r rune) bool { return r == '\n' })
	for _, line := range recorded {
		if !slices.Contains(now, line) {
			t.Errorf("%s is gone, or has another type: programs read it, so bring it back (a field that is added may stand beside it)", line)
		}
	}
	added := slices.DeleteFunc(slices.Clone(now), func(line string) bool { return slices.Contains(recorded, line) })
	if len(added) > 0 && *updateShapes {
		all := append(recorded, added...)
		slices.Sort(all)
		if err := os.WriteFile(path, []byte(strings.Join(all, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	for _, line := range added {
		t.Errorf("%s is new: say so in CHANGELOG.md, and record it by go test ./integration -run Shapes -update-shapes", line)
	}
}

// What each verb of acpctl prints with --json has what it had before.
func TestShapesOfVerbs(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("what a service is like is what systemd says; all else is the same everywhere")
	}
	all := make(shapes)
	t.Run("of services", func(t *testing.T) { runServiceVerbs(t, all) }) // it sets the environment
	t.Parallel()
	t.Run("of answers", func(t *testing.T) { runAnsweredVerbs(t, all) })
	t.Run("of daemons", func(t *testing.T) { runVerbsWithDaemons(t, all) })
	if t.Failed() {
		return
	}
	for _, verb := range listVerbs(cli.NewRootCmd(frame.NewFrame(), ""), "") {
		if all[verb] == nil && !slices.Contains(withoutJSON, verb) {
			t.Errorf("acpctl %s --json is not run: add it to answeredVerbs or runVerbsWithDaemons, or to withoutJSON", verb)
		}
	}
	checkShapes(t, "shapes/verbs.txt", all.list())
}

// listVerbs returns the verbs that do something.
func listVerbs(cmd *cobra.Command, path string) (verbs []string) {
	for _, verb := range cmd.Commands() {
		whole := strings.TrimSpace(path + " " + verb.Name())
		if verb.Runnable() && !verb.Hidden {
			verbs = append(verbs, whole)
		}
		verbs = append(verbs, listVerbs(verb, whole)...)
	}
	return verbs
}
