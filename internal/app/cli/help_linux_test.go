package cli

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/app/cli/clitest"
	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/internal/app/cli/ui"
)

// The help of each verb begins with one sentence, has examples below it, and fits a terminal of 80 columns.
func TestHelpFitsItsTerminal(t *testing.T) {
	f := newDaemon(t)
	begin := regexp.MustCompile(`^[A-Z][^\n]*\.$`)
	var check func(*cobra.Command)
	check = func(cmd *cobra.Command) {
		lines := runAtWidth(t, f, 80, append(strings.Fields(cmd.CommandPath())[1:], "--help")...)
		sentence, rest, _ := strings.Cut(strings.Join(lines, "\n"), "\n\n")
		if !begin.MatchString(strings.ReplaceAll(sentence, "\n", " ")) || !strings.HasPrefix(rest, "  ") {
			t.Errorf("%s: the help begins with %q", cmd.CommandPath(), lines[:min(3, len(lines))])
		}
		for _, line := range lines {
			if n := ui.CountCells(line); n > 80 {
				t.Errorf("%s: %d cells: %s", cmd.CommandPath(), n, line)
			}
		}
		for _, verb := range cmd.Commands() {
			if verb.IsAvailableCommand() {
				check(verb)
			}
		}
	}
	check(NewRootCmd(frame.NewFrame(), ""))
}

// Each verb of a group is listed in the help of the program, and so is each that is in none.
func TestHelpListsAllVerbs(t *testing.T) {
	f := newDaemon(t)
	bare, all := f.Run(), f.Run("help", "all")
	if bare.Code != 0 || all.Code != 0 || bare.Err+all.Err != "" {
		t.Errorf("%+v, %+v", bare, all)
	}
	for _, verb := range NewRootCmd(frame.NewFrame(), "").Commands() {
		word := regexp.MustCompile(`(?m)^  (\S+, )*` + verb.Name() + `\b`)
		if verb.IsAvailableCommand() && (!word.MatchString(strings.ReplaceAll(bare.Out, ",\n  ", ", ")) || !word.MatchString(all.Out)) {
			t.Errorf("%s is not listed", verb.Name())
		}
	}
}

// What doctor has found is broken between words, below its text and not below its mark.
func TestDoctorFitsItsTerminal(t *testing.T) {
	user := t.TempDir()
	t.Setenv("HOME", user)
	t.Setenv("PATH", user)
	f := newDaemon(t)
	if err := os.Chmod(f.Home, 0o700); err != nil {
		t.Fatal(err)
	}
	f.SetAnswer(client.MethodStatus, &client.Status{Whoami: client.Whoami{ID: clitest.MyID, Name: "desk", Listen: []string{"127.0.0.1:7117"}}})
	f.SetAnswer(client.MethodPeers, &client.Peers{})
	f.SetHTTPAnswers(map[string]string{"GET unsent": "[]"})
	begin := regexp.MustCompile(`^(\[.\]| {3}) \S`)
	lines := runAtWidth(t, f, 60, "doctor", "-v")
	for _, line := range lines[:len(lines)-1] {
		if ui.CountCells(line) > 60 || !begin.MatchString(line) {
			t.Errorf("%q", line)
		}
	}
}

// Why a session cannot be woken is whole, on a line of its own.
func TestAgentsFitTheirTerminal(t *testing.T) {
	f := newDaemon(t)
	why := "its thread has not begun, and it answers nothing before: say something to it once"
	f.SetAnswer(client.MethodPeers, &client.Peers{})
	f.SetAnswer(client.MethodAgents, &client.Agents{Agents: []client.AgentState{{
		Agent: client.Agent{Name: "codex", MaxConcurrent: 1, Session: &client.SessionInfo{Harness: "codex", Unwakeable: why}}, Woken: &client.Woken{},
	}}})
	lines := runAtWidth(t, f, 80, "agents")
	if got := strings.Join(strings.Fields(strings.Join(lines[2:], " ")), " "); got != "cannot be woken: "+why || strings.Contains(lines[1], "woken") {
		t.Errorf("%q", lines)
	}
}
