package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDrawn holds the plots and tables of docs/benchmarks.md and the records together.
func TestDrawn(t *testing.T) {
	files, err := drawAll(recordFolder, recordPage)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range files {
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what its record says: run go run . draw (%v)", path, err)
		}
	}
	plots, err := filepath.Glob(filepath.Join(recordFolder, "*.svg"))
	if err != nil {
		t.Fatal(err)
	}
	if len(plots) != len(files)-1 {
		t.Errorf("%d plots of %d records: remove those that have none", len(plots), len(files)-1)
	}
	records, err := filepath.Glob(filepath.Join(recordFolder, "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range records {
		r, err := readRecord(path)
		if err != nil {
			t.Fatal(err)
		}
		want, err := r.encode()
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: bench would write it otherwise (%v):\n%s", path, err, want)
		}
	}
}

func TestDrawRecords(t *testing.T) {
	folder := t.TempDir()
	page := filepath.Join(folder, "page.md")
	if err := drawRecords(folder, page); err == nil || !strings.Contains(err.Error(), "-record") {
		t.Errorf("without a record: %v", err)
	}
	text, err := plotted.encode()
	if err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{filepath.Join(folder, "some.json"): string(text), page: "before\n"} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := drawRecords(folder, page); err == nil || !strings.Contains(err.Error(), "write <!-- some:begin -->") {
		t.Errorf("without marks: %v", err)
	}
	if err := os.WriteFile(page, []byte("before\n<!-- some:begin -->\nold\n<!-- some:end -->\nafter\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time nothing changes
		if err := drawRecords(folder, page); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		base := filepath.Base(folder)
		want := "before\n<!-- some:begin -->\n![A plot & its <marks>: the table below as a plot. Targets missed: 3 of 5.](" + base + "/some.svg)\n\n" +
			"`cd bench && go run . test`, 26 November 2026 · Go 1.26 · acpd 00be576f · linux/amd64, kernel 6.18 · 2 × A Processor.\nSomething else.\n" +
			"**Targets missed: 3 of 5.** All values are in [some.json](" + base + "/some.json).\n\n| what |"
		if !strings.HasPrefix(string(got), want) || !strings.HasSuffix(string(got), "|\n<!-- some:end -->\nafter\n") {
			t.Errorf("the page is\n%s\nwant it to begin with\n%s", got, want)
		}
	}
	if svg, err := os.ReadFile(filepath.Join(folder, "some.svg")); err != nil || !bytes.Equal(svg, drawPlot(plotted)) {
		t.Errorf("the plot is another one (%v)", err)
	}
}
