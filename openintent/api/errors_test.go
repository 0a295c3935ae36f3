package api

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Each code that a refusal can have has an HTTP status, and no other text has one.
func TestEachCodeHasAStatus(t *testing.T) {
	var files []string
	for _, in := range []string{"../*.go", "../object/*.go", "*.go"} {
		some, err := filepath.Glob(in)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, some...)
	}
	code := regexp.MustCompile(`(?:\bNewError\(|refuseAs\(http\.\w+, |\b[cC]ode\w*\s*= |convertBudgetError\(err, )"([a-z_]+)"`)
	found := make(map[string]bool)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil || strings.HasSuffix(file, "_test.go") {
			continue
		}
		for _, m := range code.FindAllStringSubmatch(string(text), -1) {
			found[m[1]] = true
			if statuses[m[1]] == 0 {
				t.Errorf("%s: %q has no status", file, m[1])
			}
		}
	}
	for code := range statuses {
		if !found[code] && code != "bad_key" {
			t.Errorf("%q has a status, and nothing is refused with it", code)
		}
	}
}
