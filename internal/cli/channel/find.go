package channel

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/cli/frame"
	"github.com/acpd/acpd/kinds"
)

// findChannel returns the id of the channel that CHANNEL names. A channel of this daemon wins
// over one of the same name elsewhere; other daemons are asked only if there is none here.
func (c *verbs) findChannel(ctx context.Context, arg string) (string, error) {
	id, closed, err := c.lookUp(ctx, arg)
	if closed != "" {
		return "", kinds.Errorf(kinds.NotFound, "the channel %q is closed: name it by its id, %s", arg, closed)
	}
	return id, err
}

// findOpenChannel does as findChannel, for a verb that a closed channel refuses.
func (c *verbs) findOpenChannel(ctx context.Context, arg string) (string, error) {
	id, closed, err := c.lookUp(ctx, arg)
	if closed != "" {
		return "", kinds.Errorf(kinds.NotFound, "the channel %q is closed: create another with acpctl channel create; acpctl channel tail %s shows what was said there", arg, closed)
	}
	return id, err
}

// lookUp returns the id of the open channel that CHANNEL names. If there is only a closed one,
// it returns the id of that as closed.
func (c *verbs) lookUp(ctx context.Context, arg string) (id, closed string, err error) {
	if strings.HasPrefix(arg, channelPrefix) {
		return arg, "", nil
	}
	intent, name := splitName(arg)
	var list []jsontext.Value
	var away []string
	own := false
	if intent != "" {
		if own, err = c.isOwnIntent(ctx, intent); err == nil {
			list, err = c.listOfIntent(ctx, intent, own)
		}
	} else {
		var here []string
		if here, away, err = c.listIntents(ctx); err == nil {
			list, err = c.listHere(ctx, here)
		}
	}
	if err != nil {
		return "", "", err
	}
	found, old, err := channelsNamed(list, name)
	if err == nil && len(found) == 0 && len(away) > 0 {
		found, _, err = channelsNamed(c.listElsewhere(ctx, away), name)
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
		if err := c.errorIfElsewhere(ctx, arg); err != nil {
			return "", "", err
		}
	}
	next := "acpctl channel list shows those that there are, with --as AGENT those of other machines too"
	if agent := c.callingAgent(); agent != "" {
		next = fmt.Sprintf("acpctl channel list --as %s shows those that there are; one of another machine is among them where that grants %[1]s access with this home, or opens its intents to this machine (channels.open_to) and nobody else had the id %[1]s there first: acpctl channel homes INTENT says who, there", agent)
	}
	return "", "", frame.WithHint(kinds.Errorf(kinds.NotFound, "there is no open channel %q that you can see", arg), next)
}

// channelsNamed returns the open channels of a name, and the id of a closed one.
func channelsNamed(list []jsontext.Value, name string) (found []channel, closed string, err error) {
	known, err := decodeChannels(list)
	for _, ch := range known {
		switch {
		case ch.Name != name:
		case ch.Status == statusOpen:
			found = append(found, ch)
		default:
			closed = ch.ID
		}
	}
	return found, closed, err
}

// errorIfElsewhere returns an error if a channel that was not found may be on a machine that
// is out of reach.
func (c *verbs) errorIfElsewhere(ctx context.Context, arg string) error {
	away, err := c.peersOutOfReach(ctx)
	if err != nil || len(away) == 0 {
		return err
	}
	refuses := slices.IndexFunc(away, func(p client.Peer) bool { return p.Refuses })
	others := slices.DeleteFunc(slices.Clone(away), func(p client.Peer) bool { return p.Refuses })
	switch {
	case len(others) == 0:
		return kinds.Errorf(kinds.NotTrusted, "there is no open channel %q in reach; it may be on %s, which does not trust this daemon: ask its owner to run acpctl trust there", arg, peerName(away[refuses]))
	case len(away) == 1 && others[0].State == client.PeerConnected:
		return kinds.Errorf(kinds.Unreachable, "there is no open channel %q in reach; it may be on %s, which is connected and gave no list: try again, or name it by its id, or ask its owner whether its policy allows this daemon channels", arg, peerName(others[0]))
	case len(away) == 1:
		return kinds.Errorf(kinds.Unreachable, "there is no open channel %q in reach; it may be on %s, which is not: try again when that is back, or name it by its id", arg, peerName(others[0]))
	}
	return kinds.Errorf(kinds.Unreachable, "there is no open channel %q in reach; it may be on %s or another of the %d machines that gave no list: try again when they are back, or name it by its id", arg, peerName(others[0]), len(away))
}

// splitName splits INTENT/NAME. Any other name has no intent.
func splitName(arg string) (intent, name string) {
	if intent, name, ok := strings.Cut(arg, "/"); ok && strings.HasPrefix(intent, intentPrefix) {
		return intent, name
	}
	return "", arg
}
