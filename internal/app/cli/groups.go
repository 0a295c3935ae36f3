package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/internal/app/cli/ui"
)

// groups are the verbs that most people need, by what they are for.
var groups = []frame.Group{
	{Title: "Start", Verbs: []string{"up", "setup", "invite", "join", "trust", "untrust"}},
	{Title: "Who is there", Verbs: []string{"peers", "agents", "ping", "discover"}},
	{Title: "Talk", Verbs: []string{"query", "delegate", "notify", "send", "reply", "serve", "inbox", "files", "tasks", "wait", "cancel"}},
	{Title: "Watch", Verbs: []string{"web", "tail", "waiting", "status", "doctor"}},
	{Title: "Decide", Verbs: []string{"wake", "approvals", "policy"}},
}

// showGroups prints what acpctl without a verb prints: the verbs, and whether the daemon runs.
func (a *app) showGroups(cmd *cobra.Command) error {
	if a.JSON {
		return frame.UsageErrorf("name a verb")
	}
	a.PrintLine("%s\n%s\nHow a verb is used: acpctl help VERB", a.FormatGroups(cmd.Root()), ui.WrapBehind("", a.describeDaemon(cmd.Context()), a.OutWidth()))
	return nil
}

// describeDaemon returns a sentence about the daemon of this user.
func (a *app) describeDaemon(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	who, err := a.Daemon.Whoami(ctx)
	if err != nil {
		e, _ := a.ClassifyError(context.WithoutCancel(ctx), err)
		return client.Line(e.Message)
	}
	about := fmt.Sprintf("The daemon %s runs", client.Line(who.Name))
	if peers, err := a.Daemon.Peers(ctx); err == nil {
		connected := 0
		for _, p := range peers {
			if p.State == client.PeerConnected {
				connected++
			}
		}
		about += fmt.Sprintf("; connected peers: %d", connected)
	}
	return about
}
