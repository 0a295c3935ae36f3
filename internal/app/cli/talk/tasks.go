package talk

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/app/cli/ui"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

func (v *verbs) newTasksCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "tasks",
		Short: "List the delegations given and taken, and what is kept, the newest first",
		Example: `  acpctl tasks
  acpctl tasks --json`,
		Long: `On a terminal, WHO shows who works for whom: "→ desk/reviewer" was given to that agent, "builder ← desk/planner"
was taken from that one by the agent builder here. TIME shows how long ago it began; while it is open, also how long it
may take. An id is cut to the beginning that cancel, wait and reply take.

A script gets the columns id, direction, peer, state, deadline, task, time of the beginning, and the agent here.

A message that is or was kept (--keep) begins with its kind. It is kept, and then completed, handed, held, refused, unknown,
expired or withdrawn; a delegation goes on as one.

STATE is declined if the agent would not do it; with --json that is failed, and the outcome begins with declined.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			tasks, err := v.Daemon.Tasks(cmd.Context())
			if err != nil {
				return err
			}
			return v.PrintData(map[string][]client.Task{"tasks": tasks}, func() { v.printTasks(tasks) })
		},
	}
}

// printTasks prints a table of delegations. On a terminal both the task and what has become of it have room.
func (v *verbs) printTasks(tasks []client.Task) {
	ids := make([]wire.MessageID, len(tasks))
	for i := range tasks {
		ids[i] = tasks[i].ID
	}
	shown := v.ShortenIDs(ids)
	head := []string{"ID", "WHO", "STATE", "TIME", "TASK"}
	rows := make([][]string, len(tasks))
	for i := range tasks {
		rows[i] = []string{shown[i], formatParties(&tasks[i]), formatTaskState(&tasks[i]), v.formatTaskTime(&tasks[i])}
	}
	room := v.MeasureTextRoom(head, rows)
	for i := range tasks {
		t := &tasks[i]
		what, became := client.Line(t.Task), ""
		if t.Kind != "" {
			what = t.Kind + ": " + what
		}
		if t.Kept != nil {
			became += " (" + v.describeKept(t.Kept) + ")"
		}
		if progress := describeProgress(t.Progress, t.Message); progress != "" && !t.State.IsFinal() {
			became += " (" + progress + ")"
		}
		if t.Question != nil {
			became += ": asks " + client.Line(t.Question.Text)
		}
		if t.Outcome != "" {
			became += ": " + client.Line(t.Outcome)
		}
		if !t.AgentAwaySince.IsZero() {
			became += " (" + v.DescribeAgentAway(t.Agent, t.AgentAwaySince) + ")"
		}
		what, became = ui.ShareCells(what, became, room)
		if !v.OutTTY {
			rows[i] = []string{shown[i], string(t.Direction), formatTaskPeer(t), formatTaskState(t), v.FormatTime(t.Deadline.Time), what + became, v.FormatTime(t.Began.Time), ui.DashIfEmpty(t.Agent)}
			continue
		}
		rows[i] = append(rows[i], what+became)
	}
	v.PrintTable(head, rows)
}

// describeKept says until when a message is kept, how often it was tried, and why that failed.
func (v *verbs) describeKept(k *client.Kept) string {
	tried := ""
	switch k.Tries {
	case 0:
	case 1:
		tried = ", tried once"
	default:
		tried = fmt.Sprintf(", tried %d times", k.Tries)
	}
	until := v.FormatTime(k.Until.Time)
	if v.OutTTY {
		until = ui.FormatMoment(k.Until.Time)
	}
	return "until " + until + tried + ": " + client.Line(k.LastError)
}

// formatParties returns who gave a delegation to whom, as far as it is known here.
func formatParties(t *client.Task) string {
	if t.Direction == client.Given {
		return "→ " + formatTaskPeer(t)
	}
	return strings.TrimPrefix(client.Line(t.Agent)+" ← ", " ") + formatTaskPeer(t)
}

// formatTaskTime returns how long ago a delegation began and, until it has ended, how long it may take if that is bounded.
func (v *verbs) formatTaskTime(t *client.Task) string {
	if t.Began.IsZero() || t.State.IsFinal() || t.Over {
		return v.FormatAge(t.Began.Time)
	}
	took := time.Since(t.Began.Time).Round(time.Second)
	if t.Deadline.IsZero() {
		return kinds.FormatDuration(took)
	}
	return kinds.FormatDuration(took) + " of " + kinds.FormatDuration(t.Deadline.Sub(t.Began.Time).Round(time.Second))
}

// formatTaskState returns the state of a delegation; one that its agent has declined is in the state
// failed, and its outcome begins with that word.
func formatTaskState(t *client.Task) string {
	if t.State == client.TaskFailed && strings.HasPrefix(t.Outcome, "declined: ") {
		return "declined"
	}
	return string(t.State)
}

// formatTaskPeer returns the peer of a delegation, and the agent there: the one that it is for, or the
// one that gave it if the peer claims a plain name.
func formatTaskPeer(t *client.Task) string {
	agent := t.ToAgent
	if t.Direction == client.Taken {
		agent = t.FromAgent
	}
	if !client.IsPlainAgentName(agent) {
		return t.Peer
	}
	return t.Peer + "/" + agent
}

// describePartial returns what a partial result says, on one line: how far the task has come, and what
// there is already.
func describePartial(r *kinds.Result) string {
	parts := []string{describeProgress(r.Progress, r.Message)}
	if r.Outcome != r.Message {
		parts = append(parts, client.Line(r.Outcome))
	}
	if len(r.Data) > 0 && r.Data.Kind() != 'n' {
		parts = append(parts, client.Line(string(r.Data)))
	}
	parts = slices.DeleteFunc(parts, func(s string) bool { return s == "" })
	return strings.Join(parts, ": ")
}

// describeProgress returns how far a task has come, on one line: "" if nothing is said of that.
func describeProgress(progress *float64, message string) string {
	var parts []string
	if progress != nil {
		parts = append(parts, fmt.Sprintf("%.0f %%", *progress*100))
	}
	if message != "" {
		parts = append(parts, client.Line(message))
	}
	return strings.Join(parts, ", ")
}
