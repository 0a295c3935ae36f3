package channels

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/acpd/acpd/kinds"
)

// Bounds of lists: a host may be slow, or its list endless.
const (
	defaultListPatience = 5 * time.Second
	maxPages            = 100 // of one list
	pageSize            = 1000
	concurrentLists     = 16 // intents whose channels are asked for at a time
)

// requestList makes a request whose answer is a list of Ts. share bounds the answer's bytes
// unless it is nil.
func requestList[T any](ctx context.Context, c *Client, path string, share *hostShare) ([]T, error) {
	found, err := requestResult[[]T](ctx, c, Request{Method: http.MethodGet, URL: path, share: share})
	if err != nil {
		return nil, err
	}
	return *found, nil
}

// readAllPages reads a list page by page, and reports whether it came to the end. A page may be
// short because it is long in bytes: only a page with nothing new is the end.
func readAllPages[T any](id func(*T) string, read func(query string) ([]T, error)) (found []T, whole bool, err error) {
	known := make(map[string]bool)
	for range maxPages {
		page, err := read(fmt.Sprintf("?limit=%d&offset=%d", pageSize, len(found)))
		if err != nil {
			return nil, false, err
		}
		before := len(found)
		for i := range page {
			if id := id(&page[i]); !known[id] {
				known[id] = true
				found = append(found, page[i])
			}
		}
		if len(found) == before {
			return found, true, nil
		}
	}
	return found, false, nil
}

// IntentList holds the intents that a caller sees.
type IntentList struct {
	Intents      []Intent `json:"intents"` // the newest first
	MissingHosts []string `json:"-"`       // ids of the daemons that did not list theirs in time
}

// Intents returns the intents that the caller sees. An operator sees only those of its own
// daemon.
func (c *Client) Intents(ctx context.Context) (*IntentList, error) {
	all := new(IntentList)
	var err error
	all.Intents, _, err = readAllPages(func(i *Intent) string { return i.ID }, func(query string) ([]Intent, error) {
		answer, err := c.Do(ctx, Request{Method: http.MethodGet, URL: JoinURL("intents") + query})
		if err != nil {
			return nil, err
		}
		all.MissingHosts = append(all.MissingHosts, answer.MissingHosts...)
		var page IntentList
		err = answer.decodeText(&page)
		return page.Intents, err
	})
	return all, err
}

// Agents returns the agents that are registered on daemons in reach, as far as the caller may
// see them.
func (c *Client) Agents(ctx context.Context) ([]Agent, error) {
	all, _, err := readAllPages(func(a *Agent) string { return a.ID + "@" + a.Host }, func(query string) ([]Agent, error) {
		return requestList[Agent](ctx, c, JoinURL("agents")+query, nil)
	})
	return all, err
}

// Homes returns the agents that have used an intent, each with the daemon where it is at home.
func (c *Client) Homes(ctx context.Context, intent string) ([]Home, error) {
	return requestList[Home](ctx, c, JoinURL("intents", intent, "homes"), nil)
}

// Unsent returns the caller's messages that wait for their host, or that it refused, the
// oldest first. An operator's are those of all agents.
func (c *Client) Unsent(ctx context.Context) (all []Message, err error) {
	var after int64
	for range maxPages {
		page, err := requestList[Message](ctx, c, fmt.Sprintf("%s?limit=%d&after=%d", JoinURL("unsent"), pageSize, after), nil)
		if err != nil || len(page) == 0 {
			return all, err
		}
		all = append(all, page...)
		after = page[len(page)-1].Seq
	}
	return all, nil
}

// HostDigits returns the digits that the id of an intent or a channel has of its host's id.
func HostDigits(id string) string {
	_, rest, _ := strings.Cut(id, "_")
	digits, _, _ := strings.Cut(rest, "_")
	return digits
}

// IsHostedHere reports whether an intent or a channel lives on the caller's own daemon, as all do
// that an operator sees.
func (c *Client) IsHostedHere(ctx context.Context, id string) (bool, error) {
	if c.Agent == "" {
		return true, nil
	}
	if c.self.Load() == nil {
		me, err := c.Daemon.Whoami(ctx)
		if err != nil {
			return false, err
		}
		c.self.Store(&me.ID)
	}
	digits := HostDigits(id)
	return digits != "" && strings.HasPrefix(c.self.Load().String(), digits), nil
}

// Channels returns the channels of an intent, the open ones first. Another daemon has
// ListPatience to list them.
func (c *Client) Channels(ctx context.Context, intent string) ([]Channel, error) {
	own, err := c.IsHostedHere(ctx, intent)
	if err != nil {
		return nil, err
	}
	if own {
		return c.readChannels(ctx, intent, nil)
	}
	short, cancel := context.WithTimeout(ctx, c.patienceOrDefault())
	defer cancel()
	found, err := c.readChannels(short, intent, newHostShares([]string{intent})[HostDigits(intent)])
	if err != nil && short.Err() != nil && ctx.Err() == nil {
		return nil, kinds.Errorf(kinds.Timeout, "the machine of %s has not answered within %s: try again, or name the channel by its id", intent, c.patienceOrDefault())
	}
	return found, err
}

func (c *Client) patienceOrDefault() time.Duration {
	return cmp.Or(c.ListPatience, defaultListPatience)
}

