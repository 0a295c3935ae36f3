package channel

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/channels"
	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/kinds"
)

// findChannel returns the id of the open channel that CHANNEL names. A channel of this daemon is preferred
// over one of the same name elsewhere; other daemons are asked only if this one has no such channel.
func (c *verbs) findChannel(ctx context.Context, arg string) (id string, err error) {
	if strings.HasPrefix(arg, channelPrefix) {
		return arg, nil
	}
	intent, name := splitChannelName(arg)
	all, own := new(channels.Overview), false
	if intent != "" {
		if own, err = c.channelsClient().IsHostedHere(ctx, intent); err == nil {
			all.Channels, err = c.channelsClient().Channels(ctx, intent)
		}
	} else if all, err = c.channelsClient().ChannelsNamed(ctx, name); err == nil {
		c.warnUnlistedIntents(ctx, all.Unlisted)
	}
	if err != nil {
		return "", err
	}
	closed := ""
	var open []channels.Channel
	for _, ch := range all.Channels {
		switch {
		case ch.Name != name:
		case ch.Status == channels.StatusOpen:
			open = append(open, ch)
		default:
			closed = client.Line(ch.ID)
		}
	}
	switch {
	case len(open) == 1:
		return open[0].ID, nil
	case len(open) > 1:
		return "", frame.UsageErrorf("CHANNEL: several channels are called %q: name one as %s/%s or by its id", arg, client.Line(open[0].IntentID), name)
	case closed != "":
		return "", kinds.Errorf(kinds.NotFound, "the channel %q is closed: create another with acpctl channel create; acpctl channel tail %s shows what was said there", arg, closed)
	}
	if !own {
		if err := c.explainNotFound(ctx, arg, all.MissingHosts); err != nil {
			return "", frame.WithHint(err, fmt.Sprintf(`a machine in reach shows a channel only to agents that have an access entry there, and to machines in channels.open_to there.
A send waits for a machine that is away if it names the channel by its id, or as INTENT/%s.`, client.Line(name)))
		}
	}
	next := "acpctl channel list shows those that there are, with --as AGENT those of other machines too"
	if agent := c.callingAgentID(); agent != "" {
		next = fmt.Sprintf(`acpctl channel list --as %s shows those that there are.
A channel of another machine is among them if one of these is true:
- %[1]s has an access entry there, with this home.
- channels.open_to there names this machine, and no other agent had the id %[1]s there first
  (there, acpctl channel homes INTENT says who).`, agent)
	}
	return "", frame.WithHint(kinds.Errorf(kinds.NotFound, "there is no open channel %q that you can see", arg), next)
}

// explainNotFound returns an error if a channel that was not found may be on a machine that
// is out of reach.
func (c *verbs) explainNotFound(ctx context.Context, arg string, missing []string) error {
	away, err := c.listPeersOutOfReach(ctx, missing)
	if err != nil || len(away) == 0 {
		return err
	}
	others := slices.DeleteFunc(slices.Clone(away), func(p client.Peer) bool { return p.Refuses })
	switch {
	case len(others) == 0:
		return kinds.Errorf(kinds.NotTrusted, "there is no open channel %q in reach; it may be on %s, which does not trust this daemon: ask its owner to run acpctl trust there", arg, petnameOrLabel(away[0]))
	case len(away) == 1 && others[0].State == client.PeerConnected:
		return kinds.Errorf(kinds.Unreachable, "there is no open channel %q in reach; it may be on %s, which is connected and gave no list: try again, or name it by its id, or ask its owner whether its policy allows this daemon channels", arg, petnameOrLabel(others[0]))
	case len(away) == 1:
		return kinds.Errorf(kinds.Unreachable, "there is no open channel %q in reach; it may be on %s, which is not: try again when that is back, or name it by its id", arg, petnameOrLabel(others[0]))
	}
	return kinds.Errorf(kinds.Unreachable, "there is no open channel %q in reach; it may be on %s or another of the %d machines that gave no list: try again when they are back, or name it by its id", arg, petnameOrLabel(others[0]), len(away))
}

// What ids begin with.
const (
	intentPrefix  = "intent_"
	channelPrefix = "chan_"
)

// splitChannelName splits INTENT/NAME. Any other name has no intent.
func splitChannelName(arg string) (intent, name string) {
	if intent, name, ok := strings.Cut(arg, "/"); ok && strings.HasPrefix(intent, intentPrefix) {
		return intent, name
	}
	return "", arg
}
