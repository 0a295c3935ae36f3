//go:build agents

package agents

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/acpd/acpd/integration/live"
)

// What the canaries hold, and names that they have.
const (
	canaryText = "c4n4ry-of-the-user"
	canaryName = "n4med-by-the-user"
)

// control is what a tool finds in its own folder, and finds nowhere else.
type control struct{ file, text, found string }

// ownFiles are by the kind of tool that has to find them: one that reads a file, one that runs
// commands, one that looks for text in files, one that looks for names.
var ownFiles = map[string]control{
	"read": {"own.txt", "r34d-in-the-folder", "r34d-in-the-folder"},
	"bash": {"command.txt", "c0mmand-in-the-folder", "c0mmand-in-the-folder"},
	"grep": {"grep.txt", "gr3p-in-the-folder", "gr3p-in-the-folder"},
	"glob": {"deep/gl0b.txt", "", "gl0b.txt"},
}

// attempt is a call by which a model looks for canaries.
type attempt struct {
	kind string // of ownFiles, or "image"
	step step
}

// listAttempts returns all ways that a program has to look at files and into folders, and then
// those to see what is its own.
func listAttempts(program, project string, files, folders []string) (all []attempt) {
	add := func(kind, name string, input object) {
		all = append(all, attempt{kind, step{tool: name, bare: true, input: func(*request) map[string]any { return input }}})
	}
	run := func(kind, format string, args ...any) {
		all = append(all, attempt{kind, step{code: fmt.Sprintf(format, args...), bare: true}})
	}
	const wanted = canaryText + "|gr3p-in-the-folder"
	read := func(path string) {
		switch program {
		case "claude":
			add("read", "Read", object{"file_path": path})
		case "opencode":
			add("read", "read", object{"filePath": path})
		case "codex":
			run("image", "text(await tools.view_image({path: %q}))", path)
		}
	}
	command := func(line string) {
		switch program {
		case "claude":
			add("bash", "Bash", object{"command": line, "description": "look"})
		case "opencode":
			add("bash", "bash", object{"command": line, "description": "look"})
		case "codex":
			run("bash", "text(await tools.exec_command({cmd: %q}))", line)
		}
	}
	look := func(path, folder string) {
		switch program {
		case "claude":
			add("grep", "Grep", object{"pattern": wanted, "path": path, "output_mode": "content"})
			add("glob", "Glob", object{"pattern": "**/*.txt", "path": folder})
		case "opencode":
			add("grep", "grep", object{"pattern": wanted, "path": folder})
			add("glob", "glob", object{"pattern": "**/*.txt", "path": folder})
		}
	}
	for _, path := range files {
		read(path)
		command("cat " + path)
	}
	for _, folder := range folders {
		command("ls " + folder + "/")
		look(folder, folder)
	}
	read(filepath.Join(project, ownFiles["read"].file))
	command("cat " + ownFiles["bash"].file)
	look(filepath.Join(project, ownFiles["grep"].file), project)
	return all
}

// makeSteps returns the steps of a model that makes all attempts and says what it was told.
func makeSteps(program string, all []attempt) (steps []step) {
	for _, a := range all {
		if program == "opencode" && len(steps) > 0 { // which takes long for an answer, and not for a call
			steps[0].more = append(steps[0].more, a.step)
			continue
		}
		steps = append(steps, a.step)
	}
	return append(steps, step{echo: true, bare: true})
}

// listResults returns what the tools said to the model, by their kinds.
func listResults(m *model, all []attempt) map[string]string {
	found := make(map[string]string)
	requests := m.list()
	if len(requests) == 0 {
		return found
	}
	n := 0
	for _, i := range requests[len(requests)-1].items {
		if i.role == "result" && n < len(all) {
			found[all[n].kind] += i.text + "\n"
			n++
		}
	}
	return found
}

