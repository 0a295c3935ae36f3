package run

import "golang.org/x/sys/unix"

const (
	seccompArch = unix.AUDIT_ARCH_X86_64
	seccompX32  = 0x40000000 // from here on, calls by the numbers of another interface
)

// seccompModes are the calls that change the mode or the owner of a file by its path.
var seccompModes = []uint32{unix.SYS_CHMOD, unix.SYS_FCHMODAT, unix.SYS_FCHMODAT2, unix.SYS_CHOWN, unix.SYS_LCHOWN, unix.SYS_FCHOWNAT}
