package cli

import (
	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
)

func (a *app) newTasksCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "tasks",
		Short: "List the delegations given and taken, the newest first",
		Example: `  acpctl tasks
  acpctl tasks --json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			tasks, err := a.Daemon.Tasks(cmd.Context())
			if err != nil {
				return err
			}
			var rows [][]string
			for _, t := range tasks {
				what := client.Line(t.Task)
				if t.Outcome != "" {
					what += ": " + client.Line(t.Outcome)
				}
				rows = append(rows, []string{t.ID.String(), string(t.Direction), formatDelegator(&t), string(t.State), a.FormatTime(t.Deadline.Time), what})
			}
			return a.PrintList(map[string][]client.Task{"tasks": tasks}, []string{"ID", "DIRECTION", "PEER", "STATE", "DEADLINE", "TASK"}, rows)
		},
	}
}

// formatDelegator returns the peer of a delegation, and the agent there that gave it if the peer
// claims a plain name.
func formatDelegator(t *client.Task) string {
	if t.Direction != client.Taken || !client.IsPlainAgentName(t.FromAgent) {
		return t.Peer
	}
	return t.Peer + "/" + t.FromAgent
}
