package channel

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client/channels"
	"github.com/acpd/acpd/internal/cli/frame"
)

func (c *verbs) unsentCmd() *cobra.Command {
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
			list, err := c.listUnsent(ctx)
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
				rows = append(rows, []string{c.FormatTime(m.At), c.displayName(ctx, m.Sender), c.displayName(ctx, cmp.Or(m.To, "*")), m.channelName(), m.ID, m.statusText()})
			}
			c.PrintTable([]string{"SENT", "FROM", "TO", "CHANNEL", "ID", "STATUS"}, rows)
			return nil
		},
	}
}

// maxUnsentPages bounds the pages of a list of 10,000 waiting messages.
const maxUnsentPages = 100

// listUnsent returns the caller's messages that wait for their host or were refused, oldest
// first.
func (c *verbs) listUnsent(ctx context.Context) (list []jsontext.Value, err error) {
	var last struct {
		Seq int64 `json:"seq"`
	}
	for range maxUnsentPages {
		var page []jsontext.Value
		if err := c.get(ctx, fmt.Sprintf("%s?limit=1000&after=%d", channels.Path("unsent"), last.Seq), &page); err != nil || len(page) == 0 {
			return list, err
		}
		list = append(list, page...)
		if err := json.Unmarshal(list[len(list)-1], &last); err != nil {
			return nil, fmt.Errorf("read the daemon's answer: %w", err)
		}
	}
	return list, nil
}

// unsentTracker tells what of the caller's messages to one channel is unsent, each status
// once.
type unsentTracker struct {
	*verbs
	id, arg string            // of the channel, and as it was named
	told    map[string]string // the statuses that were told, by the messages' ids
	waits   bool              // one of them waits, so that something will become of it
}

// noteShown notes a message that the channel's own list had. That has waiting messages while
// the host is away.
func (u *unsentTracker) noteShown(m message) {
	if m.Status == statusPending {
		u.told[m.ID], u.waits = m.Status, true
	}
}

// printNew prints what is unsent and was not told before. With quiet it only notes it as told.
func (u *unsentTracker) printNew(ctx context.Context, quiet bool) error {
	if here, err := u.isOwnIntent(ctx, strings.TrimPrefix(u.id, channelPrefix)); here || err != nil {
		return err
	}
	list, err := u.listUnsent(ctx)
	if err != nil {
		return err
	}
	intent, name := splitName(u.arg)
	u.waits = false
	for _, v := range list {
		m, err := decodeMessage(v)
		if err != nil {
			return err
		}
		if m.Channel != u.id && (m.Channel != "" || m.Name != cmp.Or(name, u.arg) || intent != "" && m.Intent != intent) {
			continue
		}
		u.waits = u.waits || m.Status == statusPending
		if u.told[m.ID] == m.Status {
			continue
		}
		u.told[m.ID] = m.Status
		if quiet {
			continue
		}
		if err := u.printMessage(ctx, v); err != nil {
			return err
		}
	}
	return nil
}
