//go:build linux

package live

import (
	"cmp"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// OpenTerminal makes a pseudo-terminal (pts(4)) of that size. Who reads master gets an error when nobody has slave any
// more. The caller closes both.
func OpenTerminal(rows, columns uint16) (master, slave *os.File, err error) {
	if master, err = os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0); err != nil {
		return nil, nil, err
	}
	raw, err := master.SyscallConn() // Fd would make reads block for ever
	if err != nil {
		return nil, nil, err
	}
	var number int
	var failed error
	err = raw.Control(func(fd uintptr) {
		if failed = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0); failed != nil {
			return
		}
		if number, failed = unix.IoctlGetInt(int(fd), unix.TIOCGPTN); failed != nil {
			return
		}
		failed = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: columns})
	})
	if err = cmp.Or(err, failed); err != nil {
		return nil, nil, err
	}
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	return master, slave, err
}
