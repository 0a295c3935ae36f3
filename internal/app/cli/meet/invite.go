package meet

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/internal/app/cli/ui"
)

func (v *Verbs) newInviteCmd() *cobra.Command {
	var name, revoke string
	var expires time.Duration
	var uses int
	var list, noRelay, withCredential bool
	cmd := &cobra.Command{
		Use:   "invite",
		Short: "Invite another machine, or several, to become peers",
		Example: `  acpctl invite
  acpctl invite --name laptop --expires 1h
  acpctl invite | ssh laptop.example acpctl join
  acpctl invite --uses 10 --name build --expires 1h     for ten machines: build, build-2, …
  acpctl invite --list              which invitations are open, and who has used them
  acpctl invite --revoke all        ends all open invitations`,
		Long: `It prints an invitation for one other daemon: paste it there into acpctl join. The invitation is a secret until it is used
or expires. At most 8 invitations are open at a time.

With --uses N, N daemons can use it to join. Anybody who reads the line can be one of them, so give it a short --expires, and
look with --list who came. The second daemon of a name is called NAME-2.

A daemon that has used an invitation may use it again until it expires, because its answer may have been lost. If you untrust
one that came in by it, the invitation ends for all. --revoke ends it at once, but those that came in by it stay trusted.

It names the first two relays of this daemon (see relay list), so that the other one reaches it from any network. --no-relay
leaves them out and writes the invitation in a longer form, the only one that acpd 0.1.0 reads. --with-credential also gives
away the token of each relay that is marked for it (relay add --share): whoever has seen it can use the relay until its
operator changes it.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			opens := cmd.Flags().Changed("expires") || cmd.Flags().Changed("name") || cmd.Flags().Changed("uses") || noRelay || withCredential
			revokes := cmd.Flags().Changed("revoke")
			switch {
			case list && revokes, opens && (list || revokes):
				return frame.UsageErrorf("--list, --revoke and what is for a new invitation: expected one of them")
			case noRelay && withCredential:
				return frame.UsageErrorf("--no-relay and --with-credential: leave one of them out")
			case list:
				return v.listInvitations(cmd.Context())
			case revokes:
				return v.revokeInvitations(cmd.Context(), revoke)
			}
			if uses < 1 || uses > client.MaxInvitationUses {
				return frame.UsageErrorf("--uses: expected a number from 1 to %d", client.MaxInvitationUses)
			}
			p := client.InviteParams{ExpiresSecs: uint64(expires / time.Second), Name: name, NoRelay: noRelay, WithCredential: withCredential}
			if uses > 1 {
				p.Uses = uint64(uses)
			}
			return v.createInvitation(cmd, p, expires)
		},
	}
	cmd.Flags().DurationVar(&expires, "expires", 0, "how long it can be used, at most 24h (default 10m)")
	cmd.Flags().StringVar(&name, "name", "", "name that the other one gets here (default: what it calls itself)")
	cmd.Flags().IntVar(&uses, "uses", 1, "how many daemons can join by it, at most 64")
	cmd.Flags().BoolVar(&noRelay, "no-relay", false, "name no relay, in the longer form that acpd 0.1.0 reads")
	cmd.Flags().BoolVar(&withCredential, "with-credential", false, "give the tokens of relays away that are marked for it, for good")
	cmd.Flags().BoolVar(&list, "list", false, "list the open invitations")
	cmd.Flags().StringVar(&revoke, "revoke", "", "end an open invitation by its `ID`, or all")
	cmd.RegisterFlagCompletionFunc("revoke", v.completeInvitations)
	return cmd
}

func (v *Verbs) createInvitation(cmd *cobra.Command, p client.InviteParams, expires time.Duration) error {
	if cmd.Flags().Changed("expires") && (expires < time.Second || expires > client.MaxInvitation) {
		return frame.UsageErrorf("--expires: expected a duration of 1s to 24h")
	}
	if p.Name != "" {
		if err := identity.CheckName(p.Name); err != nil {
			return frame.UsageErrorf("--name: %w", err)
		}
	}
	inv, err := v.OpenInvitation(cmd.Context(), p)
	if err != nil {
		return err
	}
	v.SetDoneNote("the invitation is open: acpctl invite --revoke %s ends it", inv.ID)
	return v.PrintData(inv, func() {
		v.PrintLine("%s", inv.URI)
		if v.ErrTTY {
			v.printInvitationHelp(inv, p.Uses)
		}
	})
}

// OpenInvitation has the daemon make an invitation, and tells what keeps others from using it.
func (v *Verbs) OpenInvitation(ctx context.Context, p client.InviteParams) (*client.Invitation, error) {
	inv, err := v.Daemon.Invite(ctx, p)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(inv.Relays, func(url string) bool { return !identity.IsLoopbackRelay(url) }) {
		v.warnLoopbackOnly(ctx)
	}
	for _, url := range inv.Shared {
		v.Warn("it has the token of %s: who has seen it can use that relay until its operator changes the token; that cannot be taken back", url)
	}
	if !p.NoRelay {
		v.warnRelays(ctx, inv, p.WithCredential)
	}
	return inv, nil
}

// warnLoopbackOnly warns that no other machine can use an invitation, if the daemon listens only on
// loopback.
func (v *Verbs) warnLoopbackOnly(ctx context.Context) {
	me, err := v.Daemon.Whoami(ctx)
	if err == nil && isLoopbackOnly(me.Listen) { // else the invitation is what was asked for
		v.Warn("the daemon listens only on loopback (%s): no other machine can use the invitation", strings.Join(me.Listen, ", "))
	}
}

// isLoopbackOnly reports whether there are addresses, and all are of loopback.
func isLoopbackOnly(addrs []string) bool {
	return len(addrs) > 0 && !slices.ContainsFunc(addrs, func(addr string) bool {
		at, err := netip.ParseAddrPort(addr)
		return err != nil || !at.Addr().IsLoopback()
	})
}

func (v *Verbs) listInvitations(ctx context.Context) error {
	open, err := v.Daemon.Invitations(ctx)
	if err != nil {
		return err
	}
	var rows [][]string
	for _, o := range open {
		rows = append(rows, []string{o.ID, v.FormatTime(o.Expires), ui.DashIfEmpty(o.Name), ui.DashIfEmpty(formatJoined(&o)), strconv.Itoa(o.Left)})
	}
	return v.PrintList(client.Invitations{Invitations: open}, []string{"ID", "EXPIRES", "FOR", "USED BY", "LEFT"}, rows)
}

// formatJoined returns the names of those who have used an invitation, the first eight if they are
// more.
func formatJoined(o *client.OpenInvitation) string {
	var names []string
	for i, p := range o.Joined {
		if i == maxListed {
			names = append(names, fmt.Sprintf("and %d more", len(o.Joined)-i))
			break
		}
		names = append(names, p.Name)
	}
	return strings.Join(names, " ")
}

// revokeInvitations ends the invitation with that id, or all.
func (v *Verbs) revokeInvitations(ctx context.Context, id string) error {
	p := client.RevokeParams{ID: id}
	if id == "all" {
		p = client.RevokeParams{All: true}
	}
	revoked, err := v.Daemon.Revoke(ctx, p)
	if err != nil {
		return err
	}
	return v.PrintData(revoked, func() { v.PrintLine("%d revoked", revoked.Revoked) })
}

// completeInvitations completes the id of an open invitation, or "all".
func (v *Verbs) completeInvitations(cmd *cobra.Command, _ []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return v.CompleteFirstArg(cmd, nil, func(ctx context.Context) []cobra.Completion {
		open, err := v.Daemon.Invitations(ctx)
		if err != nil {
			return nil
		}
		found := []cobra.Completion{"all"}
		for _, o := range open {
			found = append(found, cobra.CompletionWithDesc(o.ID, "until "+o.Expires.Local().Format("15:04:05 MST")))
		}
		return slices.DeleteFunc(found, func(c cobra.Completion) bool { return !strings.HasPrefix(c, begun) })
	})
}

// printInvitationHelp tells a person what to do with an invitation.
func (v *Verbs) printInvitationHelp(inv *client.Invitation, uses uint64) {
	who := "one other machine"
	if uses > 1 {
		who = fmt.Sprintf("%d other machines", uses)
	}
	fmt.Fprintf(v.Err, "\nUntil %s %s can join: run there, and paste the line\n\n  acpctl join\n\nWhoever has the line can join: send it as you would send a password.\n",
		inv.Expires.Local().Format("15:04:05 MST"), who)
}
