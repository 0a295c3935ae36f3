package channel

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/channels"
)

func (c *verbs) newListCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "list [INTENT]",
		Short: "List the channels that you can see",
		Example: `  acpctl channel list
  acpctl channel list --as reviewer --json`,
		Long: `Shows of each channel its NAME, STATUS, MEMBERS, how many MESSAGES it has had, when the
LAST came, its ID and its INTENT and, where those of all intents are listed, that one's
TITLE: it tells channels of one name apart. A narrow terminal has fewer of these columns,
and says so: --json has all.`,
		ValidArgsFunction: c.completeIntents,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			all, err := new(channels.Overview), error(nil)
			if len(args) > 0 {
				all.Channels, err = c.channelsClient().Channels(ctx, args[0])
			} else if all, err = c.channelsClient().AllChannels(ctx); err == nil {
				c.warnUnlistedIntents(ctx, all.Unlisted)
				err = c.warnPeersOutOfReach(ctx, all.MissingHosts)
			}
			if err != nil {
				return err
			}
			if c.JSON {
				return printJSONLines(c, all.Channels, func(ch channels.Channel) jsontext.Value { return ch.JSON })
			}
			head := []string{"NAME", "STATUS", "MEMBERS", "MESSAGES", "LAST", "ID", "INTENT"}
			if len(args) == 0 {
				head = append(head, "TITLE")
			}
			titles := make(map[string]string)
			for _, in := range all.Intents {
				titles[in.ID] = in.Title
			}
			var rows [][]string
			for _, ch := range all.Channels {
				access := string(ch.Policy)
				if ch.Restricted {
					access = "restricted"
				}
				row := []string{client.Line(ch.Name), string(ch.Status), access, strconv.FormatInt(ch.MessageCount, 10), c.FormatTime(ch.LastMessageAt.Time), client.Line(ch.ID), client.Line(ch.IntentID)}
				if len(args) == 0 {
					row = append(row, client.Line(titles[ch.IntentID]))
				}
				rows = append(rows, row)
			}
			c.PrintTable(head, rows)
			if len(rows) == 0 && len(args) == 0 && c.callingAgentID() == "" {
				c.Warn("no channels live here; --as AGENT shows those of other machines too")
			}
			return nil
		},
	}
}

// printJSONLines prints the JSON text of each item on a line.
func printJSONLines[T any](c *verbs, list []T, text func(T) jsontext.Value) error {
	for _, v := range list {
		if err := c.PrintJSON(text(v)); err != nil {
			return err
		}
	}
	return nil
}

// warnUnlistedIntents warns of intents whose channels are not listed, with the reason.
func (c *verbs) warnUnlistedIntents(ctx context.Context, intents []channels.Unlisted) {
	for _, u := range intents {
		c.Warn("%s: %s", u.Intent, c.describeError(ctx, u.Err))
	}
}

// warnPeersOutOfReach tells an agent which trusted machines have nothing in the list.
func (c *verbs) warnPeersOutOfReach(ctx context.Context, missing []string) error {
	away, err := c.listPeersOutOfReach(ctx, missing)
	if err == nil && len(away) > 0 {
		names := make([]string, len(away))
		for i, p := range away {
			switch names[i] = petnameOrLabel(p); {
			case p.Refuses:
				names[i] += " (does not trust this daemon)"
			case p.State == client.PeerConnected:
				names[i] += " (connected, but gave no list: it is slow, or its policy allows this daemon no channels)"
			default:
				names[i] += " (out of reach)"
			}
		}
		c.Warn("not in this list: %s", strings.Join(names, ", "))
	}
	return err
}

// petnameOrLabel returns the petname of a peer, or else its label.
func petnameOrLabel(p client.Peer) string { return cmp.Or(p.Name, p.ID.Label()) }

// listPeersOutOfReach returns the trusted peers that are not connected, or are among the ids that
// are missing from a list. For an operator it returns an empty list, because an operator is one only on this machine.
func (c *verbs) listPeersOutOfReach(ctx context.Context, missing []string) (away []client.Peer, err error) {
	if c.callingAgentID() == "" {
		return nil, nil
	}
	peers, err := c.Daemon.Peers(ctx)
	if err != nil {
		return nil, err
	}
	for _, p := range peers {
		if p.State == client.PeerTrusted || p.State == client.PeerConnected && slices.Contains(missing, p.ID.String()) {
			away = append(away, p)
		}
	}
	return away, nil
}
