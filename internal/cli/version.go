package cli

import (
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/internal/cli/frame"
)

func (a *app) newVersionCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of acpctl",
		Example: `  acpctl version
  acpctl whoami                     the daemon's version, among others`,
		RunE: func(*cobra.Command, []string) error {
			return a.PrintData(map[string]string{"version": a.version}, func() { a.PrintLine("acpctl %s", a.version) })
		},
	}
}

// addVersionFlag adds --version to root. Cobra's own flag needs a template, and with that the
// linker keeps text/template and every method of every type.
func (a *app) addVersionFlag(root *cobra.Command) {
	check := root.Args
	wanted := root.Flags().BoolP("version", "v", false, "version for acpctl")
	root.Args = func(cmd *cobra.Command, args []string) error {
		if !*wanted {
			return check(cmd, args)
		}
		a.PrintLine("acpctl %s", a.version)
		return frame.Exit(0)
	}
}

// findVersion returns version, or the module's if that is "".
func findVersion(version string) string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
