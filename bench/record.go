package main

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/sys/unix"
)

// A record has what one run has measured, and with what. It is a file of docs/benchmarks, and tables and plots
// are made of it.
type record struct {
	recordHead
	figures []figure
}

// recordHead describes the run.
type recordHead struct {
	Taken    string            `json:"taken"`          // the day, as 2026-11-26
	Note     string            `json:"note,omitempty"` // what else the reader must know; a person writes it, and the next run drops it
	System   string            `json:"system"`         // linux/amd64
	Kernel   string            `json:"kernel"`         // its version, without what a distribution adds
	CPU      string            `json:"cpu"`
	CPUs     int               `json:"cpus"`
	Versions map[string]string `json:"versions"` // of programs and modules
}

// recordedFigure is a figure as JSON.
type recordedFigure struct {
	Group  string    `json:"group"`
	What   string    `json:"what"`
	Unit   string    `json:"unit"`
	Values []float64 `json:"values"`
}

// recordedModules are the modules whose versions a record has, and their names there.
var recordedModules = map[string]string{
	"github.com/quic-go/quic-go":      "quic-go",
	"google.golang.org/grpc":          "grpc-go",
	"github.com/nats-io/nats.go":      "nats.go",
	"github.com/a2aproject/a2a-go/v2": "a2a-go",
	"golang.org/x/net":                "x/net",
}

// newRecord describes this machine and what is measured on it.
func newRecord(figures []figure) (record, error) {
	r := record{figures: figures}
	r.Taken = time.Now().UTC().Format(time.DateOnly)
	r.System, r.CPUs = runtime.GOOS+"/"+runtime.GOARCH, runtime.NumCPU()
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return r, fmt.Errorf("uname: %w", err)
	}
	r.Kernel, _, _ = strings.Cut(unix.ByteSliceToString(name.Release[:]), "-")
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return r, err
	}
	r.CPU = findCPU(string(info))
	server, err := findServerVersion()
	if err != nil {
		return r, err
	}
	r.Versions = map[string]string{"Go": strings.TrimPrefix(runtime.Version(), "go"), "acpd": describeCommit(), natsServer: server}
	if build, ok := debug.ReadBuildInfo(); ok {
		for _, m := range build.Deps {
			if name, ok := recordedModules[m.Path]; ok {
				r.Versions[name] = strings.TrimPrefix(m.Version, "v")
			}
		}
	}
	return r, nil
}

// describeCommit names the commit of this checkout, as the Makefile does.
func describeCommit() string {
	out, err := exec.Command("git", "describe", "--always", "--dirty", "--exclude", "*").Output()
	if err != nil {
		return "of no known commit"
	}
	return strings.TrimSpace(string(out))
}

// findCPU finds the model in the text of /proc/cpuinfo; not every processor has one there.
func findCPU(info string) string {
	for line := range strings.Lines(info) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.Join(strings.Fields(value), " ")
		}
	}
	return ""
}

// recordPath is where a part's record is kept.
func recordPath(folder, part string) string { return filepath.Join(folder, part+".json") }

func (r record) save(path string) error {
	text, err := r.encode()
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o644)
}

// encode writes the head with a line for each field, and each figure on a line of its own.
func (r record) encode() ([]byte, error) {
	head, err := json.Marshal(r.recordHead, json.Deterministic(true), jsontext.WithIndent("  "))
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	b.Write(bytes.TrimSuffix(head, []byte("\n}")))
	b.WriteString(",\n  \"figures\": [")
	for i, f := range r.figures {
		line, err := json.Marshal(recordedFigure{f.group, f.what, f.unit, roundAll(f.values)}, jsontext.SpaceAfterComma(true), jsontext.SpaceAfterColon(true))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.what, err)
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString("\n    ")
		b.Write(line)
	}
	b.WriteString("\n  ]\n}\n")
	return b.Bytes(), nil
}

// roundAll keeps five digits of each value: more than any measurement here repeats.
func roundAll(values []float64) []float64 {
	rounded := make([]float64, len(values))
	for i, v := range values {
		rounded[i], _ = strconv.ParseFloat(strconv.FormatFloat(v, 'g', 5, 64), 64) // what was just written
	}
	return rounded
}

// readRecord reads what save has written.
func readRecord(path string) (record, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return record{}, err
	}
	var file struct {
		recordHead
		Figures []recordedFigure `json:"figures"`
	}
	if err := json.Unmarshal(text, &file, json.RejectUnknownMembers(true)); err != nil {
		return record{}, fmt.Errorf("%s: %w", path, err)
	}
	r := record{recordHead: file.recordHead}
	if _, err := time.Parse(time.DateOnly, r.Taken); err != nil {
		return record{}, fmt.Errorf("%s: taken: %w", path, err)
	}
	for _, f := range file.Figures {
		if len(f.Values) == 0 {
			return record{}, fmt.Errorf("%s: %q has no values", path, f.What)
		}
		r.figures = append(r.figures, figure{group: f.Group, what: f.What, unit: f.Unit, values: f.Values})
	}
	if len(r.figures) == 0 {
		return record{}, fmt.Errorf("%s has no figures", path)
	}
	return r, nil
}

// listTerms lists when, of what and where the figures were measured.
func (r record) listTerms() []string {
	day, _ := time.Parse(time.DateOnly, r.Taken) // readRecord has checked it
	terms := []string{day.Format("2 January 2006")}
	for _, name := range slices.Sorted(maps.Keys(r.Versions)) {
		terms = append(terms, name+" "+r.Versions[name])
	}
	return append(terms, r.System+", kernel "+r.Kernel, strings.TrimSuffix(fmt.Sprintf("%d × %s", r.CPUs, r.CPU), " "))
}
