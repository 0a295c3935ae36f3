package cli

import (
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
)

func (a *app) newWhoamiCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "whoami",
		Short: "Show the identity of the own daemon",
		Example: `  acpctl whoami
  acpctl whoami --json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			who, err := a.Daemon.Whoami(cmd.Context())
			if err != nil {
				return err
			}
			return a.PrintData(who, func() { a.PrintFields(formatIdentity(who)...) })
		},
	}
}

func formatIdentity(who *client.Whoami) [][2]string {
	return [][2]string{
		{"name", client.Line(who.Name)},
		{"id", who.ID.String()},
		{"fingerprint", who.ID.Fingerprint()},
		{"version", client.Line(who.Version)},
		{"up", (time.Duration(who.UptimeSecs) * time.Second).String()},
		{"listen", client.Line(strings.Join(who.Listen, " "))},
		{"home", client.Line(who.Home)},
	}
}
