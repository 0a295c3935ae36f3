package channel

import (
	"context"
	"regexp"
	"strings"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/kinds"
)

// People name an agent of another machine as AGENT@PEER, with the name that they have
// given to the peer. To the daemon it is AGENT@ and the peer's 64 digits, since names of
// peers are known only to one machine.

// thisMachine is the name of this daemon after an @, unless a peer has that name.
const thisMachine = "here"

var petnameForm = regexp.MustCompile(`^[a-z][a-z0-9-]*$`)

// listDaemonNames returns the names of trusted peers and of this daemon, by their ids.
func (c *verbs) listDaemonNames(ctx context.Context) (map[identity.ID]string, error) {
	if c.names != nil {
		return c.names, nil
	}
	me, err := c.Daemon.Whoami(ctx)
	if err != nil {
		return nil, err
	}
	peers, err := c.Daemon.Peers(ctx)
	if err != nil {
		return nil, err
	}
	c.self = me.ID
	names := map[identity.ID]string{me.ID: thisMachine}
	for _, p := range peers {
		if p.Name == "" || p.State != client.PeerTrusted && p.State != client.PeerConnected {
			continue
		}
		if names[p.ID] = p.Name; p.Name == thisMachine {
			delete(names, me.ID)
		}
	}
	c.names = names
	return names, nil
}

// resolveAgent returns what the daemon calls the agent that a person has named.
func (c *verbs) resolveAgent(ctx context.Context, arg string) (string, error) {
	sign := strings.LastIndexByte(arg, '@')
	if sign < 1 || !petnameForm.MatchString(arg[sign+1:]) || isDaemonID(arg[sign+1:]) {
		return arg, nil
	}
	names, err := c.listDaemonNames(ctx)
	if err != nil {
		return "", err
	}
	here := c.isLocalAgent(ctx, arg)
	for id, name := range names {
		if name != arg[sign+1:] {
			continue
		}
		full := arg[:sign] + "@" + id.String()
		if here {
			return "", frame.UsageErrorf("%s: an agent here is called so, all of it: say %s for the one there, %s@%s for the one here", arg, full, arg, c.self)
		}
		return full, nil
	}
	if here {
		return arg, nil
	}
	if peers, err := c.Daemon.Peers(ctx); err == nil {
		for _, p := range peers {
			if p.State == client.PeerBlocked && p.Name == arg[sign+1:] {
				return "", kinds.Errorf(kinds.UnknownPeer, "%s: %s was untrusted and is blocked: only its full id lifts that, acpctl trust %s", arg, p.Name, p.ID)
			}
		}
	}
	return "", frame.WithHint(kinds.Errorf(kinds.UnknownPeer, "%s: no peer is called %s", arg, arg[sign+1:]), "acpctl peers lists those that there are")
}

// isLocalAgent reports whether an agent of this daemon is registered under the id.
func (c *verbs) isLocalAgent(ctx context.Context, id string) bool {
	a, err := c.channelsClient().AgentRecord(ctx, id)
	return err == nil && a.Host == ""
}

// isDaemonID reports whether s is the id of a daemon.
func isDaemonID(s string) bool {
	_, err := identity.ParseID(s)
	return err == nil
}

// formatAgentName returns what people call an agent, on one line: with a petname instead of an id.
func (c *verbs) formatAgentName(ctx context.Context, name string) string {
	sign := strings.LastIndexByte(name, '@')
	if sign < 1 || !isDaemonID(name[sign+1:]) {
		return client.Line(name)
	}
	id, err := identity.ParseID(name[sign+1:])
	if err != nil {
		return client.Line(name)
	}
	if names, err := c.listDaemonNames(ctx); err == nil && names[id] != "" { // a daemon that cannot be asked tells no names
		name = name[:sign+1] + names[id]
	}
	return client.Line(name)
}

// joinAgentName returns the name of an agent by its id and its home, which may be "".
func joinAgentName(id, home string) string {
	if home == "" {
		return id
	}
	return id + "@" + home
}
