package cli

import (
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/kinds"
)

func (a *app) newWhoamiCmd() *cobra.Command {
	var asRosterEntry bool
	cmd := &cobra.Command{
		Use:   "whoami",
		Short: "Show the identity of the own daemon",
		Example: `  acpctl whoami
  acpctl whoami --json
  acpctl whoami --roster            its entry for a roster: see acpctl trust --file`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			who, err := a.Daemon.Whoami(cmd.Context())
			if err != nil {
				return err
			}
			if asRosterEntry {
				return a.printRosterEntry(cmd.Context(), who)
			}
			return a.PrintData(who, func() { a.PrintFields(formatIdentity(who)...) })
		},
	}
	cmd.Flags().BoolVar(&asRosterEntry, "roster", false, "print the entry that names this daemon in a roster, as YAML")
	return cmd
}

func formatIdentity(who *client.Whoami) [][2]string {
	return [][2]string{
		{"name", client.Line(who.Name)},
		{"id", who.ID.String()},
		{"fingerprint", who.ID.Fingerprint()},
		{"version", client.Line(who.Version)},
		{"up", kinds.FormatDuration(time.Duration(who.UptimeSecs) * time.Second)},
		{"listen", client.Line(strings.Join(who.Listen, " "))},
		{"home", client.Line(who.Home)},
	}
}
