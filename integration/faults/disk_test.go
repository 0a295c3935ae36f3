//go:build faults

package faults

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/integration/live"
)

// small mounts a file system of 32 MiB for the machine's state directory, of which
// peers may take all but 1 MiB, and returns what fills the rest, and frees it again.
func small(t *testing.T, m *live.Machine) (fill, free func()) {
	t.Helper()
	if err := syscall.Mount("tmpfs", m.Home, "tmpfs", 0, "size=32m,mode=0700"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(m.Home, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	if err := os.WriteFile(filepath.Join(m.Home, "config.yaml"), []byte("limits: {min_free: 1048576}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ballast := filepath.Join(m.Home, "ballast")
	fill = func() {
		t.Helper()
		f, err := os.OpenFile(ballast, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for block := make([]byte, 64<<10); len(block) > 0; {
			if _, err = f.Write(block); err != nil {
				block = block[:len(block)/2]
			}
		}
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
	}
	free = func() {
		if err := os.Remove(ballast); err != nil {
			t.Error(err)
		}
	}
	return fill, free
}

// TestFullDisk: on a file system without a byte left peers are refused, what frees
// space works, a daemon starts and answers, and all goes on when there is space.
// holds: security.md#on-this-machine
func TestFullDisk(t *testing.T) {
	t.Parallel()
	var fill, free func()
	c := begin(t, func(desk *live.Machine) { fill, free = small(t, desk) })
	c.talk()
	c.held20()
	fill()
	c.met("overloaded")                                  // so desk has measured its disk since
	await.Until(t, "a message is refused", func() bool { // the daemon's log may free a little just then
		fill()
		p := c.laptop.StartAcpctl("notify", "desk", "meanwhile", "1", "--json")
		p.AwaitEnd()
		return p.Cmd.ProcessState.ExitCode() == 7 && strings.Contains(p.Stdout.String(), `"code":"overloaded"`)
	})
	if ended := c.quiet(); ended.of("overloaded") == 0 || ended.of("held") < 20 {
		t.Errorf("calls have ended as %v", ended)
	}
	restart := func(end func()) func() { return func() { end(); c.desk.Start() } }
	for _, start := range []func(){func() {}, restart(func() { c.desk.StopDaemon() }), restart(func() { c.desk.KillDaemon() })} {
		fill()
		start()
		c.connected()
		fill()
		inbox := c.desk.MustOutput("inbox")
		number, _, _ := strings.Cut(inbox, "\t")
		c.desk.MustOutput("peers")
		if said := c.desk.MustOutput("inbox", "--ack", number); said != "1 removed\n" {
			t.Errorf("ack says %q", said)
		}
		c.forgive() // the first is gone, by its owner's will
	}
	stranger := strings.Repeat("1", 64)
	fill()
	c.desk.MustOutput("untrust", stranger)
	free()
	await.Until(t, "what is sent is held again", func() bool {
		return c.laptop.StartAcpctl("notify", "desk", "after", "1") != nil && strings.Contains(c.desk.MustOutput("inbox"), "after 1")
	})
	c.settle()
}
