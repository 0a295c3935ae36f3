package cli

import (
	"runtime/debug"

	"github.com/spf13/cobra"
)

func (a *app) versionCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of acpctl",
		Example: `  acpctl version
  acpctl whoami                     the daemon's version, among others`,
		Args:              words(),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(*cobra.Command, []string) error {
			if a.json {
				return a.print(struct {
					Version string `json:"version"`
				}{a.release()})
			}
			a.say("acpctl %s", a.release())
			return nil
		},
	}
}

// release names the program's version.
func (a *app) release() string {
	if a.version != "" {
		return a.version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
