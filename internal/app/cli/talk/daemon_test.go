package talk

import (
	"testing"

	"github.com/acpd/acpd/internal/app/cli/clitest"
)

func newDaemon(t *testing.T) *clitest.FakeDaemon { return clitest.NewFakeDaemonOf(t, NewCmds) }
