package channel

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/cli/frame"
	"github.com/acpd/acpd/kinds"
)

// channel is what the daemon says of one, as far as people are shown it.
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

const (
	intentID = "intent_"
	chanID   = "chan_"
	isOpen   = "open"
)

// Bounds of a look at what hosts list: a host may be slow, or never end.
const (
	listPatience = 5 * time.Second // for all hosts together
	maxPages     = 100             // of one list
	atOnce       = 16              // intents asked about at a time
)

// all returns the channels of an intent, or of every intent that can be seen. Of
// those of an intent that cannot be had, on a machine that is out of reach perhaps,
// it tells, and goes on.
func (c *channels) all(ctx context.Context, intent string) ([]jsontext.Value, error) {
	if intent != "" {
		own, err := c.isHere(ctx, intent)
		if err != nil {
			return nil, err
		}
		return c.ofOne(ctx, intent, own)
	}
	here, away, err := c.intents(ctx)
	if err != nil {
		return nil, err
	}
	found, err := c.ofHere(ctx, here)
	if err != nil {
		return nil, err
	}
	return append(found, c.ofHosts(ctx, away)...), nil
}

// ofHere returns the channels of intents of this daemon.
func (c *channels) ofHere(ctx context.Context, intents []string) (found []jsontext.Value, err error) {
	for _, id := range intents {
		of, err := c.of(ctx, id)
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

// ofHosts returns the channels of intents of other daemons, as far as they come within
// c.patience, and tells of the others.
func (c *channels) ofHosts(ctx context.Context, intents []string) (found []jsontext.Value) {
	asking := ctx
	ctx, cancel := context.WithTimeout(ctx, c.patience)
	defer cancel()
	portions := portionsOf(intents)
	lists, errs := make([][]jsontext.Value, len(intents)), make([]error, len(intents))
	places := make(chan struct{}, atOnce)
	var asked sync.WaitGroup
	for i, id := range intents {
		asked.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			if errs[i] = ctx.Err(); errs[i] == nil {
				lists[i], errs[i] = c.of(withPortion(ctx, portions[hostOf(id)]), id)
			}
		})
	}
	asked.Wait()
	told := make(map[string]bool)
	for i, err := range errs {
		found = append(found, lists[i]...)
		switch refused, ok := errors.AsType[*kinds.Error](err); {
		case err == nil:
		case err == errPortion:
			if host := hostOf(intents[i]); !told[host] {
				told[host] = true
				fmt.Fprintf(c.Err, "acpctl channel: %s: %v, others of that machine perhaps too\n", intents[i], err)
			}
		case ok:
			fmt.Fprintf(c.Err, "acpctl channel: %s: %s\n", intents[i], client.Line(c.saying(asking, refused)))
		case ctx.Err() != nil:
			fmt.Fprintf(c.Err, "acpctl channel: %s: its machine has not answered within %s\n", intents[i], c.patience)
		default:
			fmt.Fprintf(c.Err, "acpctl channel: %s: %s\n", intents[i], client.Line(err.Error()))
		}
	}
	return found
}

// ofOne returns the channels of one intent. A daemon elsewhere has c.patience for that.
func (c *channels) ofOne(ctx context.Context, intent string, own bool) ([]jsontext.Value, error) {
	if own {
		return c.of(ctx, intent)
	}
	short, cancel := context.WithTimeout(ctx, c.patience)
	defer cancel()
	list, err := c.of(withPortion(short, portionsOf([]string{intent})[hostOf(intent)]), intent)
	if err != nil && short.Err() != nil && ctx.Err() == nil {
		return nil, kinds.Errorf(kinds.Timeout, "the machine of %s has not answered within %s: try again, or name the channel by its id", intent, c.patience)
	}
	return list, err
}

