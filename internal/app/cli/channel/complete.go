package channel

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/channels"
)

// appendCompletion adds word to list if it begins with begun. It leaves out words with other
// characters than ids and names have, because those might mean something to the shell.
func appendCompletion(list []cobra.Completion, begun, word, what string) []cobra.Completion {
	if !strings.HasPrefix(word, begun) || strings.ContainsFunc(word, func(r rune) bool {
		return r != '_' && r != '@' && r != '-' && r != '.' && r != ':' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	}) {
		return list
	}
	return append(list, cobra.CompletionWithDesc(word, client.Line(what)))
}

// completeChannels completes a first argument by the names of open channels, and by the ids of
// those that share a name.
func (c *verbs) completeChannels(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return c.CompleteFirstArg(cmd, args, func(ctx context.Context) (found []cobra.Completion) {
		all, err := c.channelsClient().AllChannels(ctx)
		if err != nil {
			return nil
		}
		open := slices.DeleteFunc(all.Channels, func(ch channels.Channel) bool { return ch.Status != channels.StatusOpen })
		named := make(map[string]int)
		for _, ch := range open {
			named[ch.Name]++
		}
		for _, ch := range open {
			if named[ch.Name] == 1 {
				found = appendCompletion(found, begun, ch.Name, ch.IntentID)
			} else {
				found = appendCompletion(found, begun, ch.ID, ch.Name)
			}
		}
		return found
	})
}

// completeIntents completes a first argument by the ids of intents.
func (c *verbs) completeIntents(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return c.CompleteFirstArg(cmd, args, func(ctx context.Context) (found []cobra.Completion) {
		list, err := c.channelsClient().Intents(ctx)
		if err != nil {
			return nil
		}
		for _, in := range list.Intents {
			found = appendCompletion(found, begun, in.ID, in.Title)
		}
		return found
	})
}

// completeAgents completes a first argument by the agents that have registered.
func (c *verbs) completeAgents(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return c.CompleteFirstArg(cmd, args, func(ctx context.Context) (found []cobra.Completion) {
		agents, err := c.channelsClient().Agents(ctx)
		if err != nil {
			return nil
		}
		for _, a := range agents {
			found = appendCompletion(found, begun, c.formatAgentName(ctx, joinAgentName(a.ID, a.Host)), a.Role)
		}
		return found
	})
}

// newFlagCompletion completes the value of a flag as complete does a first argument.
func newFlagCompletion(complete cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return complete(cmd, nil, begun)
	}
}
