// Package operate has the verbs of acpctl for the person who runs a daemon: what is wrong
// with it, what it uses, how it is configured, kept and started.
package operate

import (
	"github.com/spf13/cobra"

	"github.com/acpd/acpd/internal/app/cli/frame"
)

// verbs has the verbs of one run.
type verbs struct {
	*frame.Frame
	version string
}

// NewCmds returns the verbs. version is acpctl's own.
func NewCmds(f *frame.Frame, version string) []*cobra.Command {
	v := &verbs{f, version}
	return []*cobra.Command{
		v.newServiceCmd(),
		v.newConfigCmd(), v.newReloadCmd(), v.newDrainCmd(),
		v.newPolicyCmd(), v.newUsageCmd(), v.newCertCmd(),
		v.newBackupCmd(), v.newRestoreCmd(),
		v.newDoctorCmd(),
		v.newRelayCmd(), v.newWebCmd(),
	}
}
