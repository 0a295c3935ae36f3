package meet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/internal/app/cli/ui"
	"github.com/acpd/acpd/internal/shellpath"
	"github.com/acpd/acpd/kinds"
)

func (v *Verbs) newTrustCmd() *cobra.Command {
	var p client.TrustParams
	var yes bool
	var list rosterFlags
	cmd := &cobra.Command{
		Use:   "trust ID|NAME | --file ROSTER",
		Short: "Trust a stranger or a roster of machines, or change a peer's name or addresses",
		Example: `  acpctl trust laptop               a stranger in acpctl peers: compare fingerprints, type yes
  acpctl trust --name desk \
      9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
  acpctl trust desk --addr desk.example:7117 --name office
  acpctl trust desk --addr none     forgets the addresses that were given, and where it was before
  acpctl trust --file roster.yaml   shows what that changes, and asks
  ssh build.example acpctl trust --file - --yes < roster.yaml`,
		Long: `With the full id it asks nothing. You may also name a stranger (see peers) by what it calls itself, or by the beginning of its
id. Then acpctl shows its fingerprint: compare it with the one that acpctl whoami shows there, and type yes. Both sides have
to trust each other; acpctl invite does that in one go.

Without --name a peer that was trusted before keeps its name. A new one gets the name that it calls itself, with a number if
that name is taken: another peer has it, config.yaml mentions it, or an untrusted key had it. If it has no name, a reserved
one like user or claude, or one with other characters than small letters, digits and hyphens, it is called peer- and the
first ten digits of its id.

With --file it trusts all machines that a roster lists, or none. A roster is peers: followed by what acpctl whoami --roster
prints on each machine. acpctl shows what is new, renamed or has new addresses, and asks. It skips this daemon's own entry,
and removes nobody. If one key is blocked, or one name is reserved or taken, nothing is changed. Using the same roster again
changes nothing, so one file works on every machine.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if !cmd.Flags().Changed("file") {
				return frame.NamedArgs("ID or NAME")(cmd, args)
			}
			if len(args) > 0 || len(frame.ListGiven(cmd, "name", "addr")) > 0 {
				return errors.New("--file: the roster says whom to trust, and by which names: leave out what names one peer")
			}
			return nil
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return v.CompletePeers(cmd, args, begun, client.PeerPending, client.PeerDiscovered)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if list.file != "" {
				list.yes = yes
				return v.trustRoster(cmd.Context(), &list)
			}
			if list.dryRun {
				return frame.UsageErrorf("--dry-run: only with --file")
			}
			return v.trustPeer(cmd.Context(), args[0], yes, p)
		},
	}
	f := cmd.Flags()
	f.StringVar(&p.Name, "name", "", "the peer's name here (default: that which it has or had, what it calls itself, or peer- and digits of its id)")
	f.StringSliceVar(&p.Addrs, "addr", nil, "address of the peer, host:port, instead of those given before; several times for several; none to forget them, and where it was before")
	f.BoolVar(&yes, "yes", false, "never ask: ID must be the full id")
	f.Var((*shellpath.Flag)(&list.file), "file", "trust the machines that this `ROSTER` lists; - is standard input")
	f.BoolVar(&list.dryRun, "dry-run", false, "with --file: show what would change, and change nothing")
	return cmd
}

// trustPeer trusts the key that ref names. A stranger that is not named by its full id needs a yes;
// with yes nobody is asked, so ref must be that id.
func (v *Verbs) trustPeer(ctx context.Context, ref string, yes bool, p client.TrustParams) error {
	if p.Name != "" {
		if err := identity.CheckName(p.Name); err != nil {
			return frame.UsageErrorf("--name: %w", err)
		}
	}
	if slices.Equal(p.Addrs, []string{"none"}) {
		p.Addrs = []string{}
	}
	if err := identity.CheckAddrs(p.Addrs); err != nil {
		return frame.UsageErrorf("--addr: %w", err)
	}
	id, err := identity.ParseID(strings.ToLower(ref))
	switch {
	case err == nil:
		p.Peer = id.String()
	case v.AsGuest:
		p.Peer = ref // the daemon says whose business it is
	case yes:
		return frame.UsageErrorf("--yes: only with the full id of 64 digits, not with %q", ref)
	default:
		if err := v.choosePeerToTrust(ctx, ref, &p); err != nil {
			return err
		}
	}
	peer, err := v.Daemon.Trust(ctx, p)
	if err != nil {
		return err
	}
	return v.PrintData(peer, func() {
		v.printTrusted(peer)
		if peer.Warning != "" {
			v.Warn("%s", peer.Warning)
		}
		v.PrintForPerson("messages pass once the other side trusts this daemon too: acpctl ping %s", peer.Name)
	})
}

// printTrusted prints the name of a peer that is trusted now. A person also sees its
// fingerprint.
func (v *Verbs) printTrusted(peer *client.NamedPeer) {
	if v.OutTTY {
		v.PrintLine("trusted %s (%s)", peer.Name, peer.ID.Fingerprint())
		return
	}
	v.PrintLine("%s", peer.Name)
}

// maxListed bounds a list in an error.
const maxListed = 8

// choosePeerToTrust finds the peer or stranger that ref names, and sets its full id in p. So the
// daemon trusts the key that a person has compared, even if another stranger calls meanwhile.
// A stranger needs a typed yes; a peer does not.
func (v *Verbs) choosePeerToTrust(ctx context.Context, ref string, p *client.TrustParams) error {
	peers, err := v.Daemon.Peers(ctx)
	if err != nil {
		return err
	}
	var found []client.Peer
	var blocked *client.Peer
	for _, peer := range peers {
		switch byID := len(ref) >= 6 && strings.HasPrefix(peer.ID.String(), strings.ToLower(ref)); {
		case peer.State == client.PeerBlocked:
			if peer.Name == ref || byID {
				blocked = &peer
			}
		case peer.Name == ref && peer.Name != "":
			p.Peer = peer.ID.String()
			return nil
		case ui.IsStranger(peer) && (identity.MatchesClaim(ref, peer.Claim) || byID), peer.Name != "" && byID:
			found = append(found, peer)
		}
	}
	switch {
	case len(found) == 0 && blocked != nil:
		return kinds.Errorf(kinds.UnknownPeer, "%q was untrusted and is blocked: only its full id lifts that, acpctl trust %s", ref, blocked.ID)
	case len(found) == 0:
		return kinds.Errorf(kinds.UnknownPeer, "%q names neither a peer nor a stranger: give the full id of 64 digits, or see acpctl peers", ref)
	case len(found) > 1:
		var ids strings.Builder
		for i, peer := range found {
			if i == maxListed {
				fmt.Fprintf(&ids, "\n  and %d more: see acpctl peers", len(found)-i)
				break
			}
			ids.WriteString("\n  " + peer.ID.String() + "  " + string(peer.State) + " " + client.Line(strings.Join(peer.Addrs, " ")))
		}
		return kinds.Errorf(kinds.UnknownPeer, "%q names several: give the full id of one:%s", ref, ids.String())
	}
	p.Peer = found[0].ID.String()
	if found[0].Name != "" {
		return nil
	}
	switch yes, err := v.ConfirmTrust(ctx, &found[0]); {
	case err != nil || yes:
		return err
	case !v.InTTY:
		return errors.New("not trusted: the answer was not yes: a script names the full id")
	}
	return errors.New("not trusted: the answer was not yes")
}

// ConfirmTrust shows a stranger's fingerprint, and reports whether a person types yes.
func (v *Verbs) ConfirmTrust(ctx context.Context, peer *client.Peer) (bool, error) {
	fmt.Fprintf(v.Err, "name         %s (what it calls itself)\naddress      %s\nid           %s\nfingerprint  %s\n",
		ui.FormatPeerName(peer), client.Line(strings.Join(peer.Addrs, " ")), peer.ID, peer.ID.Fingerprint())
	return v.Confirm(ctx, "Compare the fingerprint with what `acpctl whoami` shows on that machine. Trust it?")
}
