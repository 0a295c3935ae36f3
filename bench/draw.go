package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Where the records are, and the page that shows them. Both are seen from the benchmark's own folder.
const (
	recordFolder = "../docs/benchmarks"
	recordPage   = "../docs/benchmarks.md"
)

// titles are those of the plots.
var titles = map[string]string{
	besidePart: "acpd beside what else there is",
	growthPart: "How cost grows",
}

// drawRecords makes the plot of each record, in the record's folder, and puts it and its table into the page.
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
	text, err := os.ReadFile(page)
	if err != nil {
		return nil, err
	}
	shown, files := string(text), map[string][]byte{}
	for part, title := range titles {
		r, err := readRecord(recordPath(folder, part))
		if err != nil {
			return nil, fmt.Errorf("%w: make it with go run . %s -record", err, part)
		}
		plot := part + ".svg"
		files[filepath.Join(folder, plot)] = drawPlot(title, r)
		block := fmt.Sprintf("![%s: the table below as a plot.](%s/%s)\n\n%s", title, filepath.Base(folder), plot, formatTable(r.figures))
		block += "\n" + strings.Join(r.listTerms(), termsMark) + ".\n"
		if r.Note != "" {
			block += r.Note + "\n"
		}
		if shown, err = replaceBlock(shown, part, block); err != nil {
			return nil, fmt.Errorf("%s: %w", page, err)
		}
	}
	files[page] = []byte(shown)
	return files, nil
}

// replaceBlock replaces the text between a record's marks.
func replaceBlock(page, name, block string) (string, error) {
	begin, end := "<!-- "+name+":begin -->\n", "<!-- "+name+":end -->"
	head, rest, begins := strings.Cut(page, begin)
	_, tail, ends := strings.Cut(rest, end)
	if !begins || !ends {
		return "", errors.New("the marks of the record " + name + " are missing: write " + strings.TrimSpace(begin) + " and below it " + end + " where its plot belongs")
	}
	return head + begin + block + end + tail, nil
}
