package frame

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// help begins with what can be typed as it stands.
const help = `{{with .Example}}{{.}}

{{end}}{{with (or .Long .Short)}}{{. | trimTrailingWhitespaces}}

{{end}}Usage:
  {{if .HasAvailableSubCommands}}{{if ne .Name .Use}}{{.UseLine}}
  {{end}}{{.CommandPath}} VERB{{else}}{{.UseLine}}{{end}}
{{if .HasAvailableSubCommands}}
Verbs:{{range .Commands}}{{if .IsAvailableCommand}}
  {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}
{{end}}{{if .HasAvailableLocalFlags}}
Flags:
{{.LocalFlags.FlagUsages | trimTrailingWhitespaces}}
{{end}}{{if .HasAvailableInheritedFlags}}
Flags of every verb:
{{.InheritedFlags.FlagUsages | trimTrailingWhitespaces}}
{{end}}`

// Prepare makes root the command that all verbs are below: with the flags of every verb, the
// help, and the check of what every verb refuses.
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
	root.SetHelpTemplate(help)
	root.SetFlagErrorFunc(flagError)
	root.SetVersionTemplate("acpctl {{.Version}}\n")
	flags := root.PersistentFlags()
	flags.StringVar(&f.Home, "home", "", "state directory of the daemon (default $ACP_HOME or ~/.acp)")
	flags.BoolVar(&f.JSON, "json", false, "print JSON, one object a line; most verbs of oacp indent it")
	root.AddCommand(verbs...)
	root.SetHelpCommand(newHelpCmd())
	root.InitDefaultHelpCmd()
	show := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		if cmd.HasAvailableSubCommands() && len(usageWords(cmd)) == 0 {
			f.misnamed = unknownVerb(cmd, cmd.Flags().Args())
		}
		if f.misnamed != nil {
			return
		}
		var text bytes.Buffer // so that cobra meets no error, which it would tell
		cmd.SetOut(&text)
		show(cmd, args)
		f.Out.Write(text.Bytes())
	})
}

// NeedVerb makes cmd one that does nothing without a verb of its own.
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
			about.InitDefaultVersionFlag()
			return about.Help()
		},
	}
}

// unknownVerb returns an error for arguments of a command that takes none but a verb.
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
