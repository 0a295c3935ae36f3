package channel

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/channels"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/cli/frame"
	"github.com/acpd/acpd/internal/cli/ui"
	"github.com/acpd/acpd/kinds"
)

func (c *verbs) listCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "list [INTENT]",
		Short: "List the channels that you can see",
		Example: `  acpctl channel list
  acpctl channel list --as reviewer --json`,
		Long: `Shows of each channel its NAME, STATUS, MEMBERS, how many MESSAGES it has had, when the
LAST came, its ID and its INTENT and, where those of all intents are listed, that one's
TITLE: it tells channels of one name apart.`,
		Args:              frame.OptionalArgs("INTENT"),
		ValidArgsFunction: c.completeIntents,
		RunE: func(cmd *cobra.Command, args []string) error {
			list, err := c.listChannels(cmd.Context(), frame.FirstArg(args))
			if err == nil && len(args) == 0 {
				err = c.tellOutOfReach(cmd.Context())
			}
			if err != nil {
				return err
			}
			if c.JSON {
				return c.PrintJSONLines(list)
			}
			known, err := decodeChannels(list)
			if err != nil {
				return err
			}
			head := []string{"NAME", "STATUS", "MEMBERS", "MESSAGES", "LAST", "ID", "INTENT"}
			if len(args) == 0 {
				head = append(head, "TITLE")
			}
			var rows [][]string
			for _, ch := range known {
				access := ch.Policy
				if ch.Restricted {
					access = "restricted"
				}
				row := []string{client.Line(ch.Name), ch.Status, access, strconv.FormatInt(ch.Count, 10), c.FormatTime(ch.LastAt), ch.ID, ch.Intent}
				if len(args) == 0 {
					row = append(row, ui.Shorten(c.titles[ch.Intent], maxTitleLength))
				}
				rows = append(rows, row)
			}
			c.PrintTable(head, rows)
			return nil
		},
	}
}

// maxTitleLength is how much of a title a table has room for, in characters.
const maxTitleLength = 60

// channel is the daemon's answer about a channel, as far as people are shown it.
type channel struct {
	ID         string         `json:"id"`
	Intent     string         `json:"intent_id"`
	Name       string         `json:"name"`
	Task       string         `json:"task_id"`
	CreatedBy  string         `json:"created_by"`
	Home       string         `json:"home"` // of its creator
	Members    []string       `json:"members"`
	Policy     string         `json:"member_policy"`
	Options    jsontext.Value `json:"options"`
	Status     string         `json:"status"`
	CreatedAt  time.Time      `json:"created_at"`
	ClosedAt   time.Time      `json:"closed_at"`
	Count      int64          `json:"message_count"`
	LastAt     time.Time      `json:"last_message_at"`
	Restricted bool           `json:"restricted"`
}

// statusOpen is the status of a channel that takes messages.
const statusOpen = "open"

// Bounds of reading what hosts list: a host may be slow, or its list endless.
const (
	listPatience    = 5 * time.Second // for all hosts together
	maxPages        = 100             // of one list
	concurrentLists = 16              // intents asked about at a time
)

// listChannels returns the channels of an intent; with "", those of every intent that the
// caller sees. Then it tells of intents whose channels it cannot get, and goes on.
func (c *verbs) listChannels(ctx context.Context, intent string) ([]jsontext.Value, error) {
	if intent != "" {
		own, err := c.isOwnIntent(ctx, intent)
		if err != nil {
			return nil, err
		}
		return c.listOfIntent(ctx, intent, own)
	}
	here, away, err := c.listIntents(ctx)
	if err != nil {
		return nil, err
	}
	found, err := c.listHere(ctx, here)
	if err != nil {
		return nil, err
	}
	return append(found, c.listElsewhere(ctx, away)...), nil
}

