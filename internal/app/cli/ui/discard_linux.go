package ui

import "golang.org/x/sys/unix"

// discardTyped discards what was typed into a terminal and not read.
func discardTyped(fd int) { _ = unix.IoctlSetInt(fd, unix.TCFLSH, unix.TCIFLUSH) } // best effort: at worst it stays
