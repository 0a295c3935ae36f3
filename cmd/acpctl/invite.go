package main

import (
	"fmt"
	"math"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
)

func (a *app) inviteCmd() *cobra.Command {
	var name string
	var expires time.Duration
	cmd := &cobra.Command{
		Use:   "invite",
		Short: "Invite another daemon to trust each other",
		Example: `  acpctl invite
  acpctl invite --name laptop --expires 1h
  acpctl invite | ssh laptop.example acpctl join`,
		Long: `Prints an invitation for one other daemon, whose owner gives it to acpctl join. It
is a secret until it is used or expires. On a terminal a QR code is shown too.`,
		Args:              words(),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("expires") && (expires < time.Second || expires > client.MaxInvitation) {
				return usagef("--expires: expected a duration of 1s to 24h")
			}
			if name != "" {
				if err := identity.CheckName(name); err != nil {
					return usagef("--name: %w", err)
				}
			}
			inv, err := a.daemon.Invite(cmd.Context(), client.InviteParams{ExpiresSecs: uint64(expires / time.Second), Name: name})
			if err != nil {
				return err
			}
			if a.json {
				return a.print(inv)
			}
			a.say("%s", inv.URI)
			if a.errTTY {
				a.explain(inv)
			}
			return nil
		},
	}
	cmd.Flags().DurationVar(&expires, "expires", 0, "how long it can be used, at most 24h (default 10m)")
	cmd.Flags().StringVar(&name, "name", "", "name that the other one gets here (default: what it calls itself)")
	return cmd
}

// errWidth is how many columns the talk has.
func (a *app) errWidth() int {
	if f, ok := a.err.(*os.File); ok {
		if columns, _, err := term.GetSize(int(f.Fd())); err == nil {
			return columns
		}
	}
	return math.MaxInt
}

// explain shows what to do with an invitation.
func (a *app) explain(inv *client.Invitation) {
	if code, columns, err := qrCode(inv.URI, a.colours); err == nil && columns <= a.errWidth() {
		fmt.Fprint(a.err, "\n", code)
	}
	fmt.Fprintf(a.err, "\nUntil %s one other machine can join: run there, and paste the line\n\n  acpctl join\n\nWhoever has the line can join: send it as you would send a password.\n",
		inv.Expires.Local().Format("15:04:05"))
}