// listHere returns the channels of intents of this daemon, and tells of those that are
// refused.
func (c *verbs) listHere(ctx context.Context, intents []string) (found []jsontext.Value, err error) {
	for _, id := range intents {
		of, err := c.fetchChannels(ctx, id)
		if refused, ok := errors.AsType[*kinds.Error](err); ok && refused.Code != kinds.DaemonUnavailable {
			fmt.Fprintf(c.Err, "acpctl channel: %s: %s\n", id, client.Line(refused.Message))
			continue
		}
		if err != nil {
			return nil, err
		}
		found = append(found, of...)
	}
	return found, nil
}

// listElsewhere returns the channels of intents of other daemons that come within c.patience,
// and tells of the others.
func (c *verbs) listElsewhere(ctx context.Context, intents []string) (found []jsontext.Value) {
	asking := ctx
	ctx, cancel := context.WithTimeout(ctx, c.patience)
	defer cancel()
	portions := divideAmongHosts(intents)
	lists, errs := make([][]jsontext.Value, len(intents)), make([]error, len(intents))
	places := make(chan struct{}, concurrentLists)
	var asked sync.WaitGroup
	for i, id := range intents {
		asked.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			if errs[i] = ctx.Err(); errs[i] == nil {
				lists[i], errs[i] = c.fetchChannels(withPortion(ctx, portions[hostDigits(id)]), id)
			}
		})
	}
	asked.Wait()
	told := make(map[string]bool)
	for i, err := range errs {
		found = append(found, lists[i]...)
		switch refused, ok := errors.AsType[*kinds.Error](err); {
		case err == nil:
		case err == errPortionUsedUp:
			if host := hostDigits(intents[i]); !told[host] {
				told[host] = true
				fmt.Fprintf(c.Err, "acpctl channel: %s: %v, others of that machine perhaps too\n", intents[i], err)
			}
		case ok:
			fmt.Fprintf(c.Err, "acpctl channel: %s: %s\n", intents[i], client.Line(c.describeError(asking, refused)))
		case ctx.Err() != nil:
			fmt.Fprintf(c.Err, "acpctl channel: %s: its machine has not answered within %s\n", intents[i], c.patience)
		default:
			fmt.Fprintf(c.Err, "acpctl channel: %s: %s\n", intents[i], client.Line(err.Error()))
		}
	}
	return found
}

// listOfIntent returns the channels of one intent. Another daemon has c.patience to list them.
func (c *verbs) listOfIntent(ctx context.Context, intent string, own bool) ([]jsontext.Value, error) {
	if own {
		return c.fetchChannels(ctx, intent)
	}
	short, cancel := context.WithTimeout(ctx, c.patience)
	defer cancel()
	list, err := c.fetchChannels(withPortion(short, divideAmongHosts([]string{intent})[hostDigits(intent)]), intent)
	if err != nil && short.Err() != nil && ctx.Err() == nil {
		return nil, kinds.Errorf(kinds.Timeout, "the machine of %s has not answered within %s: try again, or name the channel by its id", intent, c.patience)
	}
	return list, err
}

// tellOutOfReach tells an agent which trusted machines have nothing in the list.
func (c *verbs) tellOutOfReach(ctx context.Context) error {
	away, err := c.peersOutOfReach(ctx)
	if err == nil && len(away) > 0 {
		names := make([]string, len(away))
		for i, p := range away {
			switch names[i] = peerName(p); {
			case p.Refuses:
				names[i] += " (does not trust this daemon)"
			case p.State == client.PeerConnected:
				names[i] += " (connected, but gave no list: it is slow, or its policy allows this daemon no channels)"
			default:
				names[i] += " (out of reach)"
			}
		}
		fmt.Fprintf(c.Err, "acpctl channel list: not in this list: %s\n", client.Line(strings.Join(names, ", ")))
	}
	return err
}

// peerName returns the petname of a peer, or else its label.
func peerName(p client.Peer) string { return cmp.Or(p.Name, p.ID.Label()) }

