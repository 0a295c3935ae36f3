package cli

import (
	"bytes"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/integration/live"
	"github.com/acpd/acpd/internal/app/cli/clitest"
	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/internal/app/cli/ui"
)

// runAtWidth runs a command line at a terminal of so many columns until it ends, and returns the lines
// that it has written.
func runAtWidth(t *testing.T, f *clitest.FakeDaemon, columns int, args ...string) (lines []string) {
	t.Helper()
	master, slave, err := live.OpenTerminal(50, uint16(columns))
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	var seen bytes.Buffer
	read := make(chan struct{})
	go func() { // ends with the last who has the terminal
		defer close(read)
		io.Copy(&seen, master)
	}()
	code := f.RunWithoutHome(t.Context(), ui.Terminal{In: strings.NewReader(""), Out: slave, Err: io.Discard, OutTTY: true}, append([]string{"--home", f.Home}, args...)...)
	slave.Close()
	<-read
	if code != 0 {
		t.Errorf("%q at %d columns: exit code %d", args, columns, code)
	}
	return strings.Split(strings.TrimSuffix(strings.ReplaceAll(seen.String(), "\r\n", "\n"), "\n"), "\n")
}

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
