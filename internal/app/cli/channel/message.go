package channel

import (
	"cmp"
	"context"
	"strings"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/channels"
	"github.com/acpd/acpd/internal/app/cli/ui"
)

// printMessage prints a message, and returns an error if output cannot be written.
func (c *verbs) printMessage(ctx context.Context, m *channels.Message) error {
	if c.JSON {
		return c.PrintJSON(m.JSON)
	}
	kind, id, at := client.Line(string(m.Type)), client.Line(m.ID), c.FormatTime(m.CreatedAt.Time)
	from, to, said := c.formatAgentName(ctx, m.Sender), c.formatAgentName(ctx, cmp.Or(m.To, "*")), formatPayload(m.Payload)
	if !c.OutTTY {
		columns := []string{at, from, to, kind, id, client.Line(said)}
		if note := describeStatus(m); note != "" {
			columns = append(columns, note)
		}
		c.PrintLine("%s", strings.Join(columns, "\t"))
		return c.CheckOutput()
	}
	c.PrintLine("%s  %s to %s  %s  %s\n  %s", at, c.ColourText(ui.Bold, from), to, kind, id,
		strings.ReplaceAll(client.Text(said), "\n", "\n  "))
	if note := describeStatus(m); note != "" {
		c.PrintLine("  (%s)", note)
	}
	return c.CheckOutput()
}

// formatChannelName returns the id of the channel of an unsent message, or else INTENT/NAME.
func formatChannelName(m *channels.Message) string {
	if m.ChannelID != "" || m.IntentID == "" {
		return client.Line(m.ChannelID)
	}
	return client.Line(m.IntentID + "/" + m.ChannelName)
}

// describeStatus returns the status of a message that has not come to its host, "" for others.
func describeStatus(m *channels.Message) string {
	switch m.Status {
	case channels.StatusPending:
		return string(m.Status)
	case channels.StatusRefused:
		return client.Line("refused: " + m.Refusal.Message)
	}
	return ""
}
