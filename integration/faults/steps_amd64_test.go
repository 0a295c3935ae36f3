//go:build faults

package faults

import "golang.org/x/sys/unix"

// olderCalls are the names that this processor has beside those that all have.
var olderCalls = []uint32{unix.SYS_RENAME, unix.SYS_LINK, unix.SYS_UNLINK, unix.SYS_MKDIR, unix.SYS_RMDIR, unix.SYS_TRUNCATE}

const olderOpen = unix.SYS_OPEN
