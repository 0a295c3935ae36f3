package meet

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/app/cli/frame"
)

func (v *Verbs) newJoinCmd() *cobra.Command {
	var keepRelay, noRelay bool
	cmd := &cobra.Command{
		Use:   "join [URI]",
		Short: "Accept the invitation of another machine",
		Example: `  acpctl join                       then paste the line that acpctl invite printed
  ssh desk.example acpctl invite | acpctl join
  acpctl invite | ssh laptop.example acpctl join --keep-relay`,
		Long: `After that, the two daemons trust each other. Give the invitation on standard input rather than as an argument: other users
of this machine can read command lines, and shells remember them. White space in it, and quotes or angle brackets around it,
are ignored. A script reads the peer's name on standard output; what to do next goes to standard error.

An invitation may name a relay, a server that passes packets on between daemons. If this daemon does not use it yet, acpctl
asks. A script says it beforehand: --keep-relay uses the relay from now on, --no-relay joins without it. If you already use
that relay and it rejects your saved token, --keep-relay replaces it. A relay of config.yaml is not changed.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if keepRelay && noRelay {
				return frame.UsageErrorf("--keep-relay and --no-relay: leave one of them out")
			}
			var inv identity.Invitation
			var err error
			if len(args) > 0 {
				inv, err = v.ParseArgument(args[0])
			} else {
				if v.InTTY {
					v.PrintForPerson("Paste the invitation:")
				}
				begun, readErr := v.ReadLine(cmd.Context())
				if readErr != nil {
					return readErr
				}
				inv, err = v.ReadInvitation(cmd.Context(), begun)
			}
			if err != nil {
				return err
			}
			peer, err := v.Join(cmd.Context(), inv, keepRelay, noRelay)
			if err != nil {
				return err
			}
			return v.PrintData(peer, func() {
				v.printTrusted(peer)
				v.tellOfJoin(peer)
			})
		},
	}
	cmd.Flags().BoolVar(&keepRelay, "keep-relay", false, "use the relay that the invitation names, and its token, from now on")
	cmd.Flags().BoolVar(&noRelay, "no-relay", false, "do without it")
	return cmd
}

// Join joins an invitation, by its relays or without them, or as a person chooses.
func (v *Verbs) Join(ctx context.Context, inv identity.Invitation, keepRelay, noRelay bool) (peer *client.NamedPeer, err error) {
	p := client.JoinParams{URI: inv.LongString()} // an older daemon takes it too
	switch {
	case noRelay:
		inv.Relays = nil
		p.URI = inv.LongString()
	case keepRelay:
		p.Relay = client.JoinKeepsRelay
	case len(inv.Relays) > 0:
		if p, err = v.chooseJoinRelay(ctx, inv); err != nil {
			return nil, err
		}
	}
	if peer, err = v.Daemon.JoinWith(ctx, p); err != nil {
		return nil, err
	}
	if peer.Warning != "" {
		v.Warn("%s", peer.Warning)
	}
	return peer, nil
}

// ReadInvitation parses an invitation that begins with what was read before. One that mail or a
// terminal has broken is read over several lines, until it is whole or a line is empty.
func (v *Verbs) ReadInvitation(ctx context.Context, begun string) (identity.Invitation, error) {
	for {
		inv, err := v.parsePastedInvitation(begun)
		if err == nil || !strings.Contains(begun, "acp://") || len(begun) > maxPasted {
			return inv, err
		}
		if v.InTTY {
			v.PrintForPerson("It is not whole yet: paste the rest, or press Enter.")
		}
		line, readErr := v.ReadLine(ctx)
		if readErr != nil || line == "" {
			return inv, cmp.Or(readErr, err)
		}
		begun += line
	}
}

// maxPasted is more than any invitation has, and bounds what is read in the hope of the rest of one.
const maxPasted = 8 << 10

// ParseArgument parses an invitation that is an argument. A shell ends a command at an & that is not in quotes,
// so that only what is before it gets here.
func (v *Verbs) ParseArgument(text string) (identity.Invitation, error) {
	inv, err := v.parsePastedInvitation(text)
	if err != nil && strings.HasPrefix(text, "acp:") && strings.Contains(text, "?") && !strings.Contains(text, "&") {
		err = frame.Instead{Err: frame.UsageErrorf("this is not a whole invitation: the shell has cut it at the first &"), Type: v.Verb + " 'acp://…', with the whole line between quotes"}
	}
	return inv, err
}

// parsePastedInvitation parses an invitation as people paste it: with white space in it, in quotes or in angle
// brackets.
func (v *Verbs) parsePastedInvitation(text string) (identity.Invitation, error) {
	text = strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || r == '\u200b' || r == '\ufeff' {
			return -1
		}
		return r
	}, text)
	text = strings.Trim(text, "<>\"'`“”„‘’«»")
	if text == "" {
		return identity.Invitation{}, frame.UsageErrorf("the invitation is empty: give the line of the other machine")
	}
	inv, err := identity.ParseInvitation(text)
	if err != nil && strings.HasPrefix(text, "acp:") {
		err = fmt.Errorf("this is not a whole invitation: %w", err)
	}
	if err != nil {
		err = frame.Instead{Err: frame.UsageErrorf("%w", err), Type: v.Verb + ", and paste the line of the other machine"}
	}
	return inv, err
}

// chooseJoinRelay asks a person whether the daemon is to use the relays that an invitation names, unless it does
// already. It returns a usage error if no person can be asked.
func (v *Verbs) chooseJoinRelay(ctx context.Context, inv identity.Invitation) (client.JoinParams, error) {
	p := client.JoinParams{URI: inv.LongString()}
	used, err := v.Daemon.Relays(ctx)
	if err != nil && !client.IsOlderDaemon(err) {
		return p, err
	}
	var unknown []string
	for _, r := range inv.Relays {
		if !slices.ContainsFunc(used, func(u client.Relay) bool { return u.URL == r.URL && u.State != client.RelayUnused }) {
			unknown = append(unknown, r.URL)
		}
	}
	if len(unknown) == 0 {
		return p, nil
	}
	text := client.Line(strings.Join(unknown, " and "))
	if !v.InTTY {
		return p, frame.UsageErrorf("the invitation names the relay %s, which this daemon does not use: --keep-relay uses it from now on, --no-relay joins without it", text)
	}
	yes, err := v.Confirm(ctx, fmt.Sprintf("The invitation names the relay %s, which this daemon does not use yet.\n"+
		"A relay passes packets on. It can see who talks to whom and how much, but not what they say.\nUse it from now on?", text))
	if err != nil {
		return p, err
	}
	inv.Relays = slices.Clone(inv.Relays)
	if yes {
		p.Relay = client.JoinKeepsRelay
		for i, r := range inv.Relays {
			if !slices.Contains(unknown, r.URL) { // keep would take its token too, if it refuses the daemon by then
				inv.Relays[i].Token = ""
			}
		}
	} else {
		v.PrintForPerson("The answer was not yes: joining without it.")
		inv.Relays = slices.DeleteFunc(inv.Relays, func(r identity.InvitedRelay) bool { return slices.Contains(unknown, r.URL) })
	}
	p.URI = inv.LongString()
	return p, nil
}

// tellOfJoin prints the state after a join, and what to do next. It does so also if no person reads:
// join often runs through ssh, without a terminal.
func (v *Verbs) tellOfJoin(peer *client.NamedPeer) {
	name := peer.Name
	for _, relay := range peer.Kept {
		v.TellLine(fmt.Sprintf("This daemon uses the relay %s from now on: acpctl relay remove %[1]s takes it out.", client.Line(relay)))
	}
	v.TellLine(fmt.Sprintf("This daemon and %s trust each other now: agents on both sides may send messages.", name))
	v.TellLine(fmt.Sprintf("Next: acpctl ping %s; and acpctl setup, on each side, to connect an agent program.", name))
}