// plantCanaries makes canaries around the folder project of a person and in the state directory,
// and returns them: files, and folders that have files with a telling name.
func (p *person) plantCanaries(project, state string) (files, folders []string) {
	p.t.Helper()
	inHome := p.write("secret.txt", canaryText)
	p.write("work/secret.txt", canaryText)
	p.write(canaryName+"-in-the-home.txt", "")
	p.write("work/"+canaryName+"-above.txt", "")
	p.write("linked/"+canaryName+"-behind-a-link.txt", canaryText)
	link, linked := filepath.Join(project, "link.txt"), filepath.Join(project, "linked")
	inState := filepath.Join(state, "secret.txt")
	for _, err := range []error{
		os.WriteFile(inState, []byte(canaryText), 0o600), os.WriteFile(filepath.Join(state, canaryName+"-in-the-state.txt"), nil, 0o600),
		os.Symlink(inHome, link), os.Symlink(filepath.Join(p.home, "linked"), linked),
	} {
		if err != nil {
			p.t.Fatal(err)
		}
	}
	above := project + "/.." // filepath.Join would take it away
	return []string{inHome, above + "/secret.txt", link, inState}, []string{p.home, above, linked, state}
}

// canaries are what a model may learn of none.
var canaries = []string{canaryText, canaryName + "-in-the-home", canaryName + "-above", canaryName + "-behind-a-link", canaryName + "-in-the-state"}

// mayUse returns the kinds of tools that work in a program's own folder.
func mayUse(program, tools string) []string {
	switch {
	case tools == "none":
		return nil
	case program == "codex": // it looks at files by commands alone
		return []string{"bash"}
	case tools == "read":
		return []string{"read", "grep", "glob"}
	}
	return []string{"read", "grep", "glob", "bash"}
}

// leaving are the kinds of tools that find canaries where nothing confines. The others of Claude
// Code are kept to the folder by a rule of its own.
var leaving = map[string][]string{"claude": {"bash"}, "codex": {"bash"}, "opencode": {"read", "bash", "grep", "glob"}}

// Each program, with each set of tools and under each confinement: a model that looks for canaries
// in the home, above the folder, behind a symbolic link and in the state directory, by each tool
// that the program has, learns neither what they hold nor their names, and of its own folder what
// the tools allow.
// holds: security.md#headless-runs
func TestHeadlessCanaries(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"claude", "codex", "opencode"} {
		for _, c := range []struct{ tools, confinement string }{
			{"none", "bubblewrap"}, {"read", "bubblewrap"}, {"work", "bubblewrap"}, {"work", "landlock"}, {"none", "none"},
			{"work", "outside"}, // where nothing confines, the test has to find the canaries
		} {
			t.Run(program+" "+c.tools+" "+c.confinement, func(t *testing.T) {
				t.Parallel()
				desk, laptop := live.NewFriends(t)
				p := newPerson(t)
				project := filepath.Join(p.dir, "project")
				for _, own := range ownFiles {
					p.write("work/project/"+own.file, own.text)
				}
				files, folders := p.plantCanaries(project, desk.Home)
				all := listAttempts(program, project, files, folders)
				p.model.on("look for it", makeSteps(program, all)...)
				flags := []string{"--dir", project, "--tools", c.tools, "--confinement", c.confinement}
				if c.confinement == "landlock" {
					flags = append(flags, "--landlock")
				}
				s := p.serve(desk, laptop, program, flags...)
				answer := s.ask("look for it")
				found := listResults(p.model, all)
				for what, text := range map[string]string{"the answer": answer, "what the model is told": p.model.toldBy("result")} {
					for _, secret := range canaries {
						if strings.Contains(text, secret) != (c.confinement == "outside") {
							t.Errorf("%s has %s, or not where it should: %s", what, secret, text)
						}
					}
				}
				if !strings.Contains(answer, "tools said:") {
					t.Errorf("the model was not asked as the test wants: %s", answer)
				}
				for kind, own := range ownFiles {
					want := slices.Contains(mayUse(program, c.tools), kind)
					if got := strings.Contains(found[kind], own.found); got != want {
						t.Errorf("%s finds %s: %t\n%s", kind, own.file, got, found[kind])
					}
					leaves := slices.ContainsFunc(canaries, func(c string) bool { return strings.Contains(found[kind], c) })
					if want := c.confinement == "outside" && slices.Contains(leaving[program], kind); leaves != want {
						t.Errorf("%s finds canaries: %t\n%s", kind, leaves, found[kind])
					}
				}
				if s.Stderr.String() == "" {
					t.Error("acpctl serve did not say what confines")
				}
				s.Stop()
			})
		}
	}
}

// toldBy returns all that items of a role say.
func (m *model) toldBy(role string) string {
	var b strings.Builder
	for _, r := range m.list() {
		for _, i := range r.items {
			if i.role == role {
				b.WriteString(i.text + "\n")
			}
		}
	}
	return b.String()
}
