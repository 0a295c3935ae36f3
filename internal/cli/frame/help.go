package frame

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
)

// formatHelp returns the help of a command. It begins with examples, which can be typed as they
// stand.
func formatHelp(cmd *cobra.Command) string {
	var b strings.Builder
	if cmd.Example != "" {
		b.WriteString(cmd.Example + "\n\n")
	}
	if about := cmp.Or(cmd.Long, cmd.Short); about != "" {
		b.WriteString(trimTrailingSpace(about) + "\n\n")
	}
	b.WriteString("Usage:\n  ")
	if !cmd.HasAvailableSubCommands() {
		b.WriteString(cmd.UseLine() + "\n")
	} else {
		if cmd.Name() != cmd.Use {
			b.WriteString(cmd.UseLine() + "\n  ")
		}
		b.WriteString(cmd.CommandPath() + " VERB\n\nVerbs:")
		for _, verb := range cmd.Commands() {
			if verb.IsAvailableCommand() {
				fmt.Fprintf(&b, "\n  %-*s %s", verb.NamePadding(), verb.Name(), verb.Short)
			}
		}
		b.WriteString("\n")
	}
	if cmd.HasAvailableLocalFlags() {
		b.WriteString("\nFlags:\n" + trimTrailingSpace(cmd.LocalFlags().FlagUsages()) + "\n")
	}
	if cmd.HasAvailableInheritedFlags() {
		b.WriteString("\nFlags of every verb:\n" + trimTrailingSpace(cmd.InheritedFlags().FlagUsages()) + "\n")
	}
	return b.String()
}

func trimTrailingSpace(s string) string { return strings.TrimRightFunc(s, unicode.IsSpace) }

// newHelpCmd returns cobra's help command, except that it reports unknown verbs.
func newHelpCmd() *cobra.Command {
	return &cobra.Command{
		Use:    "help [VERB]",
		Short:  "Show how a verb is used",
		Hidden: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			about, left, err := cmd.Root().Find(args)
			if (err != nil || len(left) > 0) && about.HasAvailableSubCommands() {
				return UsageErrorf("%w", checkNoUnknownVerb(about, left))
			}
			if err != nil || len(left) > 0 {
				return UsageErrorf("unknown verb %q", strings.Join(args, " "))
			}
			about.InitDefaultHelpFlag()
			return about.Help()
		},
	}
}

// checkNoUnknownVerb returns an error if there are arguments: none of them is a verb.
func checkNoUnknownVerb(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	problem := fmt.Sprintf("unknown verb %q", args[0])
	if args[0] == "" { // which all verbs begin with
		return errors.New(problem + ": name one of those that the help lists")
	}
	cmd.SuggestionsMinimumDistance = 2
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		problem += ": did you mean " + strings.Join(near, " or ") + "?"
	}
	return errors.New(problem)
}
