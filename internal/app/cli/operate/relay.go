package operate

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/internal/app/cli/ui"
	"github.com/acpd/acpd/internal/shellpath"
)

func (v *verbs) newRelayCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "relay",
		Short: "Use servers (NATS) that pass packets on, for peers that no network of yours reaches",
		Example: `  acpctl relay add tls://nats.example.org
  acpctl relay list
  acpctl relay test                 what is wrong, and what to do
  acpctl relay nkey                 for the configuration of the server`,
		Long: `A relay passes packets on between daemons that do not reach each other. The content stays
between the two: the relay sees who sends how much to whom, and when. Both daemons use
the same relay; acpctl invite names it, and acpctl join asks before it keeps it.`,
	}
	frame.RequireVerb(cmd)
	cmd.AddCommand(v.newRelayAddCmd(), v.newRelayRemoveCmd(), v.newRelayListCmd(), v.newRelayTestCmd(), v.newRelayNkeyCmd())
	return cmd
}

// relayLogin says from where the secret of a relay is read.
type relayLogin struct{ credentials, tokenFile, passwordFile string }

func (v *verbs) newRelayAddCmd() *cobra.Command {
	var p client.RelayAddParams
	var login relayLogin
	cmd := &cobra.Command{
		Use:   "add URL",
		Short: "Use a relay from now on",
		Example: `  acpctl relay add tls://nats.example.org
  acpctl relay add wss://nats.example.org --name hub --credentials nats.creds
  openssl rand -hex 24 >token && chmod 600 token   the server's configuration has the same
  acpctl relay add tls://nats.example.org --token-file token --share`,
		Long: `URL is tls://HOST:PORT, or wss://HOST:PORT, which also passes HTTP proxies. nats:// and ws://
are for a server on this machine. Without --credentials, --token-file and --user the daemon logs
in with an nkey of its own, which acpctl relay nkey prints.

The relay is tried first, and is not added if it cannot be used; --no-check adds it untried.
It is kept in relays.yaml in the state directory; config.yaml can have relays too.

Secrets come from files that only you can read, or with - from standard input or the terminal:
other users of this machine can read command lines.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := frame.CheckValuesNotEmpty(cmd, args); err != nil {
				return err
			}
			p.URL = args[0]
			return v.addRelay(cmd, p, login)
		},
	}
	f := cmd.Flags()
	f.StringVar(&p.Name, "name", "", "what it is called here (default: its host, with hyphens)")
	f.Var((*shellpath.Flag)(&login.credentials), "credentials", "a `FILE` of NATS credentials (.creds), which the daemon reads at each login")
	f.Var((*shellpath.Flag)(&login.tokenFile), "token-file", "a `FILE` that has a token, or - for standard input")
	f.StringVar(&p.User, "user", "", "log in as this user, with --password-file")
	f.Var((*shellpath.Flag)(&login.passwordFile), "password-file", "a `FILE` that has the password of --user, or - for standard input")
	f.BoolVar(&p.Share, "share", false, "let acpctl invite --with-credential give the token away")
	f.BoolVar(&p.NoCheck, "no-check", false, "add it untried")
	return cmd
}

func (v *verbs) addRelay(cmd *cobra.Command, p client.RelayAddParams, login relayLogin) error {
	ctx := cmd.Context()
	whole, err := identity.ParseRelayURL(p.URL)
	if err != nil {
		return frame.UsageErrorf("URL: %w", err)
	}
	p.URL = whole
	if p.Name != "" {
		if err := identity.CheckRelayName(p.Name); err != nil {
			return frame.UsageErrorf("--name: %w", err)
		}
	}
	switch ways := frame.ListGiven(cmd, "credentials", "token-file", "user"); {
	case len(ways) > 1:
		return frame.UsageErrorf("--%s: leave one of them", strings.Join(ways, " and --"))
	case cmd.Flags().Changed("user") != cmd.Flags().Changed("password-file"):
		return frame.UsageErrorf("--user and --password-file belong together: give both, or neither")
	case p.Share && !cmd.Flags().Changed("token-file"):
		return frame.UsageErrorf("--share: only a token can be given away: add --token-file, or leave it out")
	}
	if err := v.readRelayLogin(ctx, login, &p); err != nil {
		return err
	}
	if p.Share {
		if err := identity.CheckSharedToken(p.Token); err != nil {
			return frame.UsageErrorf("--share: %w", err)
		}
	}
	added, err := v.Daemon.AddRelay(ctx, p)
	if err != nil {
		return err
	}
	v.SetDoneNote("the relay %s is used from now on: acpctl relay remove %[1]s takes it out", added.Relay.Name)
	err = v.PrintData(added, func() {
		v.PrintLine("%s added", client.Line(added.Relay.Name))
		if len(added.Steps) > 0 {
			v.PrintForPerson("%s", client.Line(added.Steps[0].What))
		}
		v.PrintForPerson("%s is used from now on.", client.Line(added.Relay.URL))
		v.PrintForPerson("acpctl invite names it, and the other side keeps it when it joins.")
	})
	v.printRemedies("", added.Steps)
	return err
}

// readRelayLogin reads the secrets that the flags name, and makes the path of credentials absolute.
func (v *verbs) readRelayLogin(ctx context.Context, login relayLogin, p *client.RelayAddParams) (err error) {
	switch {
	case login.credentials != "":
		p.Credentials, err = makeAbsolute("--credentials", login.credentials)
	case login.tokenFile != "":
		p.Token, err = v.readSecretFile(ctx, "--token-file", login.tokenFile, "Token: ")
	case login.passwordFile != "":
		p.Password, err = v.readSecretFile(ctx, "--password-file", login.passwordFile, "Password: ")
	}
	return err
}

// printRemedies prints on standard error what to do about steps that did not go well. before stands before
// each.
func (v *verbs) printRemedies(before string, steps []client.RelayStep) {
	for _, s := range steps {
		if s.Verdict == client.StepOK || v.JSON {
			continue
		}
		what := s.What
		if s.Remedy != "" {
			what += ": " + s.Remedy
		}
		if s.Verdict == client.StepWarning {
			what = "warning: " + what
		}
		v.Warn("%s%s", before, what)
	}
}

func (v *verbs) newRelayRemoveCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "remove NAME",
		Short: "Use a relay no more",
		Example: `  acpctl relay remove hub
  acpctl relay list`,
		Long: `Takes a relay out that relay add or join has added. Connections over it end; peers that are
reached in another way stay connected. A relay of config.yaml is taken out there.`,
		ValidArgsFunction: v.completeRelays,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := frame.CheckValuesNotEmpty(cmd, args); err != nil {
				return err
			}
			if err := v.Daemon.RemoveRelay(cmd.Context(), args[0]); err != nil {
				return err
			}
			v.SetDoneNote("%s is removed", args[0])
			return v.PrintData(client.RelayRemoveParams{Name: args[0]}, func() { v.PrintLine("%s removed", client.Line(args[0])) })
		},
	}
}

func (v *verbs) newRelayListCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the relays, and how the daemon stands to each",
		Example: `  acpctl relay list
  acpctl relay list --json          with counts of packets`,
		Long: `STATE is up, connecting, down (it cannot be reached), refused (it refuses the login, or what
the daemon has to do there) or unused (config.yaml has another one of the name, or its settings
cannot be used); why, standard error has. The daemon goes on trying. SOURCE is config (config.yaml) or kept (relay add, join).`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			relays, err := v.Daemon.Relays(cmd.Context())
			if err != nil {
				return err
			}
			var rows [][]string
			for _, r := range relays {
				rtt := "-"
				if r.RTTUS > 0 && r.State == client.RelayUp {
					rtt = ui.FormatMilliseconds(r.RTTUS)
				}
				rows = append(rows, []string{r.Name, string(r.State), v.FormatAge(r.Since.Time), rtt, string(r.Login), string(r.Source), r.URL})
			}
			if err := v.PrintList(client.Relays{Relays: relays}, []string{"NAME", "STATE", "SINCE", "RTT", "LOGIN", "SOURCE", "URL"}, rows); err != nil {
				return err
			}
			for _, r := range relays {
				if r.Error != "" {
					v.tellOfRelay(r.Name, r.Error)
				}
				if r.Clone {
					v.tellOfRelay(r.Name, "another process uses it with this daemon's identity: stop one of the two")
				}
			}
			if len(relays) == 0 {
				v.PrintForPerson("to use one: acpctl relay add URL")
			}
			return nil
		},
	}
}

// tellOfRelay says on standard error what is wrong with a relay, also where no person reads: the list does
// not.
func (v *verbs) tellOfRelay(name, what string) {
	if !v.JSON {
		v.Warn("%s: %s", name, what)
	}
}

func (v *verbs) newRelayTestCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "test [NAME]",
		Short: "Try a relay, or all of them",
		Example: `  acpctl relay test
  acpctl relay test hub`,
		Long: `Logs in a second time, in addition to the daemon, sends a packet to itself and one to
nobody, and measures the round trip. Each step is ok, a warning or failed; what to do about the
latter two goes to standard error. A warning comes if the account may listen to what is for
others. With reach.stun in config.yaml it says too what kind of NAT this machine is behind: that
of one port for all peers, or of another for each, is known from two STUN servers. It takes 10 s
at most. Exits 0 if all relays can be used, else as the first error says.`,
		ValidArgsFunction: v.completeRelays,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := frame.CheckValuesNotEmpty(cmd, args); err != nil {
				return err
			}
			checks, err := v.Daemon.TestRelays(cmd.Context(), frame.FirstOrEmpty(args))
			if err != nil {
				return err
			}
			return v.printChecks(cmd, checks)
		},
	}
}

// printChecks prints what came of trying relays: a row for each step on standard output, and what to
// do on standard error. The exit code is that of the first error.
func (v *verbs) printChecks(cmd *cobra.Command, checks []client.RelayCheck) error {
	var rows [][]string
	code := 0
	for _, c := range checks {
		for _, s := range c.Steps {
			took := "-"
			if s.TookUS > 0 {
				took = ui.FormatMilliseconds(s.TookUS)
			}
			rows = append(rows, []string{c.Name, s.Step, string(s.Verdict), took, s.What})
		}
		if c.Error != nil && code == 0 {
			code = frame.FindExitCode(c.Error)
		}
	}
	if err := v.PrintList(client.RelayChecks{Checks: checks}, []string{"NAME", "STEP", "RESULT", "TOOK"}, rows); err != nil {
		return err
	}
	for _, c := range checks {
		if c.Error != nil && len(c.Steps) == 0 && !v.JSON {
			v.Tell("%s: %s: %s%s", cmd.CommandPath(), client.Line(c.Name), client.Line(c.Error.Message), v.DescribeQuoted(c.Error))
		}
		v.printRemedies(client.Line(c.Name)+": ", c.Steps)
	}
	if code != 0 {
		return frame.Exit(code)
	}
	return nil
}

func (v *verbs) newRelayNkeyCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "nkey",
		Short: "Print the daemon's nkey, for the configuration of a server",
		Example: `  acpctl relay nkey
  acpctl relay nkey --json`,
		Long: `Prints the public half of the key with which the daemon logs in at relays without other
credentials. It is no secret, and no key of the daemon's identity. It stays the same as long as
the identity does. docs/reach.md shows where a server's configuration has it.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			nkey, err := v.Daemon.RelayNkey(cmd.Context())
			if err != nil {
				return err
			}
			return v.PrintData(client.RelayNkey{Nkey: nkey}, func() {
				v.PrintLine("%s", client.Line(nkey))
				v.PrintForPerson("in the server's configuration: authorization { users = [ { nkey: %s } ] }", client.Line(nkey))
			})
		},
	}
}

// completeRelays completes the name of a relay.
func (v *verbs) completeRelays(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return v.CompleteFirstArg(cmd, args, func(ctx context.Context) (found []cobra.Completion) {
		relays, _ := v.Daemon.Relays(ctx)
		for _, r := range relays {
			if strings.HasPrefix(r.Name, begun) && identity.CheckRelayName(r.Name) == nil {
				found = append(found, cobra.CompletionWithDesc(r.Name, string(r.State)+" "+client.Line(r.URL)))
			}
		}
		return found
	})
}
