package pipe

import "syscall"

// newAttributes returns the attributes of a command: it leads a session of its own, and so a
// process group, and has no terminal. The kernel kills it if the daemon is killed
// (PR_SET_PDEATHSIG(2const)); what it has started in turn sees its pipes end.
func newAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}
