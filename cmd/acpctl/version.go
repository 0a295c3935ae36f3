package main

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
				}{version()})
			}
			a.say("acpctl %s", version())
			return nil
		},
	}
}

// version is the module's version as the Go tool recorded it.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(devel)"
	}
	return info.Main.Version
}
