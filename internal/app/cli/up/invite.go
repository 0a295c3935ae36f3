package up

import (
	"context"
	"slices"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/kinds"
)

// invite shows a line and waits until another machine has joined by it. A line that ends meanwhile is replaced.
func (u *run) invite(ctx context.Context) error {
	for {
		inv, err := u.meet.OpenInvitation(ctx, client.InviteParams{})
		if err != nil {
			return err
		}
		u.showInvitation(inv)
		after := "the line works until " + inv.Expires.Local().Format("15:04") + "; acpctl invite --revoke all ends it"
		var joined *client.NamedPeer
		for over := false; !over; {
			var answer string
			answer, over, err = u.readWhile(ctx, func() (over bool, err error) {
				if joined, over, err = u.findJoined(ctx, inv.ID); over || err != nil {
					return over, err
				}
				all, err := u.Daemon.Peers(ctx)
				u.offerStrangers(all)
				return false, err
			})
			switch {
			case ctx.Err() != nil:
				return frame.WithHint(ctx.Err(), after)
			case err != nil:
				return err
			case over || answer == "" && !u.InputEnded():
			case answer == "q" || u.InputEnded():
				u.leaveOut("nobody has joined yet: %s", after)
				return nil
			default: // the other machine has made a line too, or trusts this one without a line
				if over, err = u.takeAnswer(ctx, answer); err != nil {
					return frame.WithHint(err, after)
				}
				if over {
					if _, err = u.Daemon.Revoke(ctx, client.RevokeParams{ID: inv.ID}); err != nil && ctx.Err() == nil {
						u.Warn("the line that was shown here is still good (%s): acpctl invite --revoke all ends it", kinds.AsError(err).Message)
					}
					return ctx.Err()
				}
			}
		}
		switch {
		case joined != nil:
			u.met = joined.ID
			u.ring()
			u.Tell("\n%s a trusted peer now: %s\nIf you do not know it: acpctl untrust %s", describeNewPeer(joined.Name, joined.ID)+" has joined by this line and is", whatPeersMay, joined.Name)
			return nil
		case time.Now().Before(inv.Expires):
			u.leaveOut("nobody has joined: the line was revoked, or acpd was started anew; acpctl up makes another one")
			return nil
		}
		u.Tell("\nThat line has ended. This is the next one.")
	}
}

// findJoined reports whether the wait for an invitation is over, and who has joined by it, nil if it has ended before
// anybody did.
func (u *run) findJoined(ctx context.Context, id string) (*client.NamedPeer, bool, error) {
	open, err := u.Daemon.Invitations(ctx)
	i := slices.IndexFunc(open, func(o client.OpenInvitation) bool { return o.ID == id })
	switch {
	case err != nil:
		return nil, false, err
	case i < 0:
		return nil, true, nil
	}
	return open[i].UsedBy, open[i].UsedBy != nil, nil
}

// showInvitation shows a line, and says what to do with it.
func (u *run) showInvitation(inv *client.Invitation) {
	u.Tell("\nType acpctl up on the other machine, and paste this line there:\n")
	u.PrintLine("%s", inv.URI)
	u.Tell("\nIt works for one machine, until %s. Whoever has it can join: send it as you would send a password. If acpd is not there yet: copy the programs acpd and acpctl to a machine of the same kind, or build them there by make install.", inv.Expires.Local().Format("15:04"))
	if len(inv.Relays) == 0 {
		u.Tell(otherNetworks)
	}
	if len(u.offered) > 0 {
		u.Tell("Instead of using the line, you can type the number of a machine that was shown here.")
	}
	u.Tell("Waiting for the other machine. q leaves it.")
}
