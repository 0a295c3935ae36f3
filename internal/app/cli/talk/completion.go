package talk

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/app/cli/ui"
)

// completeTasks completes a first argument by the ids of delegations that go on; acpctl wait takes
// those that have ended too.
func (v *verbs) completeTasks(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return v.CompleteFirstArg(cmd, args, func(ctx context.Context) (found []cobra.Completion) {
		tasks, _ := v.Daemon.Tasks(ctx)
		tasks = slices.DeleteFunc(tasks, func(t client.Task) bool {
			return t.State.IsFinal() && cmd.Name() != "wait" || !strings.HasPrefix(t.ID.String(), begun)
		})
		for _, t := range tasks {
			found = append(found, cobra.CompletionWithDesc(t.ID.String(), ui.ShortenText(client.Line(string(t.State)+", "+t.Peer+": "+t.Task), 60)))
		}
		return found
	})
}
