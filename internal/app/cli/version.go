package cli

import (
	"github.com/spf13/cobra"

	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/internal/buildinfo"
)

func (a *app) newVersionCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of acpctl",
		Example: `  acpctl version
  acpctl whoami                     the daemon's version, among others`,
		Long: `Prints the version of acpctl, the commit of its source, the protocol that daemons of this
version speak with each other, the version of Go, and the platform. acpd --version prints
the same of acpd.`,
		RunE: func(*cobra.Command, []string) error {
			info := buildinfo.Read()
			return a.PrintData(info, func() { a.PrintLine("acpctl %s", info) })
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
		info := buildinfo.Read()
		if err := a.PrintData(info, func() { a.PrintLine("acpctl %s", info) }); err != nil {
			return err
		}
		return frame.Exit(0)
	}
}
