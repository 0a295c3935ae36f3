package integration

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestTheWorkflowsCallTargets: each make in a workflow names targets that the Makefile has, so that what a workflow
// does can be run anywhere.
func TestTheWorkflowsCallTargets(t *testing.T) {
	makefile, err := os.ReadFile("../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	targets := strings.Fields(string(regexp.MustCompile(`(?m)^\.PHONY: (.*)$`).Find(makefile)))
	files, err := filepath.Glob("../.github/workflows/*.yml")
	if err != nil || len(files) < 3 {
		t.Fatalf("workflows: %q, %v", files, err)
	}
	called := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)run: .*\bmake ([a-z -]+[a-z])`).FindAllSubmatch(text, -1) {
			for _, target := range strings.Fields(string(m[1])) {
				called++
				if !slices.Contains(targets, target) {
					t.Errorf("%s: make %s: the Makefile has no such target", file, target)
				}
			}
		}
		for _, m := range regexp.MustCompile(`uses: (\S+)`).FindAllSubmatch(text, -1) {
			if !regexp.MustCompile(`@(v[0-9]+|[0-9a-f]{40})$`).Match(m[1]) {
				t.Errorf("%s: %s has no version", file, m[1])
			}
		}
	}
	if called < 6 {
		t.Errorf("%d targets found: has their form changed?", called)
	}
}
