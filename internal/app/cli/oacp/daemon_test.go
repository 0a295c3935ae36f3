package oacp

import (
	"testing"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/internal/app/cli/clitest"
	"github.com/acpd/acpd/internal/app/cli/frame"
)

func newDaemon(t *testing.T) *clitest.FakeDaemon {
	return clitest.NewFakeDaemon(t, func(f *frame.Frame) *cobra.Command {
		root := &cobra.Command{Use: "acpctl"}
		f.SetUpRoot(root, NewOACPCmd(f))
		return root
	})
}
