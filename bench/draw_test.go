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
	shown, err := filepath.Glob(filepath.Join(recordFolder, "*"))
	if err != nil {
		t.Fatal(err)
	}
	if len(shown) != 2*len(titles) {
		t.Errorf("%d files, want a record and a plot for each of %d parts: %q", len(shown), len(titles), shown)
	}
	for part := range titles {
		path := recordPath(recordFolder, part)
		r, err := readRecord(path)
		if err != nil {
			t.Fatal(err)
		}
		want, err := r.encode()
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: bench would write it differently (%v):\n%s", path, err, want)
		}
	}
}

func TestDrawRecords(t *testing.T) {
	folder := t.TempDir()
	page := filepath.Join(folder, "page.md")
	marks := "before\n<!-- beside:begin -->\nold\n<!-- beside:end -->\nbetween\n<!-- growth:begin -->\n<!-- growth:end -->\nafter\n"
	if err := os.WriteFile(page, []byte(marks), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := drawRecords(folder, page); err == nil || !strings.Contains(err.Error(), "-record") {
		t.Errorf("without a record: %v", err)
	}
	for part := range titles {
		if err := plotted.save(recordPath(folder, part)); err != nil {
			t.Fatal(err)
		}
	}
	base := filepath.Base(folder)
	want := "before\n<!-- beside:begin -->\n![acpd beside what else there is: the table below as a plot.](" + base + "/beside.svg)\n\n" +
		formatTable(plotted.figures) +
		"\n26 November 2026 · Go 1.26 · acpd 00be576f · linux/amd64, kernel 6.18 · 2 × A Processor.\nSomething else.\n<!-- beside:end -->\nbetween\n"
	for range 2 { // the second time nothing changes
		if err := drawRecords(folder, page); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(string(got), want) || !strings.HasSuffix(string(got), "<!-- growth:end -->\nafter\n") {
			t.Errorf("the page is\n%s\nwant it to begin with\n%s", got, want)
		}
	}
	if svg, err := os.ReadFile(filepath.Join(folder, "growth.svg")); err != nil || !bytes.Equal(svg, drawPlot(titles[growthPart], plotted)) {
		t.Errorf("the plot is another one (%v)", err)
	}
	if err := os.WriteFile(page, []byte("before\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := drawRecords(folder, page); err == nil || !strings.Contains(err.Error(), ":begin -->") {
		t.Errorf("without marks: %v", err)
	}
}
