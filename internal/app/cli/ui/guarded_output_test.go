package ui_test

import (
	"errors"
	"syscall"
	"testing"

	"github.com/acpd/acpd/internal/app/cli/clitest"
	"github.com/acpd/acpd/internal/app/cli/ui"
)

func TestGuardedOutputHasNoGaps(t *testing.T) {
	disk := &clitest.FullDisk{Writes: 1}
	terminal := ui.Terminal{Out: disk}
	terminal.GuardOutput()
	terminal.Out.Write([]byte("one"))
	terminal.Out.Write([]byte("two"))
	disk.Writes = 1
	if _, err := terminal.Out.Write([]byte("three")); !errors.Is(err, syscall.ENOSPC) || disk.Taken.String() != "one" {
		t.Errorf("%v, %s", err, &disk.Taken)
	}
}
