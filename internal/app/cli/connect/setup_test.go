package connect

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/app/cli/clitest"
	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/internal/app/cli/ui"
)

// newSetupDaemon returns a daemon, and the home directory of a user with no agent program.
func newSetupDaemon(t *testing.T) (*clitest.FakeDaemon, string) {
	home := clitest.SetUpHome(t)
	f := clitest.NewFakeDaemonOf(t, func(f *frame.Frame) []*cobra.Command { return []*cobra.Command{(&Verbs{f}).NewCmd()} })
	f.SetAnswer(client.MethodWhoami, &client.Whoami{Name: "desk"})
	return f, home
}

func readText(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return string(text)
}

// Each step is asked for, with what it writes; the first no ends it, another one leaves that step out.
func TestSetupAsks(t *testing.T) {
	f, home := newSetupDaemon(t)
	got := f.RunInteractive("no\n", "setup", "claude")
	if got.Code != 1 || !strings.HasSuffix(got.Err, "acpctl setup: nothing was written: the answer was not yes\n") {
		t.Errorf("a no: %+v", got)
	}
	if entries, _ := os.ReadDir(home); len(entries) > 0 {
		t.Errorf("a no writes %v", entries)
	}
	got = f.RunInteractive("perhaps\ny\n", "setup", "claude") // and then the end of input
	if entries, _ := os.ReadDir(home); len(entries) != 3 {
		t.Errorf("yes and the end of input: %+v, %v", got, entries)
	}
	got = f.RunInteractive("N\nno\nno\nYES\n", "setup", "claude")
	settings := readText(t, filepath.Join(home, ".claude", "settings.json"))
	if got.Code != 0 || strings.Contains(settings, "allow") || !strings.Contains(settings, `"ask"`) || !strings.Contains(got.Err, "May Claude Code use acp_query, acp_delegate and acp_notify without asking you?") || readText(t, filepath.Join(home, ".claude", "CLAUDE.md")) == "" {
		t.Errorf("%+v\n%s", got, settings)
	}
	if n := strings.Count(got.Err, "Type yes or no: "); n != 4 {
		t.Errorf("%d questions:\n%s", n, got.Err)
	}
	got = f.RunInteractive("yes\nyes\nno\n", "setup", "claude") // a yes to sending text is none to sending files
	settings = readText(t, filepath.Join(home, ".claude", "settings.json"))
	if got.Code != 0 || !strings.Contains(settings, "acp_peers") || !strings.Contains(settings, "acp_query") || !strings.Contains(settings, `"ask": ["mcp__acp__acp_file"]`) {
		t.Errorf("%+v\n%s", got, settings)
	}
	got = f.RunInteractive("yes\n", "setup", "claude")
	settings = readText(t, filepath.Join(home, ".claude", "settings.json"))
	if got.Code != 0 || strings.Contains(settings, `"ask"`) || !strings.Contains(got.Err, "May Claude Code use acp_file without asking you?") {
		t.Errorf("%+v\n%s", got, settings)
	}
	if got = f.RunInteractive("", "setup", "claude"); got.Code != 0 || got.Out != "nothing to change\n" {
		t.Errorf("all is there: %+v", got)
	}
	if got = f.RunInteractive("no\n", "setup", "claude", "--undo"); got.Code != 1 || !strings.Contains(readText(t, filepath.Join(home, ".claude.json")), "mcpServers") {
		t.Errorf("undone without a yes: %+v", got)
	}
	f.SetAnswer(client.MethodWakeList, &client.WakeRules{Answers: []client.WakeAnswersRule{{}}})
	got = f.RunInteractive("yes\n", "setup", "claude", "--undo")
	if _, err := os.Stat(filepath.Join(home, ".claude.json")); got.Code != 0 || err == nil || !strings.Contains(got.Err, "Answers still wake sessions") {
		t.Errorf("undone: %+v, %v", got, err)
	}
}

