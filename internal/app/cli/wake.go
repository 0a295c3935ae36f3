package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/internal/app/cli/ui"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

func (a *app) newWakeCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "wake",
		Short: "Say whose messages may wake a session of an agent program",
		Example: `  acpctl wake allow desk --kinds query,notify
  acpctl wake list
  acpctl wake revoke desk`,
		Long: `A session, such as a Claude Code or Codex that somebody works with, answers only while
it has a turn. What comes for it waits for its next turn, unless its sender is
allowed here to wake it: then a turn begins, which costs money, and the session is told
that a message waits. No peer is allowed at first. What peers cause so is bounded: see
agents, which shows who woke whom. Without a verb it lists what may wake sessions, as
wake list does.`,
	}
	list := a.newWakeListCmd()
	cmd.RunE = list.RunE
	cmd.AddCommand(a.newWakeAllowCmd(), list, a.newWakeRevokeCmd(), a.newWakeAnswersCmd(), a.newWakeTestCmd(), a.newWakeNotifyCmd())
	return cmd
}

func (a *app) newWakeAllowCmd() *cobra.Command {
	var p client.WakeAllowParams
	cmd := &cobra.Command{
		Use:   "allow PEER",
		Short: "Let a peer's messages wake sessions",
		Example: `  acpctl wake allow desk
  acpctl wake allow desk --kinds query --agent claude
  acpctl wake allow laptop --ask    asks you before a message begins a turn`,
		Long: `Lets messages of a peer wake sessions, from now on and until revoke or untrust. Kinds are
query, delegate, notify, result and error; partial results wake nobody. It adds: what was
allowed before for other kinds, or for every session, stays until wake revoke takes it back.
With --ask, acpctl approvals asks you whether a message may begin a turn. That does not hold the
message back: until your yes, its session reads it in its next turn, as without a rule.

A session where nobody is there to be asked for permissions, or that has skipped them, is
not woken without --unattended: what the peer writes is then read by a model whose tools
nobody watches. A Claude Code in its default mode, auto, is woken without it, and then decides
by its own rules what runs without asking you.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			p.Peer = args[0]
			rules, err := a.Daemon.AllowWake(cmd.Context(), p)
			if err != nil {
				return err
			}
			if err := a.printWakeRules(rules); err != nil {
				return err
			}
			if err := a.CheckOutput(); err != nil {
				return err
			}
			a.tellOfSessions(cmd.Context(), &p)
			if !p.Ask {
				return nil
			}
			return a.OfferOwnerNotify(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&p.Kinds, "kinds", nil, "only for these: "+strings.Join(kinds.ListNames(kinds.Wakes), ", ")+" (default: all of them)")
	f.StringVar(&p.Agent, "agent", "", "only the session of this name (default: every session)")
	cmd.RegisterFlagCompletionFunc("kinds", completeKinds)
	cmd.RegisterFlagCompletionFunc("agent", a.completeAgentFlag)
	f.BoolVar(&p.Ask, "ask", false, "acpctl approvals asks you before a message begins a turn")
	f.BoolVar(&p.Unattended, "unattended", false, "also if nobody is there to be asked for permissions")
	return cmd
}

// tellOfSessions tells a person which sessions a new permission concerns, whether each could be woken now,
// and what to do if not.
func (a *app) tellOfSessions(ctx context.Context, p *client.WakeAllowParams) {
	agents, err := a.Daemon.Agents(ctx)
	if err != nil {
		return // the rule is valid
	}
	concerned := 0
	for _, g := range agents {
		if g.Session != nil && g.Woken != nil && (p.Agent == "" || p.Agent == g.Name) {
			concerned++
			a.TellLine(g.Name + " " + a.describeWakeable(&g, p))
		}
	}
	if concerned == 0 {
		who := strings.TrimSpace("No session " + p.Agent)
		a.TellLine(who + " is attached now: the rule waits for one. To have one: " + kinds.RemedyNoSession)
	}
}

// describeWakeable says whether a session could be woken now by what a new permission allows.
func (a *app) describeWakeable(g *client.AgentState, p *client.WakeAllowParams) string {
	switch {
	case g.Session.Unwakeable != "":
		return "cannot be woken: " + g.Session.Unwakeable
	case !g.Woken.MutedUntil.IsZero():
		return "is muted until " + a.FormatTime(g.Woken.MutedUntil.Time) + ": acpctl agents mute " + g.Name + " 0s ends that"
	case g.Woken.Refused != "":
		return "was not woken a moment ago: " + g.Woken.Refused
	case p.Ask:
		return "can be woken, after your yes: acpctl approvals"
	}
	return "can be woken now. To try it: acpctl wake test " + g.Name
}

func (a *app) newWakeListCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List what may wake sessions",
		Example: `  acpctl wake list
  acpctl wake list --json`,
		Long: `Lists the rules of wake allow, those of config.yaml (agents), and whether answers wake
the session that asked. SOURCE says which file a rule is in.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			rules, err := a.Daemon.WakeRules(cmd.Context())
			if err != nil {
				return err
			}
			return a.printWakeRules(rules)
		},
	}
}

