package integration

import (
	"fmt"
	"go/build"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestTheTargetsRunTests holds the Makefile and the tests together. go test passes when it finds nothing to run, so
// each name after -run has a test, in the packages and with the tags of its command; and each test is run by a target.
// .ci/run runs each target that runs tests, or its header names it among those that it leaves out.
func TestTheTargetsRunTests(t *testing.T) {
	makefile, err := os.ReadFile("../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	ci, err := os.ReadFile("../.ci/run")
	if err != nil {
		t.Fatal(err)
	}
	targets := regexp.MustCompile(`(?m)^\.PHONY: (.*)$`).FindSubmatch(makefile)
	if targets == nil {
		t.Fatal("the Makefile has no list of its targets")
	}
	var ciTargets strings.Builder
	for _, m := range regexp.MustCompile(`(?m)^(?:begin|time) .*\bmake ([a-z -]+)|^# Left out are ([^.]+)\.`).FindAllSubmatch(ci, -1) {
		fmt.Fprintf(&ciTargets, " %s%s ", m[1], m[2])
	}
	commands, run := 0, make(map[namedTest]bool)
	for _, target := range strings.Fields(string(targets[1])) {
		typed := commandWithin(t, buildTime, "..", nil, "make", "--dry-run", target, "GO=go", "CASES=")
		if !strings.Contains(typed, "go test ") {
			continue
		}
		if !regexp.MustCompile(`[ ,]` + target + `[ ,\n]`).MatchString(ciTargets.String()) {
			t.Errorf(".ci/run: make %s is not run: run it, or name it in the header among what is left out", target)
		}
		for line := range strings.Lines(typed) {
			_, args, ok := strings.Cut(line, "go test ")
			if !ok || strings.Contains(args, " -fuzz ") || strings.Contains(args, "-list ") { // make fuzz runs what Go lists
				continue
			}
			commands++
			for _, name := range readTestCommand(t, line) {
				run[name] = true
			}
		}
	}
	if commands < 20 {
		t.Errorf("%d commands found: has their form changed?", commands)
	}
	for _, pattern := range []string{"../go.mod", "../*/go.mod", "../*/*/go.mod"} {
		modules, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, module := range modules {
			for _, name := range listTests(t, filepath.Dir(module), true, nil) {
				if !run[name] {
					t.Errorf("%s: no target of the Makefile runs %s", name.file, name.test)
				}
			}
		}
	}
}

// TestCases: each target that takes a list of tests has one in .ci/cases, and what it names is there.
func TestCases(t *testing.T) {
	makefile := readFile(t, "../Makefile")
	taking := map[string]bool{"race": true}
	for _, m := range regexp.MustCompile(`\$\(call run,(\w+)\)`).FindAllStringSubmatch(makefile, -1) {
		taking[m[1]] = true
	}
	if len(taking) < 8 {
		t.Errorf("%d targets take lists: has their form changed?", len(taking))
	}
	for _, m := range regexp.MustCompile(`(?m)^(\w+): (.*)$`).FindAllStringSubmatch(readFile(t, "../.ci/cases"), -1) {
		if !taking[m[1]] {
			t.Errorf(".ci/cases: make %s takes no list", m[1])
		}
	}
	for target := range taking {
		typed := commandWithin(t, buildTime, "..", nil, "make", "--dry-run", target, "GO=go", "CASES=.ci/cases")
		listed := 0
		for line := range strings.Lines(typed) {
			if _, args, ok := strings.Cut(line, "go test "); ok && (target == "race" || strings.Contains(args, "-run '^(")) {
				listed += len(readTestCommand(t, line))
			}
		}
		if listed < 5 {
			t.Errorf("make %s runs %d tests of .ci/cases", target, listed)
		}
	}
}

// namedTest is a test and the file that has it.
type namedTest struct{ file, test string }

// readTestCommand returns the tests that a line with go test runs, in the module to which it may change first. It fails
// the test if there are none, or none with one of several names after -run.
func readTestCommand(t *testing.T, line string) (found []namedTest) {
	before, typed, _ := strings.Cut(strings.TrimSpace(line), "go test ")
	module := ".."
	if m := regexp.MustCompile(`^cd (\S+) && `).FindStringSubmatch(before); m != nil {
		module = filepath.Join("..", m[1])
	}
	args, tags, pattern := strings.Fields(typed), []string{}, ""
	for i, arg := range args {
		switch arg {
		case "-tags":
			tags = strings.Split(args[i+1], ",")
		case "-run":
			pattern = strings.Trim(args[i+1], `'"`)
		}
	}
	var tests []namedTest
	for _, arg := range args {
		if strings.HasPrefix(arg, "./") {
			dir, all := strings.CutSuffix(arg, "...")
			tests = append(tests, listTests(t, filepath.Join(module, dir), all, tags)...)
		}
	}
	begin, rest, several := strings.Cut(pattern, "(")
	names, end, _ := strings.Cut(rest, ")")
	if !several {
		begin, names = "", pattern
	}
	for name := range strings.SplitSeq(names, "|") {
		re := regexp.MustCompile(begin + name + end)
		before := len(found)
		for _, test := range tests {
			if re.MatchString(test.test) {
				found = append(found, test)
			}
		}
		if len(found) == before {
			t.Errorf("go test %s: no test has the name %q", typed, name)
		}
	}
	return found
}

// listTests returns the tests of a folder, with all also those of the folders below it in the same module, which Go
// compiles with such tags. Without tags, each file is compiled with those that it asks for.
func listTests(t *testing.T, root string, all bool, tags []string) (tests []namedTest) {
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() {
			_, err := os.Stat(filepath.Join(path, "go.mod"))
			if path != root && (!all || err == nil || strings.HasPrefix(e.Name(), ".") || e.Name() == "testdata") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		system := build.Default
		system.BuildTags = tags
		if rest, ok := strings.CutPrefix(string(text), "//go:build "); ok && tags == nil {
			line, _, _ := strings.Cut(rest, "\n")
			system.BuildTags = regexp.MustCompile(`\w+`).FindAllString(line, -1)
		}
		if match, err := system.MatchFile(filepath.Dir(path), e.Name()); err != nil || !match {
			return err
		}
		for line := range strings.Lines(string(text)) {
			name, rest, ok := strings.Cut(strings.TrimPrefix(line, "func "), "(")
			if ok && strings.HasPrefix(line, "func Test") && strings.Contains(rest, " *testing.T)") {
				tests = append(tests, namedTest{path, name})
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return tests
}

// TestWhatDoesNotRunFails: a target fails if a tool that it runs fails or is missing, whatever runs after it, and
// make fuzz if there is nothing to fuzz. make lint may miss the database of vulnerabilities alone.
func TestWhatDoesNotRunFails(t *testing.T) {
	tools := t.TempDir()
	for name, script := range map[string]string{
		"go":    `case "$*" in "$FAILS"*) echo "$SAYS"; exit 1;; esac`,
		"gofmt": `[ "$FAILS" != gofmt ]`,
	} {
		if err := os.WriteFile(filepath.Join(tools, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	const vulnerabilities = "run golang.org/x/vuln/cmd/govulncheck"
	for _, c := range []struct {
		target, fails, says string
		passes              bool
	}{
		{"lint", "nothing", "", true},
		{"lint", "gofmt", "", false},
		{"lint", "vet -pgo=off", "", false},
		{"lint", "run ./integration/crosscheck", "", false},
		{"lint", vulnerabilities, `govulncheck: fetching vulnerabilities: Get "https://vuln.go.dev/index/modules.json.gz": no such host`, true},
		{"lint", vulnerabilities, "govulncheck: loading packages: there are errors", false},
		{"lint", vulnerabilities, "Vulnerability #1: GO-2026-0001", false},
		{"test", "test -pgo=off", "", false},
		{"fuzz", "list", "", false},
		{"fuzz", "nothing", "", false},
	} {
		cmd := exec.CommandContext(t.Context(), "make", c.target, "GO=go")
		cmd.Dir = ".."
		cmd.Env = append(os.Environ(), "PATH="+tools+":"+os.Getenv("PATH"), "FAILS="+c.fails, "SAYS="+c.says)
		if out, err := cmd.CombinedOutput(); (err == nil) != c.passes {
			t.Errorf("make %s, where %s fails with %q: %v\n%s", c.target, c.fails, c.says, err, out)
		}
	}
}
