package integration

import (
	"bytes"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/acpd/acpd/internal/app/cli"
	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/internal/app/doctor"
	"github.com/acpd/acpd/kinds"
)

var updateDocs = flag.Bool("update-docs", false, "write the generated parts of docs")

// checkGenerated compares the part of a document between two marks with what is generated for it. With -update-docs
// it writes that part.
func checkGenerated(t *testing.T, path, mark, want string) {
	t.Helper()
	begin, end := "<!-- "+mark+":begin -->\n", "<!-- "+mark+":end -->"
	text := readFile(t, path)
	head, rest, ok := strings.Cut(text, begin)
	_, tail, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("%s: the marks %q are gone", path, mark)
	}
	writeGenerated(t, path, text, head+begin+want+end+tail)
}

// writeGenerated fails the test if a document is not as it is generated, or writes it with -update-docs.
func writeGenerated(t *testing.T, path, text, want string) {
	t.Helper()
	if text == want {
		return
	}
	if !*updateDocs {
		t.Fatalf("%s is not what is generated for it: run go test ./integration -run %s -update-docs", path, t.Name())
	}
	if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestCodeTable holds the error codes of the documentation and of the code together.
func TestCodeTable(t *testing.T) {
	var table strings.Builder
	table.WriteString("| code | retryable | exit | raised when |\n| --- | --- | --- | --- |\n")
	for _, c := range kinds.ListCodes() {
		retryable, local := "no", ""
		if c.Retryable {
			retryable = "yes"
		}
		if c.Local {
			local = "*local*: "
		}
		fmt.Fprintf(&table, "| %s | %s | %d | %s%s |\n", c.Code, retryable, c.Exit, local, c.Raised)
	}
	checkGenerated(t, "../docs/protocol.md", "codes", table.String())
}

// TestDoctorTable holds the warnings and failures of doctor in the documentation and in the code together.
func TestDoctorTable(t *testing.T) {
	var table strings.Builder
	for _, part := range []struct {
		heading  string
		severity doctor.Severity
	}{{"failure", doctor.Failure}, {"warning", doctor.Warning}} {
		fmt.Fprintf(&table, "\n| %s | what it says |\n| --- | --- |\n", part.heading)
		for _, c := range doctor.ListCodes() {
			if c.Severity == part.severity {
				fmt.Fprintf(&table, "| `%s` | %s |\n", c.Code, c.Says)
			}
		}
	}
	table.WriteString("\n")
	checkGenerated(t, "../docs/operate.md", "doctor", table.String())
}

// TestTextsOfTables: each text that a table of the documents says a program prints is in the sources. What differs
// from time to time is left out of the comparison.
func TestTextsOfTables(t *testing.T) {
	t.Parallel()
	quoted := regexp.MustCompile("`([^`]+)`")
	for _, c := range []struct {
		page, after string // the table comes after this text
		isQuoted    bool   // only what is between backquotes
		variable    string // matches what differs
		sources     []string
		least       int // texts
	}{
		{"discovery.md", "| warning | meaning |\n", false, "5353", []string{"discovery/*.go"}, 5},
		{"agents.md", "| `acpctl agents` says | what to do |\n", true, "…", []string{"harness/*.go", "mcp/attach.go", "mcp/presence.go", "internal/app/cli/agents.go"}, 20},
		{"reach.md", "\n## When it does not work\n", true, "…|parameter|: not one of addr, name, pq, token", []string{"relay/*.go", "peer/*.go", "identity/*.go", "daemon/*.go", "daemon/names/*.go", "daemon/relays/*.go", "internal/app/cli/*.go"}, 5},
	} {
		var sources strings.Builder
		for _, pattern := range c.sources {
			for _, path := range glob(t, "../"+pattern) {
				if !strings.HasSuffix(path, "_test.go") {
					sources.WriteString(readFile(t, path))
				}
			}
		}
		_, table, ok := strings.Cut(readFile(t, "../docs/"+c.page), c.after)
		if !ok {
			t.Fatalf("docs/%s: there is no %q", c.page, c.after)
		}
		texts, inTable := 0, false
		for row := range strings.Lines(table) {
			cells := strings.Split(row, "|")
			if len(cells) < 3 && inTable {
				break
			}
			if inTable = inTable || len(cells) > 2; !inTable || strings.HasPrefix(row, "| ---") {
				continue
			}
			said := [][]string{{"", cells[1]}}
			if c.isQuoted {
				said = quoted.FindAllStringSubmatch(cells[1], -1)
			}
			for _, text := range said {
				for _, part := range regexp.MustCompile(c.variable).Split(text[1], -1) {
					if part = strings.Trim(part, " :,()"); len(part) < 8 {
						continue
					}
					if texts++; !strings.Contains(sources.String(), part) {
						t.Errorf("docs/%s: nothing says %q", c.page, part)
					}
				}
			}
		}
		if texts < c.least {
			t.Errorf("docs/%s: %d texts found: has the form of the table changed?", c.page, texts)
		}
	}
}

// TestLinks follows every relative link of the documents, to the file and to the heading or anchor in it.
func TestLinks(t *testing.T) {
	pages := slices.Concat(glob(t, "../docs/*.md"), glob(t, "../docs/howto/*.md"), glob(t, "../python/*/README.md"),
		[]string{"../README.md", "../CHANGELOG.md", "../CONTRIBUTING.md", "vectors/README.md", "../examples/README.md"})
	link := regexp.MustCompile(`\]\(([^)#:]*)(?:#([^)]*))?\)`)
	program := regexp.MustCompile("(?s)```.*?```")
	anchors := map[string][]string{}
	for _, page := range pages {
		anchors[page] = listAnchors(program.ReplaceAllString(readFile(t, page), ""))
	}
	found := 0
	for _, page := range pages {
		for _, m := range link.FindAllStringSubmatch(program.ReplaceAllString(readFile(t, page), ""), -1) {
			found++
			path := page
			if m[1] != "" {
				path = filepath.Join(filepath.Dir(page), m[1])
			}
			if _, err := os.Stat(path); err != nil {
				t.Errorf("%s links to %s: %v", page, m[1], err)
			}
			if known := anchors[path]; known != nil && m[2] != "" && !slices.Contains(known, m[2]) {
				t.Errorf("%s links to %s, which has no heading #%s", page, path, m[2])
			}
		}
	}
	if found < 50 {
		t.Errorf("%d links found: has their form changed?", found)
	}
}

// TestTablesAreWhole: no empty line is within a table, which would end it. A table that begins after one has a line of
// dashes.
func TestTablesAreWhole(t *testing.T) {
	pages := slices.Concat(glob(t, "../docs/*.md"), glob(t, "../docs/howto/*.md"), []string{"../README.md"})
	for _, page := range pages {
		for _, row := range findRowsOutsideTables(readFile(t, page)) {
			t.Errorf("%s: an empty line before this row ends its table: %s", page, row)
		}
	}
	const torn = "| a | b |\n| --- | --- |\n| 1 | 2 |\n\n| 3 | 4 |\n\n| c | d |\n| --- | --- |\n\n| 5 | 6 |\n"
	if rows := findRowsOutsideTables(torn); !slices.Equal(rows, []string{"| 3 | 4 |", "| 5 | 6 |"}) {
		t.Errorf("rows outside tables: %q", rows)
	}
}

// findRowsOutsideTables returns the rows that come after an empty line and begin no table.
func findRowsOutsideTables(text string) (rows []string) {
	lines := strings.Split(text, "\n")
	for i := 1; i+1 < len(lines); i++ {
		if lines[i-1] == "" && strings.HasPrefix(lines[i], "|") && !strings.HasPrefix(lines[i+1], "| --") {
			rows = append(rows, lines[i])
		}
	}
	return rows
}

// listAnchors returns what a link may name in a page: its headings, as a forge writes them in links, and its anchors.
func listAnchors(text string) (anchors []string) {
	for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(text, -1) {
		heading := regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(strings.TrimSpace(m[1])), "")
		anchors = append(anchors, strings.ReplaceAll(heading, " ", "-"))
	}
	for _, m := range regexp.MustCompile(`<a (?:id|name)="([^"]+)">`).FindAllStringSubmatch(text, -1) {
		anchors = append(anchors, m[1])
	}
	return anchors
}

