package oacp

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/kinds"
)

func (o *verbs) newBindCmd() *cobra.Command {
	var p client.OACPBindParams
	var linger time.Duration
	cmd := &cobra.Command{
		Use:   "bind PROJECT AGENT PEER",
		Short: "Say that an agent lives on a peer's machine, so that its mail goes there",
		Example: `  acpctl oacp bind demo reviewer laptop                     mail for the reviewer goes to the laptop
  acpctl oacp bind demo reviewer laptop --mode on-stored --linger 10m`,
		Long: `From now on the daemon carries what any tool puts into the agent's inbox here into
its inbox at the peer, as soon as the peer can be reached. The other side must bind
the agents that send from here, because it only takes mail from those. With mode
mirror the copy here stays until the agent there has finished its own; with on-stored
it is removed when it has been stored there for a time, the linger. The project must
exist (see init); the agent's folder is made.`,
		ValidArgsFunction: o.completeArgs,
		RunE: o.withDaemonCheck(func(ctx context.Context, args []string) error {
			if linger < 0 || linger%time.Second != 0 {
				return frame.UsageErrorf("--linger: expected whole seconds, like 90s or 10m")
			}
			p.Project, p.Agent, p.Peer, p.LingerSecs = args[0], args[1], args[2], uint64(linger/time.Second)
			b, err := o.Daemon.OACPBind(ctx, p)
			if err != nil {
				return err
			}
			return o.printBindings(b, *b)
		}),
	}
	f := cmd.Flags()
	f.StringVar((*string)(&p.Mode), "mode", string(client.ModeMirror), "when the copy here goes: mirror or on-stored")
	f.DurationVar(&linger, "linger", 0, "with on-stored: how long the copy stays (default 2m)")
	f.BoolVar(&p.Take, "take", false, "also bind an agent that has sent from here and has moved")
	return cmd
}

func (o *verbs) newUnbindCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "unbind PROJECT AGENT",
		Short: "Say that an agent lives on this machine again",
		Example: `  acpctl oacp unbind demo reviewer
  acpctl oacp bindings demo`,
		Long: `Ends a binding. Mail in the agent's inbox stays there and is no longer carried,
and the daemon takes mail from peers for the agent. The agent's folder stays too: if
its name was mistyped, remove the folder.`,
		ValidArgsFunction: o.completeArgs,
		RunE: o.withDaemonCheck(func(ctx context.Context, args []string) error {
			b, err := o.Daemon.OACPUnbind(ctx, client.OACPUnbindParams{Project: args[0], Agent: args[1]})
			if err != nil {
				return err
			}
			return o.PrintData(b, func() {
				o.PrintTable([]string{"PROJECT", "AGENT", "PEER", "STATE"}, [][]string{{client.Line(b.Project), b.Agent, b.Peer, "unbound"}})
			})
		}),
	}
}

// printBindings prints answer with --json, else a table of bindings.
func (o *verbs) printBindings(answer any, bindings ...client.OACPBinding) error {
	var rows [][]string
	for _, b := range bindings {
		linger := "-"
		if b.LingerSecs > 0 {
			linger = kinds.FormatDuration(time.Duration(b.LingerSecs) * time.Second)
		}
		rows = append(rows, []string{client.Line(b.Project), b.Agent, b.Peer, string(b.Mode), linger})
	}
	return o.PrintData(answer, func() {
		o.PrintTable([]string{"PROJECT", "AGENT", "PEER", "MODE", "LINGER"}, rows)
	})
}

func (o *verbs) newBindingsCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "bindings [PROJECT]",
		Short: "List the agents that live on other machines",
		Example: `  acpctl oacp bindings
  acpctl oacp bindings demo --json`,
		ValidArgsFunction: o.completeArgs,
		RunE: o.withDaemonCheck(func(ctx context.Context, args []string) error {
			all, err := o.Daemon.OACPBindings(ctx, frame.FirstOrEmpty(args))
			if err == nil && len(all) == 0 {
				err = o.checkProject(ctx, frame.FirstOrEmpty(args))
			}
			if err != nil {
				return err
			}
			return o.printBindings(client.OACPBindings{Bindings: all}, all...)
		}),
	}
}
