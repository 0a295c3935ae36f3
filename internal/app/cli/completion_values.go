package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/kinds"
)

// completeKinds completes the value of a flag by the kinds that may wake a session.
var completeKinds = cobra.FixedCompletions(kinds.ListNames(kinds.Wakes), cobra.ShellCompDirectiveNoFileComp)

// completeAgents completes a first argument by the names of the sessions that are attached.
func (a *app) completeAgents(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return a.CompleteFirstArg(cmd, args, func(ctx context.Context) (found []cobra.Completion) {
		agents, _ := a.Daemon.Agents(ctx)
		for _, g := range agents {
			if g.Session != nil && strings.HasPrefix(g.Name, begun) {
				found = append(found, cobra.CompletionWithDesc(g.Name, client.Line(g.Session.Harness)))
			}
		}
		return found
	})
}

// completeAgentFlag completes the value of a flag as completeAgents does.
func (a *app) completeAgentFlag(cmd *cobra.Command, _ []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return a.completeAgents(cmd, nil, begun)
}

// completeApprovals completes a first argument by the ids of the messages that wait for the owner's approval.
func (a *app) completeApprovals(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return a.CompleteFirstArg(cmd, args, func(ctx context.Context) (found []cobra.Completion) {
		all, _ := a.Daemon.Approvals(ctx)
		for _, p := range all {
			if strings.HasPrefix(p.ID, begun) {
				found = append(found, cobra.CompletionWithDesc(p.ID, formatApproval(&p)))
			}
		}
		return found
	})
}
