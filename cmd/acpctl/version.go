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
				}{release()})
			}
			a.say("acpctl %s", release())
			return nil
		},
	}
}

// version is set by the linker where the build knows better than the module.
var version string

// release names the program's version.
func release() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
