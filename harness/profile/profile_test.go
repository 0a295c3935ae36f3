package profile

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/acpd/acpd/harness/run"
)

// The built-in profiles are valid, put nothing but a checked id into the command line, and take
// no tools for files and commands where nothing confines.
func TestBuiltIn(t *testing.T) {
	names := ListNames("")
	if !slices.Equal(names, []string{"claude", "codex", "opencode"}) {
		t.Fatalf("%q", names)
	}
	for _, name := range names {
		text, err := ReadNamed("", name)
		if err != nil {
			t.Fatal(err)
		}
		p, err := Parse(name, name, text)
		if err != nil {
			t.Fatal(err)
		}
		if p.ACP || p.Dir != "" || p.Tools != "" || p.About == "" || len(p.Read) != 0 {
			t.Errorf("%+v", p)
		}
		v := &values{home: "/h", dir: "/d", tools: ToolsNone, confine: run.None}
		without := strings.Join(p.makeArgs(v), " ")
		v.session = "ses_1"
		if with := strings.Join(p.makeArgs(v), " "); with == without || !strings.Contains(with, "ses_1") || strings.Contains(without, "resume") || strings.Contains(without, "session") {
			t.Errorf("%s: %s\n%s", name, without, with)
		}
		for _, tools := range []Tools{ToolsRead, ToolsWork} {
			v.session, v.tools = "", tools
			env := strings.Join(p.makeEnv(v, &Program{}, "/t", nil), " ")
			if args := strings.Join(p.makeArgs(v), " "); args == without && !strings.Contains(env, string(tools)) {
				t.Errorf("%s: %s is as none", name, tools)
			}
		}
		for _, a := range p.Args {
			for _, text := range a.Args {
				if strings.ContainsAny(text, "\n\x00") || strings.Contains(text, "bypass") || strings.Contains(text, "skip-permissions") {
					t.Errorf("%s: %q", name, text)
				}
			}
		}
	}
}

func TestConditions(t *testing.T) {
	p, err := Parse("x", "x", []byte(`
program: x
args: [a, {when: resume, args: ["{session}"]}, {when: [tools.read, "!acp"], args: [b, "{dir}/{home}/{turns}/{cost}/{other}"]}, {when: confined, args: [c]}, {when: "!confined", args: [d]}, {when: schema, args: ["{schema}", "{schema_file}"]}]
output: {format: json, rules: [{done: true, cost: usd}]}
limits: {cost: 0.5, turns: 7}
`))
	if err == nil || !strings.Contains(err.Error(), "{other}") {
		t.Fatalf("%+v, %v", p, err)
	}
	p, err = Parse("x", "x", []byte(`
program: x
schema: '{"type": "object"}'
args: [a, {when: resume, args: ["{session}"]}, {when: [tools.read, "!acp"], args: [b, "{dir}/{home}/{turns}/{cost}"]}, {when: confined, args: [c]}, {when: "!confined", args: [d]}, {when: schema, args: ["{schema}", "{schema_file}"]}]
output: {format: json, rules: [{done: true, cost: usd}]}
limits: {cost: 0.5, turns: 7}
`))
	if err != nil {
		t.Fatal(err)
	}
	got := p.makeArgs(&values{session: "{home}", home: "H", dir: "{session}", tools: ToolsRead, confine: run.Landlock})
	if want := []string{"a", "{home}", "b", "{session}/H/7/0.5", "c", `{"type": "object"}`, "H/schema.json"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if got := p.makeArgs(&values{tools: ToolsWork, confine: run.None}); !slices.Equal(got[:2], []string{"a", "d"}) {
		t.Errorf("%q", got)
	}
}

// docs/profiles.md has every key, condition and placeholder.
func TestDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/profiles.md")
	if err != nil {
		t.Fatal(err)
	}
	var words []string
	for _, typ := range []reflect.Type{reflect.TypeFor[Profile](), reflect.TypeFor[Output](), reflect.TypeFor[Rule](), reflect.TypeFor[Limits]()} {
		for f := range typ.Fields() {
			if key := f.Tag.Get("yaml"); key != "-" {
				words = append(words, "`"+key)
			}
		}
	}
	for _, c := range conditions {
		words = append(words, "`"+c+"`")
	}
	for _, p := range placeholders {
		words = append(words, "`{"+p+"}`")
	}
	for _, w := range words {
		if !strings.Contains(string(text), w) {
			t.Errorf("%s is not in docs/profiles.md", w)
		}
	}
	_, example, _ := strings.Cut(string(text), "```yaml\n")
	example, _, _ = strings.Cut(example, "```")
	if _, err := Parse("mine", "docs/profiles.md", []byte(example)); err != nil {
		t.Error(err)
	}
}

