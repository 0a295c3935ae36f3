//go:build faults

package faults

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// pause is how long a process stands still: longer than a connection may be silent.
func pause() time.Duration {
	if testing.Short() {
		return 16 * time.Second
	}
	return 30 * time.Second
}

// TestDaemonStandsStill: who calls a daemon that is stopped hears of it by its
// deadline, and of none that it succeeded; when it goes on everything does.
func TestDaemonStandsStill(t *testing.T) {
	c := begin(t, nil)
	c.talk()
	c.held20()
	c.desk.stop()
	time.Sleep(pause())
	c.desk.resume()
	c.connected()
	if ended := c.quiet(); ended.of("unreachable")+ended.of("timeout") == 0 {
		t.Errorf("nobody noticed: %v", ended)
	}
	c.settle()
}

// TestNoDescriptorsUnderTraffic: while desk can open nothing, what is connected goes
// on or is refused, and everything goes on when it can.
func TestNoDescriptorsUnderTraffic(t *testing.T) {
	c := begin(t, nil)
	c.talk()
	c.held20()
	pid := c.desk.Acpd.Cmd.Process.Pid
	var limit unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &limit); err != nil {
		t.Fatal(err)
	}
	few := limit
	few.Cur = 3
	for range 3 {
		if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, &few, nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, &limit, nil); err != nil {
			t.Fatal(err)
		}
		c.desk.Must("whoami")
	}
	c.quiet()
	c.settle()
}

// TestKills: desk is killed at any instant while it is told things, and starts again.
func TestKills(t *testing.T) {
	kills := 300
	if testing.Short() {
		kills = 30
	}
	c := begin(t, nil)
	c.talk()
	for i := range kills {
		time.Sleep(time.Duration(i*37%400) * time.Millisecond) // nothing is waited for: any instant is as good
		c.desk.Kill()
		c.desk.Start()
	}
	c.connected()
	c.quiet()
	c.settle()
}
