// Package meet is the verbs of acpctl by which two daemons get to trust each other, or no longer do.
package meet

import (
	"github.com/spf13/cobra"

	"github.com/acpd/acpd/internal/app/cli/frame"
)

// Verbs has the verbs of one run, and what acpctl up does as they do.
type Verbs struct{ *frame.Frame }

// NewCmds returns the verbs.
func (v *Verbs) NewCmds() []*cobra.Command {
	return []*cobra.Command{v.newWhoamiCmd(), v.newInviteCmd(), v.newJoinCmd(), v.newTrustCmd(), v.newUntrustCmd()}
}
