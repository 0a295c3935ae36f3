package cli

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/identity"
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

func (a *app) root() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "acpctl",
		Short: "Talk to other agents through the daemon acpd",
		Long: `acpctl talks to other agents through the daemon acpd, which it finds by its state
directory: --home, else $ACP_HOME, else ~/.acp. Where ACP_SOCKET names a socket of the
agents' folder it uses that and no directory, as ACP_AGENT with ACP_AGENT_KEY if set.

PEER is a trusted peer's name, its id or six or more digits that begin it. Exit
codes: 0 ok, 1 failure on this machine, 2 usage, 3 timeout, 4 refused, 5 peer
unreachable or unknown, 6 no daemon, 7 any other error of the peer, 130 interrupted.`,
		Example: `  acpctl peers                                        who is there
  acpctl trust desk                                   and on desk: acpctl trust laptop
  acpctl ping desk -c 3
  acpctl query desk 'Which branch is deployed?'
  acpctl serve --prompt -- ./answer.sh                answer what others ask`,
		Version:           a.release(),
		Args:              noVerb,
		RunE:              func(*cobra.Command, []string) error { return usagef("name a verb") },
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if err := noEmpty(cmd); err != nil {
				return err
			}
			return a.begin()
		},
	}
	cmd.SetOut(a.out)
	cmd.SetErr(a.err)
	cmd.SetHelpTemplate(help)
	cmd.SetFlagErrorFunc(flagError)
	cmd.SetVersionTemplate("acpctl {{.Version}}\n")
	f := cmd.PersistentFlags()
	f.StringVar(&a.home, "home", "", "state directory of the daemon (default $ACP_HOME or ~/.acp)")
	f.BoolVar(&a.json, "json", false, "print JSON, one object a line; most verbs of oacp indent it")
	cmd.AddCommand(
		a.statusCmd(), a.whoamiCmd(), a.peersCmd(),
		a.pingCmd(), a.queryCmd(), a.delegateCmd(), a.notifyCmd(), a.cancelCmd(), a.discoverCmd(),
		a.tasksCmd(), a.waitCmd(), a.inboxCmd(), a.serveCmd(),
		a.inviteCmd(), a.joinCmd(), a.trustCmd(), a.untrustCmd(),
		a.channelCmd(), a.oacpCmd(),
		a.completionCmd(), a.versionCmd(),
	)
	cmd.SetHelpCommand(helpCmd())
	cmd.InitDefaultHelpCmd()
	show := cmd.HelpFunc()
	cmd.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		if cmd.HasAvailableSubCommands() && len(usageWords(cmd)) == 0 {
			a.misnamed = noVerb(cmd, cmd.Flags().Args())
		}
		if a.misnamed != nil {
			return
		}
		var text bytes.Buffer // so that cobra meets no error, which it would tell
		cmd.SetOut(&text)
		show(cmd, args)
		a.out.Write(text.Bytes())
	})
	return cmd
}

// helpCmd is cobra's help, but that it knows what it does not know.
func helpCmd() *cobra.Command {
	return &cobra.Command{
		Use:    "help [VERB]",
		Short:  "Show how a verb is used",
		Hidden: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			about, left, err := cmd.Root().Find(args)
			if err != nil || len(left) > 0 {
				return usagef("unknown verb %q", strings.Join(args, " "))
			}
			about.InitDefaultHelpFlag()
			about.InitDefaultVersionFlag()
			return about.Help()
		},
	}
}

func noVerb(cmd *cobra.Command, args []string) error {
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

// noEmpty refuses an empty name, address or directory: a variable that is not set in
// a script must not mean what is meant without the flag.
func noEmpty(cmd *cobra.Command) error {
	for _, name := range []string{"home", "name", "addr", "revoke", "key-file"} {
		if f := cmd.Flags().Lookup(name); f != nil && f.Changed && strings.Trim(f.Value.String(), "[]") == "" {
			return usagef("--%s: empty: give a value, or leave the flag out", name)
		}
	}
	return nil
}

// words are the arguments that a verb takes, each of them once. Whom they name is not
// empty, nor an id that nobody has: a variable that is not set in a script is found out
// before anything is asked.
func words(names ...string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) < len(names) {
			return fmt.Errorf("%s is missing", names[len(args)])
		}
		if len(args) > len(names) {
			return fmt.Errorf("%q is one argument too many: put what contains spaces in quotes", args[len(names)])
		}
		for i, name := range names {
			if name != "PEER" && name != "ID or NAME" {
				continue
			}
			switch id, err := identity.ParseID(args[i]); {
			case strings.TrimSpace(args[i]) == "":
				return fmt.Errorf("%s is empty", name)
			case err == nil && id.IsZero():
				return fmt.Errorf("%s: %w", name, identity.ErrNobody)
			}
		}
		return nil
	}
}
