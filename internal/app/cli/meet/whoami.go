package meet

import (
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/kinds"
)

func (v *Verbs) newWhoamiCmd() *cobra.Command {
	var asRosterEntry bool
	cmd := &cobra.Command{
		Use:   "whoami",
		Short: "Show the identity of the own daemon",
		Example: `  acpctl whoami
  acpctl whoami --json
  acpctl whoami --roster            its entry for a roster: see acpctl trust --file`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			who, err := v.Daemon.Whoami(cmd.Context())
			if err != nil {
				return err
			}
			if asRosterEntry {
				return v.printRosterEntry(cmd.Context(), who)
			}
			return v.PrintData(who, func() { v.PrintFields(FormatIdentity(who)...) })
		},
	}
	cmd.Flags().BoolVar(&asRosterEntry, "roster", false, "print the entry that names this daemon in a roster, as YAML")
	return cmd
}

// FormatIdentity returns who a daemon is as names and values.
func FormatIdentity(who *client.Whoami) [][2]string {
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
