package channel

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/cli/frame"
)

func (c *channels) unsentCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "unsent",
		Short: "List the messages that wait for their machine, or that it refused",
		Example: `  acpctl channel unsent --as reviewer
  acpctl channel unsent --json`,
		Long: `Lists what you have sent to channels of other machines and what is not there: it waits
until the machine is back, or the machine has refused it, and why. Without --as, that of
all agents. Refusals are told for 7 days.`,
		Args: frame.NamedArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			list, err := c.unsent(ctx)
			if err != nil {
				return err
			}
			if c.JSON {
				return c.PrintJSONLines(list)
			}
			var rows [][]string
			for _, v := range list {
				m, err := decodeMessage(v)
				if err != nil {
					return err
				}
				rows = append(rows, []string{c.FormatTime(m.At), c.called(ctx, m.Sender), c.called(ctx, cmp.Or(m.To, "*")), m.place(), m.ID, m.becoming()})
			}
			c.PrintTable([]string{"SENT", "FROM", "TO", "CHANNEL", "ID", "STATUS"}, rows)
			return nil
		},
	}
}

// maxUnsentPages bounds the pages of a list of 10,000 messages that wait.
const maxUnsentPages = 100

// unsent returns the caller's messages that wait for their host or were refused, as they
// were sent.
func (c *channels) unsent(ctx context.Context) (list []jsontext.Value, err error) {
	var last struct {
		Seq int64 `json:"seq"`
	}
	for range maxUnsentPages {
		var page []jsontext.Value
		if err := c.read(ctx, fmt.Sprintf("%s?limit=1000&after=%d", path("unsent"), last.Seq), &page); err != nil || len(page) == 0 {
			return list, err
		}
		list = append(list, page...)
		if err := json.Unmarshal(list[len(list)-1], &last); err != nil {
			return nil, fmt.Errorf("read the daemon's answer: %w", err)
		}
	}
	return list, nil
}

// isPending is the status of a message that waits for its host.
const isPending = "pending"

// place is the channel of a message that is unsent, as far as it is known.
func (m *chatter) place() string {
	if m.Channel != "" || m.Intent == "" {
		return client.Line(m.Channel)
	}
	return client.Line(m.Intent + "/" + m.Name)
}

// becoming says what is becoming of a message that has not come to its host, "" of others.
func (m *chatter) becoming() string {
	switch m.Status {
	case isPending:
		return isPending
	case "refused":
		return client.Line("refused: " + m.Refusal.Message)
	}
	return ""
}

// unsentOf tells what of the caller's messages to one channel is unsent.
type unsentOf struct {
	*channels
	id, arg string            // of the channel, and as it was named
	told    map[string]string // the statuses that were told, by the messages' ids
	waits   bool              // one of them waits, so that something will become of it
}

// saw notes a message of the channel's own list, which has those that wait while the host is
// away.
func (u *unsentOf) saw(m chatter) {
	if m.Status == isPending {
		u.told[m.ID], u.waits = m.Status, true
	}
}

// show tells what is unsent and was not told; with quiet it is told by that.
func (u *unsentOf) show(ctx context.Context, quiet bool) error {
	if here, err := u.isHere(ctx, strings.TrimPrefix(u.id, chanID)); here || err != nil {
		return err
	}
	list, err := u.unsent(ctx)
	if err != nil {
		return err
	}
	intent, name := apart(u.arg)
	u.waits = false
	for _, v := range list {
		m, err := decodeMessage(v)
		if err != nil {
			return err
		}
		if m.Channel != u.id && (m.Channel != "" || m.Name != cmp.Or(name, u.arg) || intent != "" && m.Intent != intent) {
			continue
		}
		u.waits = u.waits || m.Status == isPending
		if u.told[m.ID] == m.Status {
			continue
		}
		u.told[m.ID] = m.Status
		if quiet {
			continue
		}
		if err := u.showMessage(ctx, v); err != nil {
			return err
		}
	}
	return nil
}
