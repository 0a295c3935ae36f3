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

// TestCodeTable holds the error codes of the documentation and of the code together.
func TestCodeTable(t *testing.T) {
	const path, begin, end = "../docs/protocol.md", "<!-- codes:begin -->\n", "<!-- codes:end -->"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
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
	head, rest, ok := strings.Cut(string(text), begin)
	old, tail, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s: the marks of the code table are gone", path)
	}
	if old == table.String() {
		return
	}
	if !*updateDocs {
		t.Fatalf("%s: the code table is not that of package kinds; run go test ./integration -run TestCodeTable -update-docs", path)
	}
	if err := os.WriteFile(path, []byte(head+begin+table.String()+end+tail), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestDoctorTable holds the warnings and failures of doctor in the documentation and in
// the code together.
func TestDoctorTable(t *testing.T) {
	const path, begin, end = "../docs/operate.md", "<!-- doctor:begin -->\n", "<!-- doctor:end -->"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	table.WriteString("| code | severity | what it says |\n| --- | --- | --- |\n")
	for _, c := range doctor.ListCodes() {
		if c.Severity != doctor.Warning && c.Severity != doctor.Failure {
			continue
		}
		fmt.Fprintf(&table, "| `%s` | %s | %s |\n", c.Code, c.Severity, c.Says)
	}
	head, rest, ok := strings.Cut(string(text), begin)
	old, tail, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("%s: the marks of the table are gone", path)
	}
	if old == table.String() {
		return
	}
	if !*updateDocs {
		t.Fatalf("%s: the table is not that of internal/app/doctor; run go test ./integration -run TestDoctorTable -update-docs", path)
	}
	if err := os.WriteFile(path, []byte(head+begin+table.String()+end+tail), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestWarnings holds the warnings that docs/discovery.md explains and those of the
// code together.
func TestWarnings(t *testing.T) {
	text, err := os.ReadFile("../docs/discovery.md")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("../discovery/*.go")
	if err != nil {
		t.Fatal(err)
	}
	var code strings.Builder
	for _, name := range files {
		source, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		code.Write(source)
	}
	_, table, ok := strings.Cut(string(text), "| warning | meaning |\n| --- | --- |\n")
	if !ok {
		t.Fatal("the table of warnings is gone")
	}
	table, _, _ = strings.Cut(table, "\n\n")
	said := strings.ReplaceAll(code.String(), "%d", "5353") // the one number in the table
	rows := 0
	for row := range strings.Lines(table) {
		rows++
		if warning := strings.TrimSpace(strings.Split(row, "|")[1]); !strings.Contains(said, warning) {
			t.Errorf("no warning says %q", warning)
		}
	}
	if rows < 5 {
		t.Errorf("%d warnings found: has the table's form changed?", rows)
	}
}

// TestTheReasonsNotToWake finds each reason of docs/agents.md not to wake a session in the code that says it.
func TestTheReasonsNotToWake(t *testing.T) {
	text, err := os.ReadFile("../docs/agents.md")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("../harness/*.go")
	if err != nil {
		t.Fatal(err)
	}
	var code strings.Builder
	for _, name := range append(files, "../mcp/attach.go", "../mcp/presence.go", "../internal/app/cli/agents.go") {
		source, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(name, "_test.go") {
			code.Write(source)
		}
	}
	_, table, ok := strings.Cut(string(text), "| `acpctl agents` says | what to do |\n| --- | --- |\n")
	if !ok {
		t.Fatal("the table of reasons is gone")
	}
	table, _, _ = strings.Cut(table, "\n\n")
	found := 0
	for row := range strings.Lines(table) {
		for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(strings.Split(row, "|")[1], -1) {
			found++
			for said := range strings.SplitSeq(m[1], "…") { // stands for what differs
				if said = strings.Trim(said, " ()"); !strings.Contains(code.String(), said) {
					t.Errorf("nothing says %q", said)
				}
			}
		}
	}
	if found < 20 {
		t.Errorf("%d reasons found: has the table's form changed?", found)
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