// printWakeRules prints rules as a table. The column of peers also has the rule for answers to what a session asked.
func (a *app) printWakeRules(rules *client.WakeRules) error {
	var rows [][]string
	row := func(peer, kind, agent string, ask, unattended bool, source string) {
		how := "at once"
		if ask {
			how = "after acpctl approvals"
		}
		if unattended {
			how += ", also unattended"
		}
		if agent == "" {
			agent = "every session"
		}
		rows = append(rows, []string{peer, kind, agent, how, source})
	}
	for _, r := range rules.Rules {
		row(r.Name, r.Kind, r.Agent, r.Ask, r.Unattended, r.Source)
	}
	for _, r := range rules.Answers {
		row("(who was asked)", "answer", r.Agent, false, r.Unattended, r.Source)
	}
	return a.PrintList(rules, []string{"PEER", "KIND", "WAKES", "HOW", "SOURCE"}, rows)
}

func (a *app) newWakeRevokeCmd() *cobra.Command {
	var p client.WakeRevokeParams
	cmd := &cobra.Command{
		Use:   "revoke PEER",
		Short: "Take back what wake allow gave a peer",
		Example: `  acpctl wake revoke desk
  acpctl wake revoke desk --kinds notify --agent claude`,
		Long: `Takes back rules of wake allow. It takes effect at once, also for messages that wait to wake a
session. Rules in config.yaml are changed there.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			p.Peer = args[0]
			revoked, err := a.Daemon.RevokeWake(cmd.Context(), p)
			if err != nil {
				return err
			}
			return a.PrintData(revoked, func() { a.PrintLine("%d revoked", revoked.Revoked) })
		},
	}
	cmd.Flags().StringSliceVar(&p.Kinds, "kinds", nil, "only for these (default: all of them)")
	cmd.Flags().StringVar(&p.Agent, "agent", "", "only the rules of the session of this name (default: all rules of the peer)")
	cmd.RegisterFlagCompletionFunc("kinds", completeKinds)
	cmd.RegisterFlagCompletionFunc("agent", a.completeAgentFlag)
	return cmd
}

func (a *app) newWakeAnswersCmd() *cobra.Command {
	var p client.WakeAnswersParams
	cmd := &cobra.Command{
		Use:   "answers on|off",
		Short: "Say whether answers to what a session asked wake it",
		Example: `  acpctl wake answers on
  acpctl wake answers off --agent claude`,
		Long: `With on, the final result or error of a delegation that a session gave wakes it, once,
and so does a question about it, whichever peer was asked. Partial results wake nobody.`,
		Args:      frame.NamedArgs("on or off"),
		ValidArgs: []string{"on", "off"},
		RunE: func(cmd *cobra.Command, args []string) error {
			switch args[0] {
			case "on", "off":
				p.On = args[0] == "on"
			default:
				return frame.UsageErrorf("%q: expected on or off", args[0])
			}
			rules, err := a.Daemon.SetWakeAnswers(cmd.Context(), p)
			if err != nil {
				return err
			}
			return a.printWakeRules(&client.WakeRules{Rules: []client.WakeRule{}, Answers: rules.Answers})
		},
	}
	cmd.Flags().StringVar(&p.Agent, "agent", "", "only the session of this name (default: every session)")
	cmd.RegisterFlagCompletionFunc("agent", a.completeAgentFlag)
	cmd.Flags().BoolVar(&p.Unattended, "unattended", false, "also if nobody is there to be asked for permissions")
	return cmd
}

func (a *app) newWakeTestCmd() *cobra.Command {
	var p client.WakeTestParams
	cmd := &cobra.Command{
		Use:   "test SESSION",
		Short: "Wake a session yourself, to see whether that works",
		Example: `  acpctl wake test claude
  acpctl wake test claude --json`,
		Long: `Begins a turn of a session that something may wake, with one line of your own, and says what
its program did. The turn costs what any turn costs, and counts against no peer.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			p.Agent = args[0]
			tested, err := a.Daemon.TestWake(cmd.Context(), p)
			if err != nil {
				return err
			}
			name := client.Line(tested.Agent)
			if !tested.Posted {
				return fmt.Errorf("%s was not woken: %s", name, client.Line(tested.Refused))
			}
			return a.PrintData(tested, func() { a.PrintLine("%s was woken: its program has taken the line", name) })
		},
	}
	cmd.Flags().BoolVar(&p.Unattended, "unattended", false, "also if nobody is there to be asked for permissions")
	return cmd
}