// readChannels reads the channels of an intent, as far as its host's share of bytes lasts.
func (c *Client) readChannels(ctx context.Context, intent string, share *hostShare) ([]Channel, error) {
	found, whole, err := readAllPages(func(ch *Channel) string { return ch.ID }, func(query string) ([]Channel, error) {
		return requestList[Channel](ctx, c, JoinURL("intents", intent, "channels")+query, share)
	})
	if err == nil && !whole {
		err = kinds.Errorf(kinds.TooLarge, "the list of the channels of %s does not end: name the channel by its id", intent)
	}
	return found, err
}

// Overview holds the channels of many intents.
type Overview struct {
	IntentList
	Channels []Channel  // those of the caller's own daemon first
	Unlisted []Unlisted // the intents whose channels are not among them
}

// Unlisted is an intent whose channels could not be listed.
type Unlisted struct {
	Intent string
	Err    error
}

// AllChannels returns the channels of every intent that the caller sees. Other daemons have
// ListPatience to list theirs, and a bounded share of bytes each.
func (c *Client) AllChannels(ctx context.Context) (*Overview, error) {
	all, elsewhere, err := c.listOwnChannels(ctx)
	if err == nil {
		c.addChannelsElsewhere(ctx, all, elsewhere)
	}
	return all, err
}

// ChannelsNamed returns the channels of that name, of all intents. A channel of the caller's own
// daemon is preferred: other daemons are asked only if no such channel is open here. It returns
// only open channels of other daemons.
func (c *Client) ChannelsNamed(ctx context.Context, name string) (*Overview, error) {
	all, elsewhere, err := c.listOwnChannels(ctx)
	if err != nil {
		return nil, err
	}
	isOther := func(ch Channel) bool { return ch.Name != name }
	all.Channels = slices.DeleteFunc(all.Channels, isOther)
	isOpen := func(ch Channel) bool { return ch.Status == StatusOpen }
	if own := len(all.Channels); !slices.ContainsFunc(all.Channels, isOpen) {
		c.addChannelsElsewhere(ctx, all, elsewhere)
		theirs := slices.DeleteFunc(all.Channels[own:], func(ch Channel) bool { return isOther(ch) || !isOpen(ch) })
		all.Channels = all.Channels[:own+len(theirs)]
	}
	return all, nil
}

// FindChannel returns the open channel of that name: of one intent, or of any if intent is "".
// The error is not_found without such a channel, and invalid with several.
func (c *Client) FindChannel(ctx context.Context, intent, name string) (*Channel, error) {
	var found []Channel
	var err error
	if intent != "" {
		found, err = c.Channels(ctx, intent)
	} else if all, failed := c.ChannelsNamed(ctx, name); failed != nil {
		err = failed
	} else {
		found = all.Channels
	}
	if err != nil {
		return nil, err
	}
	found = slices.DeleteFunc(found, func(ch Channel) bool { return ch.Name != name || ch.Status != StatusOpen })
	switch len(found) {
	case 0:
		return nil, kinds.Errorf(kinds.NotFound, "there is no open channel %q that you can see", name)
	case 1:
		return &found[0], nil
	}
	return nil, kinds.Errorf(kinds.Invalid, "several channels are called %q: name the intent too", name)
}

// listOwnChannels returns the channels of the intents of the caller's own daemon, and the ids of the
// other intents that the caller sees.
func (c *Client) listOwnChannels(ctx context.Context) (all *Overview, elsewhere []string, err error) {
	intents, err := c.Intents(ctx)
	if err != nil {
		return nil, nil, err
	}
	all = &Overview{IntentList: *intents}
	for _, in := range intents.Intents {
		own, err := c.IsHostedHere(ctx, in.ID)
		if err != nil {
			return nil, nil, err
		}
		if !own {
			elsewhere = append(elsewhere, in.ID)
			continue
		}
		found, err := c.readChannels(ctx, in.ID, nil)
		if refused, ok := errors.AsType[*kinds.Error](err); ok && refused.Code != kinds.DaemonUnavailable {
			all.Unlisted = append(all.Unlisted, Unlisted{in.ID, err})
		} else if err != nil {
			return nil, nil, err
		}
		all.Channels = append(all.Channels, found...)
	}
	return all, elsewhere, nil
}

// addChannelsElsewhere adds the channels of intents of other daemons that come within ListPatience.
// Of a machine whose share of bytes is used up it names one intent only.
func (c *Client) addChannelsElsewhere(ctx context.Context, all *Overview, intents []string) {
	ctx, cancel := context.WithTimeout(ctx, c.patienceOrDefault())
	defer cancel()
	shares := newHostShares(intents)
	lists, errs := make([][]Channel, len(intents)), make([]error, len(intents))
	places := make(chan struct{}, concurrentLists)
	var asked sync.WaitGroup
	for i, id := range intents {
		asked.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			if errs[i] = ctx.Err(); errs[i] == nil {
				lists[i], errs[i] = c.readChannels(ctx, id, shares[HostDigits(id)])
			}
		})
	}
	asked.Wait()
	told := make(map[string]bool) // machines whose share is used up
	for i, err := range errs {
		all.Channels = append(all.Channels, lists[i]...)
		if _, ok := errors.AsType[*kinds.Error](err); !ok && err != nil && ctx.Err() != nil {
			err = kinds.Errorf(kinds.Timeout, "its machine has not answered within %s", c.patienceOrDefault())
		}
		if host := HostDigits(intents[i]); err == errShareUsedUp && told[host] {
			continue
		} else if err == errShareUsedUp {
			told[host] = true
		}
		if err != nil {
			all.Unlisted = append(all.Unlisted, Unlisted{intents[i], err})
		}
	}
}
