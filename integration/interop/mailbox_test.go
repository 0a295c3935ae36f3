package interop

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/acpd/acpd/integration/live"
)

func TestMain(m *testing.M) {
	code := m.Run()
	live.RemovePrograms()
	os.Exit(code)
}

const mailboxFile = "../vectors/oacp/mailbox.json"

// session lists the actions of the reference on a home, step by step: vectors/oacp/README.md.
type session struct {
	Files map[string]string `json:"files"`
	Steps []step            `json:"steps"`
}

type step struct {
	Remove string   `json:"remove,omitempty"`
	Args   []string `json:"args,omitempty"`

	Exit   int               `json:"exit,omitzero"`
	Stdout []string          `json:"stdout,omitempty"`
	Stderr []string          `json:"stderr,omitempty"`
	Usage  bool              `json:"usage,omitzero"`
	Reads  []string          `json:"reads,omitempty"`
	Left   map[string]string `json:"left,omitempty"`
}

// play writes the files into a folder, and calls check with each step and what the
// program does with it there.
func (s session) play(t *testing.T, program []string, change func([]string) []string, check func(i int, was, is step)) {
	dir := t.TempDir()
	for name, text := range s.Files {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o777), os.WriteFile(path, []byte(text), 0o666)); err != nil {
			t.Fatal(err)
		}
	}
	for i, st := range s.Steps {
		if st.Remove != "" {
			if err := os.Remove(filepath.Join(dir, st.Remove)); err != nil {
				t.Fatal(err)
			}
			check(i, st, st)
			continue
		}
		check(i, st, st.run(t, dir, append(program[:len(program):len(program)], change(st.Args)...)))
	}
}

func (st step) run(t *testing.T, dir string, command []string) step {
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Join(dir, "user"), "OACP_HOME=home", "COLUMNS=200"}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	now := step{Args: st.Args, Exit: cmd.ProcessState.ExitCode(), Stdout: split(out.String()), Stderr: split(errs.String()), Reads: st.Reads}
	if now.Exit == 2 && strings.HasPrefix(errs.String(), "usage: ") { // in words that depend on Python's release
		now.Usage, now.Stderr = true, nil
	}
	for _, name := range st.Reads {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Error(err)
		}
		if now.Left == nil {
			now.Left = make(map[string]string)
		}
		now.Left[name] = string(b)
	}
	return now
}

func split(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}

// ourKeys are the keys that acpctl adds at the end of the reference's JSON objects.
var ourKeys = regexp.MustCompile(`(?m)(,\n *"(file|id|expires_at|expired|rank|name_rank)": [^\n{\[]*?)+$`)

// errorText matches the text of an error in JSON.
var errorText = regexp.MustCompile(`"error": "(?:[^"\\]|\\.)*"`)

// withoutErrorTexts returns the step without the words of errors, which each tool has of its own.
func (st step) withoutErrorTexts() step {
	st.Stdout = split(errorText.ReplaceAllString(strings.Join(st.Stdout, "\n"), `"error": ""`))
	if st.Stderr != nil {
		st.Stderr = []string{}
	}
	return st
}

// TestMailbox: acpctl oacp does what the reference was recorded to do, but for the words of
// errors and the keys that it adds.
func TestMailbox(t *testing.T) {
	s := readVectors[session](t, mailboxFile)
	ran := 0
	change := func(args []string) []string {
		if args[0] == "inbox" {
			return append(args[:len(args):len(args)], "--order", "name")
		}
		return args
	}
	s.play(t, []string{live.ProgramPath(t, "acpctl"), "oacp"}, change, func(i int, was, is step) {
		if was.Remove != "" {
			return
		}
		ran++
		if slices.Contains(was.Args, "--json") && was.Args[0] == "inbox" {
			is.Stdout = split(ourKeys.ReplaceAllString(strings.Join(is.Stdout, "\n"), ""))
		}
		if was.Usage { // acpctl's own words
			if is.Stderr == nil && is.Stdout == nil {
				t.Errorf("%q ends with 2 and does not say why", was.Args)
			}
			is.Usage, is.Stderr, is.Stdout = true, nil, nil
		}
		was, is = was.withoutErrorTexts(), is.withoutErrorTexts()
		if diff := cmp.Diff(was, is); diff != "" {
			t.Errorf("%q (-recorded +acpctl):\n%s", was.Args, diff)
		}
	})
	if ran < 50 {
		t.Errorf("%d commands", ran)
	}
}
