package frame

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
)

// helpOf returns the help of a command. It begins with examples, which can be typed as they
// stand.
func helpOf(cmd *cobra.Command) string {
	var b strings.Builder
	if cmd.Example != "" {
		b.WriteString(cmd.Example + "\n\n")
	}
	if about := cmp.Or(cmd.Long, cmd.Short); about != "" {
		b.WriteString(trimEnd(about) + "\n\n")
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
		b.WriteString("\nFlags:\n" + trimEnd(cmd.LocalFlags().FlagUsages()) + "\n")
	}
	if cmd.HasAvailableInheritedFlags() {
		b.WriteString("\nFlags of every verb:\n" + trimEnd(cmd.InheritedFlags().FlagUsages()) + "\n")
	}
	return b.String()
}

func trimEnd(s string) string { return strings.TrimRightFunc(s, unicode.IsSpace) }

// Prepare adds to root the verbs, the flags of every verb and the help.
func (f *Frame) Prepare(root *cobra.Command, verbs ...*cobra.Command) {
	NeedVerb(root)
	root.SilenceErrors, root.SilenceUsage = true, true
	root.CompletionOptions.DisableDefaultCmd = true
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		if err := refuseEmptyFlags(cmd); err != nil {
			return err
		}
		return f.ChooseDaemon()
	}
	root.SetFlagErrorFunc(flagError)
	flags := root.PersistentFlags()
	flags.StringVar(&f.Home, "home", "", "state directory of the daemon (default $ACP_HOME or ~/.acp)")
	flags.BoolVar(&f.JSON, "json", false, "print JSON, one object a line; most verbs of oacp indent it")
	root.AddCommand(verbs...)
	root.SetHelpCommand(newHelpCmd())
	root.InitDefaultHelpCmd()
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		if cmd.HasAvailableSubCommands() && len(usageWords(cmd)) == 0 {
			f.misnamed = unknownVerb(cmd, cmd.Flags().Args())
		}
		if f.misnamed == nil {
			io.WriteString(f.Out, helpOf(cmd))
		}
	})
}

// NeedVerb makes cmd return an error if no verb of its own follows.
func NeedVerb(cmd *cobra.Command) {
	cmd.Args = unknownVerb
	cmd.RunE = func(*cobra.Command, []string) error { return Usagef("name a verb") }
}

// newHelpCmd returns cobra's help command, except that it reports unknown verbs.
func newHelpCmd() *cobra.Command {
	return &cobra.Command{
		Use:    "help [VERB]",
		Short:  "Show how a verb is used",
		Hidden: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			about, left, err := cmd.Root().Find(args)
			if err != nil || len(left) > 0 {
				return Usagef("unknown verb %q", strings.Join(args, " "))
			}
			about.InitDefaultHelpFlag()
			return about.Help()
		},
	}
}

// unknownVerb returns an error if there are arguments: none of them is a verb.
func unknownVerb(cmd *cobra.Command, args []string) error {
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
