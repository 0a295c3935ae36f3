package channel

import (
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/internal/app/cli/clitest"
	"github.com/acpd/acpd/internal/app/cli/frame"
)

func newDaemon(t *testing.T) *clitest.FakeDaemon { return newDaemonWith(t, 0) }

// newDaemonWith returns a daemon whose command lines wait so long for other machines.
func newDaemonWith(t *testing.T, patience time.Duration) *clitest.FakeDaemon {
	return clitest.NewFakeDaemon(t, func(f *frame.Frame) *cobra.Command {
		root := &cobra.Command{Use: "acpctl"}
		f.SetUpRoot(root, newCommand(f, patience))
		return root
	})
}
