package setup

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSkill: setup writes the skill where the programs look for it, replaces it only as long as nobody has changed
// it, and takes it out when no program needs it.
func TestSkill(t *testing.T) {
	o := newOptions(t.TempDir())
	claudes, shared := filepath.Join(o.Home, ".claude/skills/acpd/SKILL.md"), filepath.Join(o.Home, ".agents/skills/acpd/SKILL.md")
	read := func(path string) string {
		t.Helper()
		text, err := os.ReadFile(path)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		return string(text)
	}
	for _, program := range ListPrograms() {
		setUp(t, program, o, false)
	}
	if read(claudes) != skill || read(shared) != skill {
		t.Fatalf("written are %q and %q", read(claudes), read(shared))
	}

	old := skill
	skill += "\nAnd one more thing.\n" // as a newer acpctl has it
	defer func() { skill = old }()
	setUp(t, "codex", o, false)
	if read(shared) != skill {
		t.Errorf("the skill was not replaced: %q", read(shared))
	}
	writeFile(t, claudes, "mine\n", 0o644)
	setUp(t, "claude", o, false)
	if read(claudes) != "mine\n" {
		t.Errorf("the user's skill is now %q", read(claudes))
	}

	undoAll(t, "codex", o)
	if read(shared) != skill {
		t.Errorf("OpenCode's skill is now %q", read(shared))
	}
	undoAll(t, "opencode", o)
	undoAll(t, "claude", o)
	if _, err := os.Stat(filepath.Join(o.Home, ".agents")); !os.IsNotExist(err) || read(claudes) != "mine\n" {
		t.Errorf("after undoing there is %v, %q", err, read(claudes))
	}
}

// TestSkillOfTheUser: a skill of that name that was there before stays as it is, also if it is empty.
func TestSkillOfTheUser(t *testing.T) {
	o := newOptions(t.TempDir())
	for i, path := range []string{".claude/skills/acpd/SKILL.md", ".agents/skills/acpd/SKILL.md"} {
		writeFile(t, filepath.Join(o.Home, path), strings.Repeat("mine\n", i), 0o600)
	}
	for _, program := range ListPrograms() {
		setUp(t, program, o, false)
		undoAll(t, program, o)
	}
	for i, path := range []string{".claude/skills/acpd/SKILL.md", ".agents/skills/acpd/SKILL.md"} {
		if text, err := os.ReadFile(filepath.Join(o.Home, path)); err != nil || string(text) != strings.Repeat("mine\n", i) {
			t.Errorf("%s is now %q, %v", path, text, err)
		}
	}
}

// TestSkillForm: the programs take a skill whose head has its name and what it is for.
func TestSkillForm(t *testing.T) {
	head, body, ok := strings.Cut(strings.TrimPrefix(skill, "---\n"), "\n---\n")
	name, about, _ := strings.Cut(head, "\n")
	if !ok || name != "name: acpd" || !strings.HasPrefix(about, "description: ") || len(about) > 1024 || strings.Contains(about, "\n") {
		t.Errorf("the head is %q", head)
	}
	first, _, _ := strings.Cut(strings.TrimSpace(body), "\n")
	if !strings.Contains(first, "`acpctl up`") || strings.Count(skill, "\n") > 22 {
		t.Errorf("it begins with %q and has %d lines", first, strings.Count(skill, "\n"))
	}
}
