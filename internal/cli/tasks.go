package cli

import (
	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/cli/frame"
)

func (a *app) tasksCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "tasks",
		Short: "List the delegations given and taken, the newest first",
		Example: `  acpctl tasks
  acpctl tasks --json`,
		Args:              frame.NamedArgs(),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			tasks, err := a.Daemon.Tasks(cmd.Context())
			if err != nil {
				return err
			}
			if a.JSON {
				return a.PrintJSON(struct {
					Tasks []client.Task `json:"tasks"`
				}{tasks})
			}
			var rows [][]string
			for _, t := range tasks {
				what := client.Line(t.Task)
				if t.Outcome != "" {
					what += ": " + client.Line(t.Outcome)
				}
				rows = append(rows, []string{t.ID.String(), string(t.Direction), t.Peer, string(t.State), a.FormatTime(t.Deadline.Time), what})
			}
			a.PrintTable([]string{"ID", "DIRECTION", "PEER", "STATE", "DEADLINE", "TASK"}, rows)
			return nil
		},
	}
}