// tellAway tells an agent which trusted machines are out of reach: what is there is in no list.
func (c *channels) tellAway(ctx context.Context) error {
	away, err := c.outOfReach(ctx)
	if err == nil && len(away) > 0 {
		names := make([]string, len(away))
		for i, p := range away {
			switch names[i] = nameOf(p); {
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

func nameOf(p client.Peer) string { return cmp.Or(p.Name, p.ID.Label()) }

// outOfReach returns the trusted machines that are not connected, or gave no list of their
// intents in time; none for an operator, who is one here alone.
func (c *channels) outOfReach(ctx context.Context) (away []client.Peer, err error) {
	if c.speaker() == "" {
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

// of returns the channels of an intent. A list also ends when it is long in bytes: not
// before a page has nothing new there is no more.
func (c *channels) of(ctx context.Context, intent string) ([]jsontext.Value, error) {
	list, known := []jsontext.Value{}, make(map[string]bool)
	for range maxPages {
		var page []jsontext.Value
		if err := c.read(ctx, fmt.Sprintf("%s?limit=1000&offset=%d", path("intents", intent, "channels"), len(list)), &page); err != nil {
			return nil, err
		}
		found := false
		for _, v := range page {
			id, err := idOf(v)
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

// intents returns the ids of the intents of this daemon that can be seen, and of those
// of other daemons. An operator sees the former alone. Their titles are in c.titles then.
func (c *channels) intents(ctx context.Context) (here, away []string, err error) {
	known := make(map[string]bool)
	c.titles = make(map[string]string)
	for range maxPages {
		var list struct {
			Intents []struct {
				ID    string `json:"id"`
				Title string `json:"title"`
			} `json:"intents"`
		}
		if err := c.read(ctx, fmt.Sprintf("%s?limit=1000&offset=%d", path("intents"), len(known)), &list); err != nil {
			return nil, nil, err
		}
		before := len(known)
		for _, in := range list.Intents {
			if known[in.ID] {
				continue
			}
			known[in.ID] = true
			c.titles[in.ID] = in.Title
			own, err := c.isHere(ctx, in.ID)
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

// isHere reports whether an intent is one of this daemon, whose id the intent's begins with.
func (c *channels) isHere(ctx context.Context, intent string) (bool, error) {
	if c.speaker() == "" {
		return true, nil
	}
	if c.self == (identity.ID{}) {
		me, err := c.Daemon.Whoami(ctx)
		if err != nil {
			return false, err
		}
		c.self = me.ID
	}
	digits, _, _ := strings.Cut(strings.TrimPrefix(intent, intentID), "_")
	return digits != "" && strings.HasPrefix(c.self.String(), digits), nil
}

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

// find returns the id of the channel that CHANNEL means. One of this daemon comes first:
// what others call theirs hides none, and they are asked only where there is none here.
func (c *channels) find(ctx context.Context, arg string) (string, error) {
	id, closed, err := c.lookFor(ctx, arg)
	if closed != "" {
		return "", kinds.Errorf(kinds.NotFound, "the channel %q is closed: name it by its id, %s", arg, closed)
	}
	return id, err
}

// findOpen is find for a verb that a closed channel refuses, also by its id.
func (c *channels) findOpen(ctx context.Context, arg string) (string, error) {
	id, closed, err := c.lookFor(ctx, arg)
	if closed != "" {
		return "", kinds.Errorf(kinds.NotFound, "the channel %q is closed: create another with acpctl channel create; acpctl channel tail %s shows what was said there", arg, closed)
	}
	return id, err
}

// lookFor returns the id of the channel that CHANNEL means, or of one that is closed.
func (c *channels) lookFor(ctx context.Context, arg string) (id, closed string, err error) {
	if strings.HasPrefix(arg, chanID) {
		return arg, "", nil
	}
	intent, name := apart(arg)
	var list []jsontext.Value
	var away []string
	own := false
	if intent != "" {
		if own, err = c.isHere(ctx, intent); err == nil {
			list, err = c.ofOne(ctx, intent, own)
		}
	} else {
		var here []string
		if here, away, err = c.intents(ctx); err == nil {
			list, err = c.ofHere(ctx, here)
		}
	}
	if err != nil {
		return "", "", err
	}
	found, old, err := named(list, name)
	if err == nil && len(found) == 0 && len(away) > 0 {
		found, _, err = named(c.ofHosts(ctx, away), name)
	}
	switch {
	case err != nil:
		return "", "", err
	case len(found) == 1:
		return found[0].ID, "", nil
	case len(found) > 1:
		return "", "", frame.Usagef("CHANNEL: %d channels are called %q: name one as %s/%s or by its id", len(found), arg, found[0].Intent, name)
	case old != "":
		return "", old, nil
	}
	if !own {
		if err := c.elsewhere(ctx, arg); err != nil {
			return "", "", err
		}
	}
	next := "acpctl channel list shows those that there are, with --as AGENT those of other machines too"
	if agent := c.speaker(); agent != "" {
		next = fmt.Sprintf("acpctl channel list --as %s shows those that there are; one of another machine is among them where that grants %[1]s access with this home, or opens its intents to this machine (channels.open_to) and nobody else had the id %[1]s there first: acpctl channel homes INTENT says who, there", agent)
	}
	return "", "", frame.WithHint(kinds.Errorf(kinds.NotFound, "there is no open channel %q that you can see", arg), next)
}

// named returns the open channels of a name, and the id of one that is closed.
func named(list []jsontext.Value, name string) (found []channel, closed string, err error) {
	known, err := decodeChannels(list)
	for _, ch := range known {
		switch {
		case ch.Name != name:
		case ch.Status == isOpen:
			found = append(found, ch)
		default:
			closed = ch.ID
		}
	}
	return found, closed, err
}

// elsewhere is the error of a channel that is not found while it may be on a machine
// that is out of reach; nil if there is none that would be asked.
func (c *channels) elsewhere(ctx context.Context, arg string) error {
	away, err := c.outOfReach(ctx)
	if err != nil || len(away) == 0 {
		return err
	}
	refuses := slices.IndexFunc(away, func(p client.Peer) bool { return p.Refuses })
	others := slices.DeleteFunc(slices.Clone(away), func(p client.Peer) bool { return p.Refuses })
	switch {
	case len(others) == 0:
		return kinds.Errorf(kinds.NotTrusted, "there is no open channel %q in reach; it may be on %s, which does not trust this daemon: ask its owner to run acpctl trust there", arg, nameOf(away[refuses]))
	case len(away) == 1 && others[0].State == client.PeerConnected:
		return kinds.Errorf(kinds.Unreachable, "there is no open channel %q in reach; it may be on %s, which is connected and gave no list: try again, or name it by its id, or ask its owner whether its policy allows this daemon channels", arg, nameOf(others[0]))
	case len(away) == 1:
		return kinds.Errorf(kinds.Unreachable, "there is no open channel %q in reach; it may be on %s, which is not: try again when that is back, or name it by its id", arg, nameOf(others[0]))
	}
	return kinds.Errorf(kinds.Unreachable, "there is no open channel %q in reach; it may be on %s or another of the %d machines that gave no list: try again when they are back, or name it by its id", arg, nameOf(others[0]), len(away))
}

// apart takes INTENT/NAME apart; any other name has no intent.
func apart(arg string) (intent, name string) {
	if intent, name, ok := strings.Cut(arg, "/"); ok && strings.HasPrefix(intent, intentID) {
		return intent, name
	}
	return "", arg
}
