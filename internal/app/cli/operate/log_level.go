package operate

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/app/cli/frame"
)

var logLevels = []cobra.Completion{"debug", "info", "warn", "error"}

func (v *verbs) newLogLevelCmd() *cobra.Command {
	var duration time.Duration
	cmd := &cobra.Command{
		Use:   "log-level [LEVEL]",
		Short: "Show the level of the daemon's log, or change it for a time",
		Example: `  acpctl log-level debug --for 10m
  acpctl log-level                  which level counts, and until when`,
		Long: `LEVEL is debug, info, warn or error. It applies for the time of --for, and not longer than the
daemon runs; then the usual one counts again, which is that of config.yaml or of acpd's flags.
No level shows payloads, keys or tokens.`,
		ValidArgs: logLevels,
		RunE: func(cmd *cobra.Command, args []string) error {
			p := client.LogLevelParams{Level: frame.FirstOrEmpty(args), Secs: uint64(duration / time.Second)}
			switch {
			case cmd.Flags().Changed("for") && (duration < time.Second || duration > client.MaxLogLevelTime):
				return frame.UsageErrorf("--for: expected a duration of 1s to 24h")
			case len(args) > 0 && !slices.Contains(logLevels, p.Level):
				return frame.UsageErrorf("LEVEL: %.64q: use %s", p.Level, strings.Join(logLevels, ", "))
			case p.Level == "" && cmd.Flags().Changed("for"):
				return frame.UsageErrorf("--for needs a LEVEL: name one, or leave --for out")
			case p.Level == "":
				p.Secs = 0
			}
			return v.showLogLevel(cmd.Context(), p)
		},
	}
	cmd.Flags().DurationVar(&duration, "for", 10*time.Minute, "how long LEVEL applies, from 1s to at most 24h")
	return cmd
}

func (v *verbs) showLogLevel(ctx context.Context, p client.LogLevelParams) error {
	l, err := v.Daemon.LogLevel(ctx, p)
	if err != nil {
		return err
	}
	if p.Level != "" {
		v.SetDoneNote("the level is %s until %s", l.Level, v.FormatTime(l.Until.Time))
	}
	return v.PrintData(l, func() {
		if l.Until.IsZero() {
			v.PrintLine("%s", client.Line(l.Level))
			return
		}
		v.PrintLine("%s until %s, then %s", client.Line(l.Level), v.FormatTime(l.Until.Time), client.Line(l.Usual))
	})
}
