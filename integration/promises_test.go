package integration

import (
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestPromises holds docs/promises.md and the tests together: a test names the heading of the promise that it holds
// in a line `// holds: security.md#at-rest` of its comment.
func TestPromises(t *testing.T) {
	t.Parallel()
	const path = "../docs/promises.md"
	held := listHeldPromises(t)
	var page strings.Builder
	page.WriteString("# Promises, and the tests that hold them\n\n" +
		"A test names the promise that it holds in its comment: `// holds: security.md#at-rest`.\n" +
		"This page is generated from these lines: `go test ./integration -run TestPromises -update-docs`.\n\n" +
		"| promise | tests |\n| --- | --- |\n")
	for _, doc := range []string{"security.md", "protocol.md", "agents.md", "channels.md", "oacp.md"} {
		text := readFile(t, "../docs/"+doc)
		for _, heading := range regexp.MustCompile(`(?m)^##+ (.*)$`).FindAllStringSubmatch(text, -1) {
			promise := doc + "#" + listAnchors(heading[0])[0]
			if tests := held[promise]; tests != nil {
				fmt.Fprintf(&page, "| [%s](%s) | %s |\n", heading[1], promise, formatTests(tests))
			}
			delete(held, promise)
		}
	}
	for promise, tests := range held {
		t.Errorf("%s holds %s: name a heading of a document", tests[0].name, promise)
	}
	writeGenerated(t, path, readFile(t, path), page.String())
}

// heldTest is a test, or a fuzz target, of a package.
type heldTest struct{ pkg, name string }

// listHeldPromises finds the tests of each promise, by package and name.
func listHeldPromises(t *testing.T) map[string][]heldTest {
	held := make(map[string][]heldTest)
	test := regexp.MustCompile(`(?m)^((?://.*\n)+)func ((?:Test|Fuzz)\w+)\(`)
	promise := regexp.MustCompile(`(?m)^// holds: (\S+)$`)
	err := filepath.WalkDir("..", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text := readFile(t, path)
		pkg := filepath.ToSlash(filepath.Dir(strings.TrimPrefix(path, "../")))
		found := 0
		for _, m := range test.FindAllStringSubmatch(text, -1) {
			for _, p := range promise.FindAllStringSubmatch(m[1], -1) {
				held[p[1]] = append(held[p[1]], heldTest{pkg, m[2]})
				found++
			}
		}
		if all := len(promise.FindAllString(text, -1)); all != found {
			t.Errorf("%s: %d of %d lines that begin with holds: are in no comment of a test", path, all-found, all)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return held
}

// formatTests lists tests behind the names of their packages.
func formatTests(tests []heldTest) string {
	byPackage := make(map[string][]string)
	for _, one := range tests {
		byPackage[one.pkg] = append(byPackage[one.pkg], "`"+one.name+"`")
	}
	var groups []string
	for _, pkg := range slices.Sorted(maps.Keys(byPackage)) {
		slices.Sort(byPackage[pkg])
		groups = append(groups, pkg+": "+strings.Join(byPackage[pkg], ", "))
	}
	return strings.Join(groups, "; ")
}
