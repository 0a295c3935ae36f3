package integration

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

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
	for _, c := range kinds.Codes() {
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

// TestLinks follows every relative link of the documents.
func TestLinks(t *testing.T) {
	pages, err := filepath.Glob("../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	pages = append(pages, "../README.md", "../CHANGELOG.md", "vectors/README.md")
	link := regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)
	found := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			found++
			if _, err := os.Stat(filepath.Join(filepath.Dir(page), m[1])); err != nil {
				t.Errorf("%s links to %s: %v", page, m[1], err)
			}
		}
	}
	if found < 5 {
		t.Errorf("%d links found: has their form changed?", found)
	}
}
