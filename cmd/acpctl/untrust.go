package main

import (
	"github.com/spf13/cobra"
)

func (a *app) untrustCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "untrust PEER",
		Short: "Trust a peer no more, and block its key",
		Example: `  acpctl untrust laptop
  acpctl trust 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08     takes it back`,
		Long: `Ends the connections to a peer at once, drops what it sent and is still in the
inbox, fails its delegations, and blocks its key until trust with the full id.`,
		Args:              words("PEER"),
		ValidArgsFunction: a.completePeer,
		RunE: func(cmd *cobra.Command, args []string) error {
			peer, err := a.daemon.Untrust(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if a.json {
				return a.print(peer)
			}
			a.say("%s", peer.ID)
			return nil
		},
	}
}
