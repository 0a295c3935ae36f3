// Package talk is the verbs of acpctl that send messages to agents of peers, and those that wait for what
// becomes of them.
package talk

import (
	"github.com/spf13/cobra"

	"github.com/acpd/acpd/internal/app/cli/frame"
)

// verbs has the verbs of one run.
type verbs struct{ *frame.Frame }

// NewCmds returns the verbs.
func NewCmds(f *frame.Frame) []*cobra.Command {
	v := &verbs{f}
	return []*cobra.Command{
		v.newQueryCmd(), v.newDelegateCmd(), v.newNotifyCmd(), v.newReplyCmd(), v.newCancelCmd(),
		v.newTasksCmd(), v.newWaitCmd(), v.newInboxCmd(),
	}
}