// TestNoMergeIsUnresolved: no text, in a document or elsewhere, has the marks that a merge left.
func TestNoMergeIsUnresolved(t *testing.T) {
	mark := regexp.MustCompile(`(?m)^(<{7}|>{7}) \S`)
	read := 0
	err := filepath.WalkDir("..", func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := e.Name(); e.IsDir() && (name == "node_modules" || strings.HasPrefix(name, ".") && name != "..") {
			return filepath.SkipDir
		}
		if !slices.Contains([]string{".md", ".yaml", ".yml", ".html", ".css", ".js", ".py", ".sh", ".json"}, filepath.Ext(path)) {
			return nil // Go does not compile with them
		}
		text, err := os.ReadFile(path)
		if found := mark.FindIndex(text); found != nil {
			t.Errorf("%s:%d: an unresolved merge", path, 1+bytes.Count(text[:found[0]], []byte("\n")))
		}
		read++
		return err
	})
	if err != nil || read < 50 {
		t.Errorf("%d files read: %v", read, err)
	}
}

// The Python packages carry the licence of the repository, as files: a wheel is also built from a copy of
// the folder, where a link would lead nowhere.
func TestLicencesOfThePackages(t *testing.T) {
	whole, err := os.ReadFile("../LICENSE")
	if err != nil {
		t.Fatal(err)
	}
	copies, err := filepath.Glob("../python/*/LICENSE")
	if err != nil || len(copies) != 2 {
		t.Fatalf("licences of packages: %q, %v", copies, err)
	}
	for _, name := range copies {
		info, err := os.Lstat(name)
		if err != nil || !info.Mode().IsRegular() {
			t.Errorf("%s is no file: %v", name, err)
		}
		if text, err := os.ReadFile(name); err != nil || !bytes.Equal(text, whole) {
			t.Errorf("%s is not the licence of the repository: copy it from there (%v)", name, err)
		}
	}
}