func (a *app) newWakeNotifyCmd() *cobra.Command {
	var p client.OwnerNotifyParams
	var off bool
	cmd := &cobra.Command{
		Use:   "notify [COMMAND...]",
		Short: "Have a command started when something waits for you",
		Example: `  acpctl wake notify notify-send acpd 'An agent needs you: acpctl approvals'
  acpctl wake notify --try          start it now
  acpctl wake notify --off`,
		Long: `Shows, sets or removes the command that acpd starts when a message begins to wait for acpctl
approvals, and when one did not wake a session because a person is needed there. No shell reads
its words. Its environment has ACP_EVENT (approval, needs-person or test), ACP_NUMBER (for
acpctl approvals yes), ACP_PEER (the name that the peer has here), ACP_AGENT and ACP_KIND. They
have no character but a-z, 0-9, ".", "_" and "-", so that they need no quotes in JSON; ACP_AGENT
is empty for an agent whose name has others. What a message says is in none of them.

The command starts at most once in 30 seconds, and 6 times an hour for one peer. It is ended after
10 seconds. One in config.yaml (owner, notify) is used instead.`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if off && len(args) > 0 {
				return frame.UsageErrorf("--off: leave the command out")
			}
			p.Set, p.Command, p.Test = off || len(args) > 0, args, p.Test || len(args) > 0
			set, err := a.SetOwnerNotify(cmd.Context(), p)
			if err != nil {
				return err
			}
			return a.PrintData(set, func() { a.PrintLine("%s", frame.DescribeOwnerNotify(set)) })
		},
	}
	cmd.Flags().SetInterspersed(false) // the command's own flags are its own
	cmd.Flags().BoolVar(&off, "off", false, "start nothing from now on")
	cmd.Flags().BoolVar(&p.Test, "try", false, "start it now, with test as ACP_EVENT")
	return cmd
}

func (a *app) newApprovalsCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "approvals",
		Short: "List the messages and files that wait for your word",
		Example: `  acpctl approvals
  acpctl approvals yes 482913
  acpctl approvals always 482913    also what comes later of this peer and kind
  acpctl approvals yes f482913      take a file
  acpctl approvals no 482913        its sender gets a no, or it stays in the inbox`,
		Long: `Lists messages of peers that wake allow --ask lets ask. TEXT is the beginning of what the
peer wrote; the whole is in the inbox (acpctl inbox), except that of queries and
delegations. "no" declines these, and their sender gets that answer; another message stays in the
inbox. One that you have approved stays in the list until its session is woken: it waits
for its turn, or for room within the bounds of turns. Until then no takes it back.

The kind file is a file that a peer wants to send: its first one, or one beyond what it may send on one day. TEXT has its
name, its size and what the peer says of it. It waits while the peer's acpctl send runs. "always" takes all files of
the peer from then on, until acpctl files ask.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			all, err := a.Daemon.Approvals(cmd.Context())
			if err != nil {
				return err
			}
			ids := make([]wire.MessageID, len(all))
			for i := range all {
				ids[i] = all[i].Message
			}
			shown := a.ShortenIDs(ids)
			var rows [][]string
			for i, p := range all {
				rows = append(rows, []string{p.ID, p.Name, p.Kind, ui.DashIfEmpty(p.Agent), a.FormatAge(p.Since), shown[i], a.describeApproval(p), p.Text})
			}
			return a.PrintData(client.Approvals{Approvals: all}, func() {
				a.PrintTable([]string{"ID", "PEER", "KIND", "WAKES", "SINCE", "MESSAGE", "WAITS FOR", "TEXT"}, rows)
			})
		},
	}
	for answer, short := range map[string]string{
		"yes":    "Let a message wake its session, or take a file",
		"always": "Do the same, also with all later ones of its peer and kind",
		"no":     "Decline a query, delegation or file, or leave another message in the inbox",
	} {
		cmd.AddCommand(&cobra.Command{
			Use:               answer + " ID",
			Short:             short,
			Example:           "  acpctl approvals\n  acpctl approvals " + answer + " 482913",
			ValidArgsFunction: a.completeApprovals,
			RunE: func(cmd *cobra.Command, args []string) error {
				decided, err := a.Daemon.Approve(cmd.Context(), client.ApproveParams{ID: args[0], Answer: answer})
				if err != nil {
					return err
				}
				return a.PrintData(decided, func() {
					a.PrintLine("%s: %s", answer, formatApproval(decided))
					if decided.KeptBy != "" {
						a.TellLine("It waits for " + a.describeApproval(*decided) + ".")
					}
				})
			},
		})
	}
	return cmd
}

// formatApproval names what waits for an approval: its kind, its peer and, unless it is a file, its session.
func formatApproval(p *client.Approval) string {
	said := p.Kind + " of " + p.Name
	if p.Agent != "" {
		said += " for " + p.Agent
	}
	return client.Line(said)
}

// describeApproval says what a message waits for.
func (a *app) describeApproval(p client.Approval) string {
	switch {
	case !p.Approved:
		return "your word"
	case p.KeptBy == "":
		return "its turn (approved)"
	}
	return "room (approved), " + a.FormatTime(p.KeptUntil.Time) + " at the earliest: " + client.Line(p.KeptBy)
}
