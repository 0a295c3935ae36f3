package channel

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/channels"
)

// completeFirstArg completes a first argument by what f returns. f gets as long as a person at
// a prompt waits.
func (c *verbs) completeFirstArg(cmd *cobra.Command, args []string, f func(context.Context) []cobra.Completion) ([]cobra.Completion, cobra.ShellCompDirective) {
	const patience = 500 * time.Millisecond
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	c.ChooseDaemon()
	ctx, cancel := context.WithTimeout(cmd.Context(), patience)
	defer cancel()
	return f(ctx), cobra.ShellCompDirectiveNoFileComp
}

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
	return c.completeFirstArg(cmd, args, func(ctx context.Context) (found []cobra.Completion) {
		list, err := c.listChannels(ctx, "")
		known, wrong := decodeChannels(list)
		if err != nil || wrong != nil {
			return nil
		}
		named := make(map[string]int)
		for _, ch := range known {
			if ch.Status == statusOpen {
				named[ch.Name]++
			}
		}
		for _, ch := range known {
			switch {
			case ch.Status != statusOpen:
			case named[ch.Name] == 1:
				found = appendCompletion(found, begun, ch.Name, ch.Intent)
			default:
				found = appendCompletion(found, begun, ch.ID, ch.Name)
			}
		}
		return found
	})
}

// completeIntents completes a first argument by the ids of intents.
func (c *verbs) completeIntents(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return c.completeFirstArg(cmd, args, func(ctx context.Context) (found []cobra.Completion) {
		var list struct {
			Intents []struct {
				ID    string `json:"id"`
				Title string `json:"title"`
			} `json:"intents"`
		}
		if c.get(ctx, channels.Path("intents")+"?limit=1000", &list) != nil {
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
	return c.completeFirstArg(cmd, args, func(ctx context.Context) (found []cobra.Completion) {
		var agents []struct {
			ID   string `json:"agent_id"`
			Role string `json:"role_id"`
			Host string `json:"host"`
		}
		if c.get(ctx, channels.Path("agents"), &agents) != nil {
			return nil
		}
		for _, a := range agents {
			found = appendCompletion(found, begun, c.displayName(ctx, joinHome(a.ID, a.Host)), a.Role)
		}
		return found
	})
}

// completeFlag completes the value of a flag as complete does a first argument.
func completeFlag(complete cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return complete(cmd, nil, begun)
	}
}