func TestBadProfiles(t *testing.T) {
	const good = "program: x\noutput: {format: json, rules: [{done: true}]}\n"
	if _, err := Parse("x", "x.yaml", []byte(good)); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"":                                                            "there is nothing in it",
		good + "limits: {cost: -1}\n":                                 "limits: cost",
		good + "limits: {cost: 1001}\n":                               "limits: cost",
		good + "limits: {cost: 1}\n":                                  "no rule of output has cost",
		good + "limits: {cost: .nan}\n":                               "limits: cost",
		good + "limits: {tokens: 1000000001}\n":                       "limits: tokens",
		good + "limits: {tokens: 0}\n":                                "limits: tokens: 0",
		good + "limits: {turns: 0}\n":                                 "limits: turns: 0",
		good + "limits: {timeout: 0s}\n":                              "limits: timeout",
		good + "limits: {output: 0}\n":                                "limits: output: 0",
		good + "limits: {disk: 0}\n":                                  "limits: disk: 0",
		good + "env: {A: \"{session}\"}\n":                            "env: A: {session} is for args",
		good + "files: {a: \"{session}\"}\n":                          "files: a: {session} is for args",
		good + "limits: {turns: 1001}\n":                              "limits: turns",
		good + "limits: {output: 10}\n":                               "limits: output",
		good + "limits: {disk: 10}\n":                                 "limits: disk",
		good + "limits: {timeout: 25h}\n":                             "limits: timeout",
		good + "env: {A: \"{secret}\"}\n":                             "env: A",
		good + "files: {a: \"{secret}\"}\n":                           "files: a",
		"program: x\n":                                                "output: it is missing",
		good + "---\n" + good:                                         "second document",
		good + "unknown: 1\n":                                         "unknown",
		good + "tools: all\n":                                         "tools",
		good + "args: [{when: resume}]":                               "both when and args",
		good + "args: [{when: sometimes, args: [a]}]":                 "when",
		good + "args: [{when: resume, args: [a], else: b}]":           "else",
		good + "args: [\"{session}\"]":                                "under when: resume",
		good + "args: [\"{prompt}\"]":                                 "{prompt}",
		good + "env: {ACP_SOCKET: x}":                                 "ACP_SOCKET",
		good + "env: {HOME: x}":                                       "HOME",
		good + "env: {\"A=B\": x}":                                    "env",
		good + "pass: [ACP_AGENT_KEY]":                                "pass",
		good + "pass: [LD_PRELOAD]":                                   "pass",
		good + "files: {../x: y}":                                     "files",
		good + "files: {/x: y}":                                       "files",
		good + "credentials: [{file: x, as: y}]":                      "begins with / or ~/",
		good + "credentials: [{file: ~/x, as: ../y}]":                 "below the run's home",
		good + "credentials: [{file: ~/../x, as: y}]":                 "begins with / or ~/",
		good + "read: [relative]":                                     "read",
		good + "dir: relative":                                        "dir",
		good + "limits: {timeout: 1ms}":                               "timeout",
		good + "limits: {cost: -1}":                                   "cost",
		good + "limits: {tokens: -1}":                                 "from 0",
		"program: ./x\noutput: {format: json, rules: [{done: true}]}": "program",
		"program: x\noutput: {format: xml, rules: [{done: true}]}":    "format",
		"program: x\noutput: {format: json, rules: [{text: a}]}":      "done",
		"program: x\noutput: {format: jsonl, rules: [{done: true}]}":  "no when",
	} {
		if p, err := Parse("x", "x.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "x.yaml:") {
			t.Errorf("%q: %+v, %v", text, p, err)
		}
	}
}

// A profile comes from the owner's folder or is built in, never from the working directory, and
// never from a file that others may write.
func TestWhereProfilesAreFound(t *testing.T) {
	folder, here := t.TempDir(), t.TempDir()
	t.Chdir(here)
	write := func(path, text string, mode os.FileMode) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"claude.yaml", "mine.yaml", "claude"} {
		write(name, "program: evil\n", 0o600)
	}
	os.Mkdir("profiles", 0o700)
	write("profiles/claude.yaml", "program: evil\n", 0o600)
	if text, err := ReadNamed(folder, "claude"); err != nil || strings.Contains(string(text), "evil") {
		t.Errorf("%v", err)
	}
	for _, name := range []string{"mine", "../mine", "./mine", "mine.yaml", "", "claude/../mine"} {
		if text, err := ReadNamed(folder, name); err == nil {
			t.Errorf("%s: %s", name, text)
		}
	}
	write(filepath.Join(folder, "mine.yaml"), "program: own\n", 0o600)
	write(filepath.Join(folder, "claude.yaml"), "program: own\n", 0o644)
	write(filepath.Join(folder, "Not.yaml"), "", 0o600)
	for _, name := range []string{"mine", "claude"} {
		if text, err := ReadNamed(folder, name); err != nil || string(text) != "program: own\n" {
			t.Errorf("%s: %s, %v", name, text, err)
		}
	}
	if names := ListNames(folder); !slices.Equal(names, []string{"claude", "codex", "mine", "opencode"}) {
		t.Errorf("%q", names)
	}
	write(filepath.Join(folder, "codex.yaml"), "program: shared\n", 0o666)
	if _, err := ReadNamed(folder, "codex"); err == nil || !strings.Contains(err.Error(), "chmod go-w") {
		t.Errorf("a file that others may write: %v", err)
	}
	write(filepath.Join(folder, "long.yaml"), strings.Repeat("#", maxFile+1), 0o600)
	if _, err := ReadNamed(folder, "long"); err == nil {
		t.Error("a long file")
	}
	if _, err := ReadFile(folder); err == nil {
		t.Error("a folder")
	}
}

