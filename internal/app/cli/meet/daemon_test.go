package meet

import (
	"testing"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/internal/app/cli/clitest"
	"github.com/acpd/acpd/internal/app/cli/frame"
)

func newDaemon(t *testing.T) *clitest.FakeDaemon {
	return clitest.NewFakeDaemonOf(t, func(f *frame.Frame) []*cobra.Command { return (&Verbs{f}).NewCmds() })
}
