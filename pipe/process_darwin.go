package pipe

import "syscall"

// newAttributes returns the attributes of a command: it leads a session of its own, and so a
// process group, and has no terminal. If the daemon is killed, the command sees the end of its
// standard input; macOS offers no more.
func newAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
