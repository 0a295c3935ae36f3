package cli

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/acpd/acpd/internal/app/cli/clitest"
	"github.com/acpd/acpd/internal/app/cli/frame"
)

// newDaemon returns a daemon whose command lines have all verbs.
func newDaemon(t *testing.T) *clitest.FakeDaemon {
	return clitest.NewFakeDaemon(t, func(f *frame.Frame) *cobra.Command { return NewRootCmd(f, "") })
}

// Help, completion and man pages are made of the tree, so every verb in it says what it does
// and how it is typed.
func TestEveryVerbIsDescribed(t *testing.T) {
	var check func(*cobra.Command)
	check = func(cmd *cobra.Command) {
		if cmd.Short == "" || !strings.Contains(cmd.Example, cmd.CommandPath()) || cmd.Args == nil {
			t.Errorf("%s lacks a line about it, an example or a check of its arguments", cmd.CommandPath())
		}
		for _, verb := range cmd.Commands() {
			if verb.IsAvailableCommand() {
				check(verb)
			}
		}
	}
	check(NewRootCmd(frame.NewFrame(), ""))
}

// A verb that takes no arguments offers no files as arguments.
func TestNoArgumentsNoFiles(t *testing.T) {
	f := newDaemon(t)
	for _, verb := range [][]string{{"status"}, {"channel", "unsent"}, {"oacp", "bindings"}} {
		if got := f.Run(append(append([]string{cobra.ShellCompNoDescRequestCmd}, verb...), "")...); got.Out != ":4\n" {
			t.Errorf("%s: %+v", strings.Join(verb, " "), got)
		}
	}
}

// A flag that takes a path expands the tilde, which shells leave behind --flag=.
func TestFlagsOfPathsExpandTheTilde(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	path := regexp.MustCompile(`(?i)\b(file|folder|directory|home of)\b`)
	noPath := []string{"payload", "context", "data", "suffix", "user"} // text, which may be in a @file, or whose usage names another flag
	seen := 0
	var check func(*cobra.Command)
	check = func(cmd *cobra.Command) {
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Value.Type() != "string" || !path.MatchString(f.Usage) || slices.Contains(noPath, f.Name) {
				return
			}
			seen++
			if err := f.Value.Set("~/x"); err != nil || f.Value.String() != home+"/x" {
				t.Errorf("%s --%s=~/x: %s, %v", cmd.CommandPath(), f.Name, f.Value, err)
			}
		})
		for _, verb := range cmd.Commands() {
			check(verb)
		}
	}
	check(NewRootCmd(frame.NewFrame(), ""))
	if seen < 12 {
		t.Errorf("%d flags take a path", seen)
	}
	if got := newDaemon(t).Run("status", "--home=~no-such-user/acp"); got.Code != frame.ExitUsage || !strings.Contains(got.Err, `--home: ~no-such-user/acp: there is no user "no-such-user"`) {
		t.Errorf("of a user who is not there: %+v", got)
	}
}