// A question stands below what a yes writes, however long that is: the answer is typed in the lines after it.
func TestSetupAsksBelowWhatItShows(t *testing.T) {
	f, _ := newSetupDaemon(t)
	questions := regexp.MustCompile(`\n(May Claude Code start|May Claude Code use|May the instructions of|Take what acpctl setup) `)
	for _, argv := range [][]string{{"setup", "claude"}, {"setup", "claude", "--undo"}} {
		got := f.RunInteractive("yes\nyes\nyes\nyes\nyes\n", argv...)
		asked := strings.Split(got.Err, "Type yes or no: ")
		for _, shown := range asked[:len(asked)-1] {
			if at := questions.FindStringIndex(shown); at == nil || strings.Contains(shown[at[1]:], "\n+") || !strings.Contains(shown[:at[0]], "\n@@ ") {
				t.Errorf("%q: %s", argv, shown)
			}
		}
		if len(asked) < 2 || got.Code != 0 {
			t.Errorf("%q: %+v", argv, got)
		}
	}
}

// Above a question is only the beginning of what is new and long. --dry-run shows all of it, and the file has it.
func TestSetupShowsTheBeginningOfTheSkill(t *testing.T) {
	f, home := newSetupDaemon(t)
	const last = "\n+Send nothing that your user would not send" // is in the last line
	if got := f.Run("setup", "claude", "--dry-run"); !strings.Contains(got.Out, last) || strings.Contains(got.Out, "--dry-run shows them") {
		t.Errorf("--dry-run: %+v", got)
	}
	got := f.RunInteractive("yes\nyes\nno\nno\nyes\n", "setup", "claude")
	skill := filepath.Join(home, ".claude/skills/acpd/SKILL.md")
	length := strings.Count(readText(t, skill), "\n")
	want := fmt.Sprintf("+++ %s (new)\n@@ line 1 @@\n+---\n+name: acpd\n", skill)
	if end := fmt.Sprintf("\n… (%d lines; acpctl setup claude --dry-run shows them)\n", length); !strings.Contains(got.Err, want) || !strings.Contains(got.Err, end) || strings.Contains(got.Err, last) {
		t.Errorf("%q or %q is missing, or all is shown: %+v", want, end, got)
	}
	if !strings.Contains(got.Err, "Claude Code asks you each time, then. To change that: acpctl setup claude\n") {
		t.Errorf("a no to sending: %+v", got)
	}
}

// What is neither a yes nor a no is asked for once more, and is no yes then; each question stands by itself.
func TestSetupAsksOnceMore(t *testing.T) {
	f, home := newSetupDaemon(t)
	got := f.RunInteractive("perhaps\nsure\nyes\n", "setup", "claude")
	if got.Code != 1 || strings.Count(got.Err, "Type yes or no: ") != 2 {
		t.Errorf("%+v", got)
	}
	if entries, _ := os.ReadDir(home); len(entries) > 0 {
		t.Errorf("no yes writes %v", entries)
	}
	got = f.Run("setup", "claude", "--yes")
	if got.Code != 0 || !strings.Contains(got.Err, "--yes does not answer this question: May Claude Code use acp_query") || !strings.Contains(got.Err, "--yes does not answer this question: May Claude Code use acp_file") {
		t.Errorf("%+v", got)
	}
}

// What a sandbox keeps setup from writing is told with what to do.
func TestSetupInASandbox(t *testing.T) {
	run := &frame.Frame{Terminal: ui.Terminal{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard}}
	for errno, hinted := range map[error]bool{syscall.EROFS: true, syscall.EACCES: true, syscall.EPERM: true, syscall.ENOSPC: false} {
		err := explainUnwritable(&os.PathError{Op: "open", Path: "/home/someone/.claude.json", Err: errno})
		if !errors.Is(err, errno) {
			t.Errorf("%v is lost: %v", errno, err)
		}
		var stderr strings.Builder
		run.Err = &stderr
		cmd := &cobra.Command{Use: "acpctl", RunE: func(*cobra.Command, []string) error { return err }}
		if code := run.Run(t.Context(), cmd, nil); code == 0 {
			t.Error("no failure")
		}
		if got := strings.Contains(stderr.String(), "run this in a terminal of your own"); got != hinted {
			t.Errorf("%v: %s", errno, stderr.String())
		}
	}
}