// The program is found in PATH, not in the working directory, with what it needs.
// Each variable stands there once, and what the profile says of it counts.
func TestVariablesThatStandTwice(t *testing.T) {
	t.Setenv("TERM", "xterm")
	t.Setenv("A", "passed")
	t.Setenv("B", "passed")
	p := &Profile{Pass: []string{"TERM", "A", "B"}, Env: map[string]string{"LANG": "de_DE", "A": "set", "ACP_DEADLINE_MS": "set"}}
	got := p.makeEnv(&values{home: "/h"}, &Program{}, "/t", []string{"ACP_DEADLINE_MS=1", "ACP_ID=x=y"})
	want := []string{"A=set", "ACP_DEADLINE_MS=1", "ACP_ID=x=y", "B=passed", "HOME=/h", "LANG=de_DE", "PATH=" + run.SystemPath, "TERM=xterm", "TMPDIR=/t"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestFindProgram(t *testing.T) {
	root := realDir(t)
	packages := filepath.Join(root, "lib", "node_modules")
	for _, dir := range []string{"bin", "lib/node_modules/agent/bin", "here", "runtime"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	write := func(path, text string) string {
		t.Helper()
		path = filepath.Join(root, path)
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
		return path
	}
	script := write("lib/node_modules/agent/bin/agent.js", "#!/usr/bin/env node\n")
	node := write("runtime/node", "\x7fELF")
	write("here/agent", "#!/bin/sh\n")
	if err := os.Symlink(script, filepath.Join(root, "bin", "agent")); err != nil {
		t.Fatal(err)
	}
	t.Chdir(filepath.Join(root, "here"))
	p := &Profile{Program: "agent"}
	t.Setenv("PATH", ".")
	if found, err := p.FindProgram(); err == nil || !strings.Contains(err.Error(), "working directory") {
		t.Errorf("%+v, %v", found, err)
	}
	t.Setenv("PATH", filepath.Join(root, "bin")+":"+filepath.Join(root, "runtime"))
	found, err := p.FindProgram()
	if err != nil || found.Path != script || !slices.Equal(found.Files, []string{packages, node}) || !slices.Equal(found.dirs, []string{filepath.Dir(node)}) {
		t.Errorf("%+v, %v", found, err)
	}
	env := p.makeEnv(&values{home: "/h"}, found, "/t", nil)
	if !slices.Contains(env, "PATH="+filepath.Dir(node)+":"+run.SystemPath) {
		t.Errorf("%q", env)
	}
	p.Program = write("bin/own", "#!"+filepath.Join(root, "bin/own")+"\n") // its own interpreter
	if found, err := p.FindProgram(); err != nil || !slices.Equal(found.Files, []string{p.Program}) {
		t.Errorf("%+v, %v", found, err)
	}
	p.Program = "missing"
	if _, err := p.FindProgram(); err == nil {
		t.Error("a program that is not there was found")
	}
}

// The profile and the program of docs/profiles.md work as they stand there.
func TestTheDocumentedProgram(t *testing.T) {
	text, err := os.ReadFile("../../docs/profiles.md")
	if err != nil {
		t.Fatal(err)
	}
	block := func(language string) string {
		_, rest, found := strings.Cut(string(text), "```"+language+"\n")
		block, _, ended := strings.Cut(rest, "```")
		if !found || !ended {
			t.Fatalf("docs/profiles.md has no block of %s", language)
		}
		return block
	}
	p, err := Parse("mine", "docs/profiles.md", []byte(block("yaml")))
	if err != nil {
		t.Fatal(err)
	}
	bin := realDir(t)
	if err := os.WriteFile(filepath.Join(bin, p.Program), []byte(block("sh")), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+run.SystemPath)
	r, b := newRunner(t, run.None, "")
	if r.Program, err = p.FindProgram(); err != nil {
		t.Fatal(err)
	}
	r.Profile = p
	a, err := r.Run(t.Context(), Request{Peer: desk, Thread: "t", Prompt: "one two three"})
	if err != nil || a.Text != "I was given 3 words." || a.Tokens != 15 || len(b.settled) != 1 || b.settled[0].Tokens != 15 {
		t.Errorf("%+v, %v, settled %+v", a, err, b.settled)
	}
}

// The profile of another user is refused, though only that user can write it.
func TestAProfileOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make files of other users")
	}
	path := filepath.Join(t.TempDir(), "x.yaml")
	if err := os.WriteFile(path, []byte("program: x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadFile(path); err != nil {
		t.Error(err)
	}
	if err := os.Chown(path, 12345, -1); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadFile(path); err == nil || !strings.Contains(err.Error(), "it is another user's") {
		t.Errorf("err = %v", err)
	}
}
