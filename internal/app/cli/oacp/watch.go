package oacp

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/oacp/mailbox"
	oacpmsg "github.com/acpd/acpd/oacp/message"
)

func (o *verbs) newWatchCmd() *cobra.Command {
	w := &mailbox.Watch{}
	var since string
	var all, follow bool
	cmd := &cobra.Command{
		Use:   "watch --agent AGENT --project PROJECT|--all-projects",
		Short: "Show what is new in an inbox",
		Example: `  acpctl oacp watch --agent reviewer --project demo     what came since the last time
  acpctl oacp watch --agent reviewer --all-projects --follow --json  as it comes
  acpctl oacp watch --agent reviewer --project demo --since 2h --state-id mine`,
		Long: `Shows each new message once, in a line. Which ones were shown is kept in the project,
in state/watch/AGENT.json, which all watches of the agent share; with --state-id a
watch has a file of its own. The first time, messages from before --since are not
shown.

Exit codes: 0, 1 if something could not be read (the rest is shown), 2 usage.`,
		RunE: o.withReferenceErrors(func(ctx context.Context, _ []string) error {
			switch {
			case w.Agent == "":
				return frame.UsageErrorf("--agent is missing")
			case (len(w.Projects) > 0) == all:
				return frame.UsageErrorf("expected either --project or --all-projects")
			case w.StateID != "" && !oacpmsg.IsLegalFileSuffix(w.StateID):
				return frame.UsageErrorf("--state-id: use 1 to 64 letters, digits, dots, underscores and hyphens")
			}
			var err error
			if w.Since, err = mailbox.ParseSince(since, time.Now()); err != nil {
				return frame.UsageErrorf("%w", err)
			}
			if w.Home, err = o.findHome(); err != nil {
				return err
			}
			o.SetDoneNote("messages that are lost there were shown: acpctl oacp inbox has them")
			if follow {
				return o.printWatchEvents(ctx, w)
			}
			if !w.Scan(o.printEvent) {
				return frame.Exit(frame.ExitLocal)
			}
			return nil
		}),
	}
	f := cmd.Flags()
	f.StringVar(&w.Agent, "agent", "", "the agent whose inboxes to watch")
	f.StringArrayVar(&w.Projects, "project", nil, "watch this project (repeatable)")
	f.BoolVar(&all, "all-projects", false, "watch all projects that have an inbox of the agent")
	f.StringVar(&w.StateID, "state-id", "", "keep what was shown under this name, apart from other watches")
	f.StringVar(&since, "since", "now", "the first time, show what is newer: now, epoch, 30s 5m 2h 7d ago, or a time of ISO 8601")
	f.BoolVar(&w.ShowArchived, "show-archived", false, "also show what has left the inbox")
	f.BoolVar(&follow, "follow", false, "go on until interrupted")
	return cmd
}

// printWatchEvents prints new messages until ctx ends or output cannot be written.
func (o *verbs) printWatchEvents(ctx context.Context, w *mailbox.Watch) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	err := w.Follow(ctx, func(e mailbox.Event) {
		if o.printEvent(e); o.CheckOutput() != nil {
			stop()
		}
	})
	return cmp.Or(o.CheckOutput(), err)
}

// printEvent prints an event as the reference does.
func (o *verbs) printEvent(e mailbox.Event) {
	if e.Event == mailbox.WatchError {
		about := cmp.Or(e.Path, e.File, "(unknown)")
		fmt.Fprintf(o.Err, "ERROR: %s: %s\n", client.Line(about), client.Line(e.Error))
	}
	switch {
	case o.JSON:
		o.printJSON(e, false)
	case e.Event != mailbox.WatchError:
		o.PrintLine("%s", client.Line(fmt.Sprintf("%s project=%s agent=%s file=%s type=%s priority=%s %s",
			strings.ToUpper(e.Event), *e.Project, e.Agent, e.File, e.Type, e.Priority, e.Subject)))
	}
}