// peersOutOfReach returns the trusted peers that are not connected, or gave no list of intents
// in time. For an operator it returns none, because an operator is one on this machine alone.
func (c *verbs) peersOutOfReach(ctx context.Context) (away []client.Peer, err error) {
	if c.callingAgent() == "" {
		return nil, nil
	}
	peers, err := c.Daemon.Peers(ctx)
	if err != nil {
		return nil, err
	}
	for _, p := range peers {
		if p.State == client.PeerTrusted || p.State == client.PeerConnected && slices.Contains(c.missing, p.ID.String()) {
			away = append(away, p)
		}
	}
	return away, nil
}

// fetchChannels returns the channels of an intent, page by page. A page may be short because
// it is long in bytes: only a page with nothing new is the end.
func (c *verbs) fetchChannels(ctx context.Context, intent string) ([]jsontext.Value, error) {
	list, known := []jsontext.Value{}, make(map[string]bool)
	for range maxPages {
		var page []jsontext.Value
		if err := c.get(ctx, fmt.Sprintf("%s?limit=1000&offset=%d", channels.Path("intents", intent, "channels"), len(list)), &page); err != nil {
			return nil, err
		}
		found := false
		for _, v := range page {
			id, err := decodeID(v)
			if err != nil {
				return nil, err
			}
			if !known[id] {
				known[id], found = true, true
				list = append(list, v)
			}
		}
		if !found {
			return list, nil
		}
	}
	return nil, kinds.Errorf(kinds.TooLarge, "the list of the channels of %s does not end: name the channel by its id", intent)
}

// listIntents returns the ids of the intents that the caller sees, those of this daemon and
// those of others, and keeps their titles. An operator sees the former alone.
func (c *verbs) listIntents(ctx context.Context) (here, away []string, err error) {
	known := make(map[string]bool)
	c.titles = make(map[string]string)
	for range maxPages {
		var list struct {
			Intents []struct {
				ID    string `json:"id"`
				Title string `json:"title"`
			} `json:"intents"`
		}
		if err := c.get(ctx, fmt.Sprintf("%s?limit=1000&offset=%d", channels.Path("intents"), len(known)), &list); err != nil {
			return nil, nil, err
		}
		before := len(known)
		for _, in := range list.Intents {
			if known[in.ID] {
				continue
			}
			known[in.ID] = true
			c.titles[in.ID] = in.Title
			own, err := c.isOwnIntent(ctx, in.ID)
			if err != nil {
				return nil, nil, err
			}
			if own {
				here = append(here, in.ID)
			} else {
				away = append(away, in.ID)
			}
		}
		if len(known) == before {
			break
		}
	}
	return here, away, nil
}

// isOwnIntent reports whether an intent lives on this daemon, as all do that an operator sees.
// The id of such an intent begins with digits of the daemon's.
func (c *verbs) isOwnIntent(ctx context.Context, intent string) (bool, error) {
	if c.callingAgent() == "" {
		return true, nil
	}
	if c.self == (identity.ID{}) {
		me, err := c.Daemon.Whoami(ctx)
		if err != nil {
			return false, err
		}
		c.self = me.ID
	}
	digits, _, _ := strings.Cut(strings.TrimPrefix(intent, intentPrefix), "_")
	return digits != "" && strings.HasPrefix(c.self.String(), digits), nil
}

// decodeChannels decodes a list of channels. Their ids, which another machine wrote, are put
// on one line.
func decodeChannels(list []jsontext.Value) ([]channel, error) {
	decoded := make([]channel, len(list))
	for i, v := range list {
		if err := json.Unmarshal(v, &decoded[i]); err != nil {
			return nil, fmt.Errorf("read the daemon's answer: %w", err)
		}
		decoded[i].ID, decoded[i].Intent = client.Line(decoded[i].ID), client.Line(decoded[i].Intent) // another machine's words
	}
	return decoded, nil
}
