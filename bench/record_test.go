package main

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestRecord(t *testing.T) {
	var out strings.Builder
	path := filepath.Join(t.TempDir(), "relay.json")
	to := report{out: &out, file: path, command: "relay", versions: map[string]string{natsServer: "2.15.2"}}
	figures := []figure{
		{what: "bare echo", unit: "µs", values: []float64{196.5123, 50.33}},
		{group: "1 at a time", what: "p50: this / other", unit: "times", values: []float64{1.5}, target: 1.01, strict: true, change: true},
		{group: "1 at a time", what: "p50: other / other", unit: "times", values: []float64{0.99}, change: true, control: true},
		{what: "carries", unit: "MiB/s", values: []float64{20}, target: 25, high: true},
	}
	if err := to.writeFigures(figures); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "| bare echo | 123 ") {
		t.Errorf("the table is gone: %s", out.String())
	}
	r, err := readRecord(path)
	if err != nil {
		t.Fatal(err)
	}
	figures[0].values[0] = 196.51
	if !reflect.DeepEqual(r.figures, figures) {
		t.Errorf("read back as\n%+v, want\n%+v", r.figures, figures)
	}
	if r.Command != "relay" || r.Versions[natsServer] != "2.15.2" || r.Versions["quic-go"] == "" || r.Versions["Go"] == "" || r.Kernel == "" || strings.Contains(r.Kernel, "-") || r.CPUs < 1 {
		t.Errorf("the head is %+v", r.recordHead)
	}

	if strings.Contains(out.String(), "note") {
		t.Errorf("a note is told of, and there is none: %s", out.String())
	}

	// What a person has written outlasts the next run, which tells of the note.
	r.Title, r.Note = "What a relay costs", "The machine was busy."
	text, err := r.encode()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := to.writeFigures(figures); err != nil {
		t.Fatal(err)
	}
	if r, err = readRecord(path); err != nil || r.Title != "What a relay costs" || r.Note != "The machine was busy." || !strings.Contains(out.String(), path+` keeps the note of an earlier run: "The machine was busy.": edit it`) {
		t.Errorf("after the next run: %q, %q, %v", r.Title, r.Note, err)
	}
}

func TestReadRecordRefuses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "some.json")
	const head = `{"title": "T", "command": "c", "taken": "2026-11-26", "system": "s", "kernel": "k", "cpu": "", "cpus": 1, "versions": {}, `
	for text, want := range map[string]string{
		head + `"figures": []}`: "no figures",
		head + `"figures": [{"what": "it", "unit": "ms", "values": []}]}`:                                             `"it" has no values`,
		head + `"figures": [{"what": "it", "unit": "ms", "values": [1], "colour": "red"}]}`:                           "colour",
		strings.Replace(head, "2026-11-26", "today", 1) + `"figures": [{"what": "it", "unit": "ms", "values": [1]}]}`: "taken",
	} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := readRecord(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func TestFindCPU(t *testing.T) {
	const info = "processor\t: 0\nmodel name\t: Intel(R)  Xeon(R) Processor\nprocessor\t: 1\n"
	if got := findCPU(info); got != "Intel(R) Xeon(R) Processor" {
		t.Errorf("%q", got)
	}
	if got := findCPU("processor\t: 0\nBogoMIPS\t: 50.00\n"); got != "" {
		t.Errorf("without a model: %q", got)
	}
}
