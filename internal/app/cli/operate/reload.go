package operate

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
)

func (v *verbs) newReloadCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "reload",
		Short: "Make the daemon read config.yaml again",
		Example: `  acpctl reload
  acpctl config check ~/.acp/config.yaml   what would be wrong`,
		Long: `Prints each setting that has changed, from what and to what. "next start" stands behind those
that count when acpd is started again; all others count now. A certificate and revocations (see
organisation in acpd --settings) stand there too if their files have changed. A file in which anything is wrong is
refused, line by line, and what counted before counts on. The signal SIGHUP does the same, and
the log says what came of it.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return v.reload(cmd.Context())
		},
	}
}

func (v *verbs) reload(ctx context.Context) error {
	r, err := v.Daemon.Reload(ctx)
	if err != nil {
		return err
	}
	v.SetDoneNote("config.yaml was taken over")
	return v.PrintData(r, func() {
		for _, c := range r.Changed {
			when := ""
			if c.Deferred {
				when = "  (next start)"
			}
			v.PrintLine("%s: %s -> %s%s", client.Line(c.Setting), client.Line(c.From), client.Line(c.To), when)
		}
		if len(r.Changed) == 0 {
			v.PrintForPerson("nothing has changed")
		}
		if len(r.Deferred) > 0 {
			v.PrintLine("start acpd again for: %s", client.Line(strings.Join(r.Deferred, ", ")))
		}
		for _, w := range r.Warnings {
			v.PrintLine("warning: %s", client.Line(w))
		}
	})
}
