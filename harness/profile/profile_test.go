package profile

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/acpd/acpd/harness/run"
)

// The built-in profiles put nothing but a checked id into the command line, show the model's tools that
// the owner has chosen, and pass on the owner's arguments.
func TestBuiltIn(t *testing.T) {
	for _, name := range ListNames() {
		p, err := New(name)
		if err != nil {
			t.Fatal(err)
		}
		p.More = []string{"--more"}
		say := func(v values) string {
			v.home, v.model = "/h", "m"
			args := p.args(&v)
			for _, text := range args {
				if strings.ContainsAny(text, "\n\x00") || strings.Contains(text, "bypass") || strings.Contains(text, "skip-permissions") {
					t.Errorf("%s: %q", name, text)
				}
			}
			said := strings.Join(args, " ")
			if p.files != nil {
				said += fmt.Sprint(p.files(&v))
			}
			if !strings.Contains(said, " --more") || !strings.Contains(said, "--model=m") || strings.Contains(said, "ses_1") != (v.session != "") {
				t.Errorf("%s: %s", name, said)
			}
			return said
		}
		none := say(values{tools: ToolsNone})
		read, work := say(values{tools: ToolsRead}), say(values{tools: ToolsWork})
		if none == read || none == work || read == work && name != "codex" || none == say(values{tools: ToolsNone, session: "ses_1"}) {
			t.Errorf("%s: its runs do not differ: %s", name, none)
		}
		p.ACP = true
		if none == say(values{tools: ToolsNone}) {
			t.Errorf("%s: ACP changes nothing", name)
		}
	}
	if _, err := New("./mine.yaml"); err == nil || !strings.Contains(err.Error(), "--confine runs a command of your own") {
		t.Errorf("%v", err)
	}
}

func TestCheck(t *testing.T) {
	for _, name := range []string{"ACP_AGENT_KEY", "LD_PRELOAD", "DYLD_X", "HOME", "A=B", ""} {
		if err := (&Profile{Pass: []string{name}}).Check(); err == nil {
			t.Errorf("--pass %q", name)
		}
	}
	for _, path := range []string{"relative", "~/../x", ""} {
		if err := (&Profile{Read: []string{path}}).Check(); err == nil {
			t.Errorf("--read %q", path)
		}
	}
	if err := (&Profile{Pass: []string{"OWN_KEY"}, Read: []string{"/data", "~/data"}}).Check(); err != nil {
		t.Error(err)
	}
}

// Each variable is there once, and what the profile says of it is used.
func TestVariablesThatStandTwice(t *testing.T) {
	t.Setenv("TERM", "xterm")
	t.Setenv("A", "passed")
	t.Setenv("B", "passed")
	p := &Profile{Pass: []string{"TERM", "A", "B"}, env: func(*values) map[string]string {
		return map[string]string{"LANG": "de_DE", "A": "set", "ACP_DEADLINE_MS": "set"}
	}}
	got := p.makeEnv(&values{home: "/h"}, &Program{}, "/t", []string{"ACP_DEADLINE_MS=1", "ACP_ID=x=y"})
	want := []string{"A=set", "ACP_DEADLINE_MS=1", "ACP_ID=x=y", "B=passed", "HOME=/h", "LANG=de_DE", "PATH=" + run.SystemPath, "TERM=xterm", "TMPDIR=/t"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// The program is found in PATH, not in the working directory, with what it needs.
func TestFindProgram(t *testing.T) {
	root := realDir(t)
	packages := filepath.Join(root, "lib", "node_modules")
	for _, dir := range []string{"bin", "lib/node_modules/agent/bin", "here", "runtime"} {
		makeDir(t, filepath.Join(root, dir))
	}
	write := func(path, text string) string {
		t.Helper()
		path = filepath.Join(root, path)
		writeFile(t, path, text, 0o700)
		return path
	}
	script := write("lib/node_modules/agent/bin/agent.js", "#!/usr/bin/env node\n")
	node := write("runtime/node", "\x7fELF")
	write("here/agent", "#!/bin/sh\n")
	link(t, script, filepath.Join(root, "bin", "agent"))
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
	p.Program = "./missing"
	if _, err := p.FindProgram(); err == nil || strings.Contains(err.Error(), "PATH") {
		t.Errorf("a path: %v", err)
	}
}
