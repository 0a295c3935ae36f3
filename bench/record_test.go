package main

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestRecord(t *testing.T) {
	path := filepath.Join(t.TempDir(), "some.json")
	figures := []figure{
		{group: "200 B, 1 at a time", what: "acpd", unit: "µs", values: []float64{196.5123, 50.33}},
		{group: "200 B, 1 at a time", what: "NATS", unit: "µs", values: []float64{20}},
	}
	taken, err := newRecord(figures)
	if err != nil {
		t.Fatal(err)
	}
	if err := taken.save(path); err != nil {
		t.Fatal(err)
	}
	r, err := readRecord(path)
	if err != nil {
		t.Fatal(err)
	}
	figures[0].values[0] = 196.51
	if !reflect.DeepEqual(r, taken) {
		t.Errorf("read back as\n%+v, want\n%+v", r, taken)
	}
	for _, name := range []string{"Go", "acpd", natsServer, "quic-go", "grpc-go", "nats.go", "a2a-go", "x/net"} {
		if r.Versions[name] == "" {
			t.Errorf("the record lacks the version of %s", name)
		}
	}
	if r.Kernel == "" || strings.Contains(r.Kernel, "-") || r.CPUs < 1 {
		t.Errorf("the head is %+v", r.recordHead)
	}
}

func TestReadRecordRefuses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "some.json")
	const head = `{"taken": "2026-11-26", "system": "s", "kernel": "k", "cpu": "", "cpus": 1, "versions": {}, `
	const figure = `{"group": "g", "what": "it", "unit": "ms", "values": [1]}`
	for text, want := range map[string]string{
		head + `"figures": []}`: "no figures",
		head + `"figures": [` + strings.Replace(figure, "[1]", "[]", 1) + `]}`:           `"it" has no values`,
		head + `"figures": [` + strings.Replace(figure, "values", "colour", 1) + `]}`:    "colour",
		strings.Replace(head, "2026-11-26", "today", 1) + `"figures": [` + figure + `]}`: "taken",
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
