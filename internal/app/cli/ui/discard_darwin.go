package ui

import "golang.org/x/sys/unix"

// discardTyped discards what was typed into a terminal and not read.
func discardTyped(fd int) {
	const unread = 1                                        // FREAD in fcntl.h
	_ = unix.IoctlSetPointerInt(fd, unix.TIOCFLUSH, unread) // best effort: at worst it stays
}
