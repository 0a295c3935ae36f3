package channel

import (
	"cmp"
	"context"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/channels"
)

func (c *verbs) newUnsentCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "unsent",
		Short: "List the messages that wait for their machine, or that it refused",
		Example: `  acpctl channel unsent --as reviewer
  acpctl channel unsent --json`,
		Long: `Lists what you have sent to channels of other machines and what is not there: it waits
until the machine is back, or the machine has refused it, and why. Without --as, that of
all agents. Refusals are told for 7 days.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			list, err := c.channelsClient().Unsent(ctx)
			if err != nil {
				return err
			}
			if c.JSON {
				return printJSONLines(c, list, func(m channels.Message) jsontext.Value { return m.JSON })
			}
			var rows [][]string
			for _, m := range list {
				rows = append(rows, []string{c.FormatTime(m.CreatedAt.Time), c.formatAgentName(ctx, m.Sender), c.formatAgentName(ctx, cmp.Or(m.To, "*")), formatChannelName(&m), client.Line(m.ID), describeStatus(&m)})
			}
			c.PrintTable([]string{"SENT", "FROM", "TO", "CHANNEL", "ID"}, rows) // behind them, on a line of its own, what has become of it
			return nil
		},
	}
}

// unsentTracker tells what of the caller's messages to one channel is unsent, each status
// once.
type unsentTracker struct {
	*verbs
	id, arg string                            // of the channel, and as it was named
	told    map[string]channels.MessageStatus // the statuses that were printed, by the messages' ids
	waits   bool                              // one of them waits, so that something will become of it
}

// recordShown notes a message that the channel's own list had. That has waiting messages while
// the host is away.
func (u *unsentTracker) recordShown(m *channels.Message) {
	if m.Status == channels.StatusPending {
		u.told[m.ID], u.waits = m.Status, true
	}
}

// printNewStatuses prints what is unsent and was not told before. With quiet it only notes it as told.
func (u *unsentTracker) printNewStatuses(ctx context.Context, quiet bool) error {
	if here, err := u.channelsClient().IsHostedHere(ctx, u.id); here || err != nil {
		return err
	}
	list, err := u.channelsClient().Unsent(ctx)
	if err != nil {
		return err
	}
	intent, name := splitChannelName(u.arg)
	u.waits = false
	for _, m := range list {
		if m.ChannelID != u.id && (m.ChannelID != "" || m.ChannelName != cmp.Or(name, u.arg) || intent != "" && m.IntentID != intent) {
			continue
		}
		u.waits = u.waits || m.Status == channels.StatusPending
		if u.told[m.ID] == m.Status {
			continue
		}
		u.told[m.ID] = m.Status
		if quiet {
			continue
		}
		if err := u.printMessage(ctx, &m); err != nil {
			return err
		}
	}
	return nil
}
