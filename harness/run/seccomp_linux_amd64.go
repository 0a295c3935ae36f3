package run

import "golang.org/x/sys/unix"

const (
	seccompArch = unix.AUDIT_ARCH_X86_64
	seccompX32  = 0x40000000 // from here on, calls by the numbers of another interface
)

// seccompOldFiles are calls like seccompFiles that only this processor has.
var seccompOldFiles = []uint32{unix.SYS_CHMOD, unix.SYS_CHOWN, unix.SYS_LCHOWN, unix.SYS_UTIME, unix.SYS_UTIMES, unix.SYS_FUTIMESAT}
