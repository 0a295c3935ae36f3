package integration

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// What docs/reach.md says that acpd says, acpd says: each text in the table of failures is in the
// sources.
func TestTheFailuresOfReach(t *testing.T) {
	t.Parallel()
	_, table, ok := strings.Cut(readFile(t, "../docs/reach.md"), "\n## When it does not work\n")
	table, _, more := strings.Cut(table, "\n## ")
	if !ok || !more {
		t.Fatal("docs/reach.md has no table of failures")
	}
	var sources strings.Builder
	for _, pattern := range []string{"relay/*.go", "peer/*.go", "identity/*.go", "daemon/*.go", "daemon/names/*.go", "daemon/relays/*.go", "internal/app/cli/*.go"} {
		files, err := filepath.Glob("../" + pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if !strings.HasSuffix(f, "_test.go") {
				sources.WriteString(readFile(t, f))
			}
		}
	}
	// Values and what is joined at run time are left out of the comparison.
	variable := regexp.MustCompile(`…|parameter|: not one of addr, name, pq, token`)
	quoted := regexp.MustCompile("`([^`]+)`")
	rows, texts := 0, 0
	for line := range strings.Lines(table) {
		cells := strings.Split(line, " | ")
		if !strings.HasPrefix(line, "| ") || len(cells) != 2 || strings.HasPrefix(line, "| ---") {
			continue
		}
		rows++
		for _, text := range quoted.FindAllStringSubmatch(cells[0], -1) {
			for _, part := range variable.Split(text[1], -1) {
				if part = strings.Trim(part, " :,"); len(part) < 8 {
					continue
				}
				texts++
				if !strings.Contains(sources.String(), part) {
					t.Errorf("docs/reach.md: nothing says %q", part)
				}
			}
		}
	}
	if rows < 8 || texts < 5 {
		t.Errorf("%d rows and %d texts: has the form of the table changed?", rows, texts)
	}
}