// acpctlLine matches a line of acpctl in a document: in a block, after a prompt or a pipe, and in a sentence.
var acpctlLine = regexp.MustCompile("(?m)(?:^[a-z]+\\$ |^|[`|] *|ssh [a-z]+ )acpctl ([^`|\\n]+)")

// TestTheDocumentsNameVerbsAndFlags finds every verb and flag of acpctl that the documents type.
func TestTheDocumentsNameVerbsAndFlags(t *testing.T) {
	pages, err := filepath.Glob("../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, page := range append(pages, "../README.md", "../examples/README.md", "../python/acpd/README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range acpctlLine.FindAllStringSubmatch(string(text), -1) {
			root := cli.NewRootCmd(frame.NewFrame(), "")
			words := strings.Fields(m[1])
			if slices.Contains(words, "…") { // several verbs
				continue
			}
			cmd, rest, err := root.Find(words)
			if err != nil || cmd == root && !strings.HasPrefix(words[0], "--") {
				t.Errorf("%s: acpctl %s: no such verb", page, m[1])
				continue
			}
			found++
			for _, word := range rest {
				name, isFlag := strings.CutPrefix(word, "--")
				if name == "" { // what follows is another program's
					break
				}
				name, _, _ = strings.Cut(strings.Trim(name, ".,;:)]"), "=")
				if isFlag && name != "help" && cmd.Flags().Lookup(name) == nil && cmd.InheritedFlags().Lookup(name) == nil {
					t.Errorf("%s: acpctl %s: %s has no flag --%s", page, m[1], cmd.Name(), name)
				}
			}
		}
	}
	if found < 100 {
		t.Errorf("%d lines found: has their form changed?", found)
	}
}

// TestTheFirstCommandsAreCounted: the heading that promises so many commands is followed by so many.
func TestTheFirstCommandsAreCounted(t *testing.T) {
	text, err := os.ReadFile("../docs/agents.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, ok := strings.Cut(string(text), "## 1. Five commands\n")
	_, block, opened := strings.Cut(block, "```console\n")
	block, _, closed := strings.Cut(block, "```")
	if n := strings.Count(block, "\n"); !ok || !opened || !closed || n != 5 {
		t.Errorf("%d commands:\n%s", n, block)
	}
}
