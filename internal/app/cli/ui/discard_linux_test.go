package ui

import (
	"fmt"
	"os"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/acpd/acpd/integration/await"
)

// Answers that were typed ahead and that nobody has read do not reach whoever reads the terminal next.
func TestWhatIsTypedAheadIsDiscarded(t *testing.T) {
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	fd := int(master.Fd())
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer slave.Close()
	unread := func() int {
		n, err := unix.IoctlGetInt(int(slave.Fd()), unix.TIOCINQ)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if _, err := master.WriteString("yes\nyes\n"); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the keys have come", func() bool { return unread() == 8 })
	(&Terminal{In: slave}).DiscardTyped()
	if n := unread(); n != 8 {
		t.Errorf("%d bytes are left of a stream that nobody types into", n)
	}
	(&Terminal{In: slave, InTTY: true}).DiscardTyped()
	if n := unread(); n != 0 {
		t.Errorf("%d bytes are left", n)
	}
}
