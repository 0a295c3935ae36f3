package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/kinds"
)

// flagValues has the values of flags that take one of a few, by the verb's path below acpctl and the
// flag's name.
var flagValues = map[string]map[string][]string{
	"wake allow":  {"kinds": kinds.ListNames(kinds.Wakes)},
	"wake revoke": {"kinds": kinds.ListNames(kinds.Wakes)},
}

// addValueCompletions completes values of flags, and arguments that name what the daemon knows: sessions and
// approvals.
func (a *app) addValueCompletions(root *cobra.Command) {
	for path, flags := range flagValues {
		cmd := findVerb(root, path)
		for name, values := range flags {
			cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
		}
	}
	for _, path := range []string{"wake allow", "wake revoke", "wake answers"} {
		findVerb(root, path).RegisterFlagCompletionFunc("agent", func(cmd *cobra.Command, _ []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return a.completeAgents(cmd, nil, begun)
		})
	}
	findVerb(root, "agents mute").ValidArgsFunction = a.completeAgents
	for _, path := range []string{"approvals yes", "approvals always", "approvals no"} {
		findVerb(root, path).ValidArgsFunction = a.completeApprovals
	}
}

// findVerb returns the verb at a path below root. It panics if the path is wrong: the paths are ours.
func findVerb(root *cobra.Command, path string) *cobra.Command {
	cmd, left, err := root.Find(strings.Fields(path))
	if err != nil || len(left) > 0 {
		panic("no verb " + path)
	}
	return cmd
}

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

// completeApprovals completes a first argument by the ids of the messages that wait for the owner's approval.
func (a *app) completeApprovals(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return a.CompleteFirstArg(cmd, args, func(ctx context.Context) (found []cobra.Completion) {
		all, _ := a.Daemon.Approvals(ctx)
		for _, p := range all {
			if strings.HasPrefix(p.ID, begun) {
				found = append(found, cobra.CompletionWithDesc(p.ID, client.Line(p.Kind+" of "+p.Name+" for "+p.Agent)))
			}
		}
		return found
	})
}
