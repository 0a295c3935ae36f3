package channel

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/cli/ui"
)

// message is a message of a channel, as far as people are shown it.
type message struct {
	ID      string         `json:"id"`
	Sender  string         `json:"sender"`
	To      string         `json:"to"`
	Kind    string         `json:"message_type"`
	Payload jsontext.Value `json:"payload"`
	Status  string         `json:"status"`
	At      time.Time      `json:"created_at"`

	Channel string `json:"channel_id"` // this and the next are of what is unsent
	Intent  string `json:"intent_id"`
	Name    string `json:"channel_name"`
	Refusal struct {
		Message string `json:"message"`
	} `json:"refusal"`
}

// decodeMessage decodes a message. Its id and kind, which another machine wrote, are put on
// one line.
func decodeMessage(v jsontext.Value) (m message, err error) {
	if err = json.Unmarshal(v, &m); err != nil {
		err = fmt.Errorf("read the daemon's answer: %w", err)
	}
	m.ID, m.Kind = client.Line(m.ID), client.Line(m.Kind) // another machine's words
	return m, err
}

// printMessage prints a message, and returns an error if output cannot be written.
func (c *verbs) printMessage(ctx context.Context, v jsontext.Value) error {
	if c.JSON {
		return c.PrintJSON(v)
	}
	m, err := decodeMessage(v)
	if err != nil {
		return err
	}
	from, to, said := c.displayName(ctx, m.Sender), c.displayName(ctx, cmp.Or(m.To, "*")), payloadText(m.Payload)
	if !c.OutTTY {
		columns := []string{c.FormatTime(m.At), from, to, m.Kind, m.ID, client.Line(said)}
		if note := m.statusText(); note != "" {
			columns = append(columns, note)
		}
		c.PrintLine("%s", strings.Join(columns, "\t"))
		return c.Unwritten()
	}
	c.PrintLine("%s  %s to %s  %s  %s\n  %s", c.FormatTime(m.At), c.Paint(ui.Bold, from), to, m.Kind, m.ID,
		strings.ReplaceAll(client.Text(said), "\n", "\n  "))
	if note := m.statusText(); note != "" {
		c.PrintLine("  (%s)", note)
	}
	return c.Unwritten()
}

// statusPending is the status of a message that waits for its host.
const statusPending = "pending"

// channelName returns the id of the channel of an unsent message, or else INTENT/NAME.
func (m *message) channelName() string {
	if m.Channel != "" || m.Intent == "" {
		return client.Line(m.Channel)
	}
	return client.Line(m.Intent + "/" + m.Name)
}

// statusText returns the status of a message that has not come to its host, "" for others.
func (m *message) statusText() string {
	switch m.Status {
	case statusPending:
		return statusPending
	case "refused":
		return client.Line("refused: " + m.Refusal.Message)
	}
	return ""
}
