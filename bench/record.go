package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
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

// A record is what one run has measured, and with what: a file of docs/benchmarks, of which tables
// and plots are made.
type record struct {
	recordHead
	figures []figure
}

// recordHead is what a record says of its figures.
type recordHead struct {
	Title    string            `json:"title"`          // of the plot; written by a person
	Command  string            `json:"command"`        // what was typed after "bench"
	Taken    string            `json:"taken"`          // the day, as 2026-11-26
	Note     string            `json:"note,omitempty"` // what else the reader must know; written by a person
	System   string            `json:"system"`         // linux/amd64
	Kernel   string            `json:"kernel"`         // its version, without what a distribution adds
	CPU      string            `json:"cpu"`
	CPUs     int               `json:"cpus"`
	Versions map[string]string `json:"versions"` // of programs and modules
}

// recordedFigure is a figure as JSON.
type recordedFigure struct {
	Group   string    `json:"group,omitempty"`
	What    string    `json:"what"`
	Unit    string    `json:"unit"`
	Target  float64   `json:"target,omitzero"`
	High    bool      `json:"high,omitzero"`
	Strict  bool      `json:"strict,omitzero"`
	Change  bool      `json:"change,omitzero"`
	Control bool      `json:"control,omitzero"`
	Values  []float64 `json:"values"`
}

// newRecord describes this machine and what is measured on it.
func newRecord(command string, versions map[string]string, figures []figure) (record, error) {
	r := record{figures: figures}
	r.Title, r.Command, r.Taken = command, command, time.Now().UTC().Format(time.DateOnly)
	r.System, r.CPUs = runtime.GOOS+"/"+runtime.GOARCH, runtime.NumCPU()
	r.Versions = map[string]string{"Go": strings.TrimPrefix(runtime.Version(), "go")}
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
	if build, ok := debug.ReadBuildInfo(); ok {
		for _, m := range build.Deps {
			if m.Path == "github.com/quic-go/quic-go" {
				r.Versions["quic-go"] = strings.TrimPrefix(m.Version, "v")
			}
		}
	}
	r.Versions["acpd"] = describeCommit("..")
	for program, version := range versions {
		r.Versions[program] = version
	}
	return r, nil
}

// describeCommit names the commit of a checkout, as the Makefile does.
func describeCommit(folder string) string {
	cmd := exec.Command("git", "describe", "--always", "--dirty", "--exclude", "*")
	cmd.Dir = folder
	out, err := cmd.Output()
	if err != nil {
		return "of no known commit"
	}
	return strings.TrimSpace(string(out))
}

// findCPU finds the model in the text of /proc/cpuinfo; not every processor tells it.
func findCPU(info string) string {
	for line := range strings.Lines(info) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.Join(strings.Fields(value), " ")
		}
	}
	return ""
}

// save writes the record to a file. What a person has written of a record that is there stays: its title, and
// its note, which it returns.
func (r record) save(path string) (note string, err error) {
	old, err := readRecord(path)
	switch {
	case err == nil:
		r.Title, r.Note = old.Title, old.Note
	case !errors.Is(err, fs.ErrNotExist):
		return "", err
	}
	text, err := r.encode()
	if err != nil {
		return "", err
	}
	return r.Note, os.WriteFile(path, text, 0o644)
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
		line, err := json.Marshal(recordedFigure{f.group, f.what, f.unit, f.target, f.high, f.strict, f.change, f.control, roundAll(f.values)}, jsontext.SpaceAfterComma(true), jsontext.SpaceAfterColon(true))
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
		r.figures = append(r.figures, figure{group: f.Group, what: f.What, unit: f.Unit, values: f.Values, target: f.Target, high: f.High, strict: f.Strict, change: f.Change, control: f.Control})
	}
	if len(r.figures) == 0 {
		return record{}, fmt.Errorf("%s: it has no figures", path)
	}
	return r, nil
}

// termsMark stands between the parts of what is said of a run.
const termsMark = " · "

// describeTerms says when, of what and where the figures were measured.
func (r record) describeTerms() string { return strings.Join(r.listTerms(), termsMark) }

func (r record) listTerms() []string {
	day, _ := time.Parse(time.DateOnly, r.Taken) // readRecord has looked
	parts := []string{day.Format("2 January 2006")}
	for _, name := range slices.Sorted(maps.Keys(r.Versions)) {
		parts = append(parts, name+" "+r.Versions[name])
	}
	parts = append(parts, r.System+", kernel "+r.Kernel)
	cpu := fmt.Sprintf("%d CPUs", r.CPUs)
	if r.CPU != "" {
		cpu = fmt.Sprintf("%d × %s", r.CPUs, r.CPU)
	}
	return append(parts, cpu)
}
