package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/harness/setup"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/app/cli/up"
)

// newUpCmd returns the verb up, which asks what setup, join and trust ask as they do it.
func (a *app) newUpCmd() *cobra.Command {
	return up.NewCmd(a.Frame, up.Borrowed{
		FindPrograms: func(ctx context.Context) ([]setup.Status, error) {
			o, err := a.findSetupOptions(&setupFlags{})
			if err != nil {
				return nil, err
			}
			return setup.FindStatus(ctx, o), nil
		},
		SetUp: func(ctx context.Context, program string, yes bool) (bool, error) {
			flags := setupFlags{yes: yes}
			o, err := a.findSetupOptions(&flags)
			if err != nil {
				return false, err
			}
			if err = a.setUp(ctx, program, o, &flags); errors.Is(err, errNotYes) {
				return false, nil
			}
			return err == nil, err
		},
		Invite: func(ctx context.Context) (*client.Invitation, error) {
			return a.meet.OpenInvitation(ctx, client.InviteParams{})
		},
		ParseInvitation: a.meet.ParseArgument,
		ReadInvitation:  a.meet.ReadInvitation,
		Join: func(ctx context.Context, inv identity.Invitation) (*client.NamedPeer, error) {
			return a.meet.Join(ctx, inv, false, false)
		},
		ConfirmTrust: a.meet.ConfirmTrust,
	})
}
