package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Where records lie, and the page that shows them. Both are seen from the benchmark's own folder.
const (
	recordFolder = "../docs/benchmarks"
	recordPage   = "../docs/benchmarks.md"
)

// drawRecords makes the plot of each record beside it, and puts it and its table into the page.
// It measures nothing.
func drawRecords(folder, page string) error {
	files, err := drawAll(folder, page)
	if err != nil {
		return err
	}
	for path, text := range files {
		if err := os.WriteFile(path, text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// drawAll returns what drawRecords writes, by path.
func drawAll(folder, page string) (map[string][]byte, error) {
	paths, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err == nil && len(paths) == 0 {
		err = fmt.Errorf("%s has no records: make one with bench -record FILE.json, and run draw in the benchmark's own folder", folder)
	}
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(page)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	shown := string(text)
	for _, path := range paths {
		r, err := readRecord(path)
		if err != nil {
			return nil, err
		}
		name := strings.TrimSuffix(filepath.Base(path), ".json")
		files[filepath.Join(folder, name+".svg")] = drawPlot(r)
		if shown, err = replaceBlock(shown, name, r.writeBlock(filepath.Base(folder), name)); err != nil {
			return nil, fmt.Errorf("%s: %w", page, err)
		}
	}
	files[page] = []byte(shown)
	return files, nil
}

// replaceBlock replaces what stands between a record's marks.
func replaceBlock(page, name, block string) (string, error) {
	begin, end := "<!-- "+name+":begin -->\n", "<!-- "+name+":end -->"
	head, rest, begins := strings.Cut(page, begin)
	_, tail, ends := strings.Cut(rest, end)
	if !begins || !ends {
		return "", errors.New("the marks of the record " + name + " are missing: write " + strings.TrimSpace(begin) + " and below it " + end + " where its plot shall stand")
	}
	return head + begin + block + end + tail, nil
}

// writeBlock is what the page shows of a record.
func (r record) writeBlock(folder, name string) string {
	var b strings.Builder
	missed := countMissed(r.figures)
	fmt.Fprintf(&b, "![%s: the table below as a plot. %s.](%s/%s.svg)\n\n", r.Title, missed, folder, name)
	fmt.Fprintf(&b, "`cd bench && go run . %s`, %s.\n", r.Command, r.describeTerms())
	if r.Note != "" {
		fmt.Fprintf(&b, "%s\n", r.Note)
	}
	fmt.Fprintf(&b, "**%s.** All values are in [%s.json](%s/%s.json).\n\n", missed, name, folder, name)
	writeFigureRows(&b, r.figures)
	return b.String()
}
