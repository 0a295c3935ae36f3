//go:build faults

package faults

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/acpd/acpd/integration/await"
)

// standstill is the time for which a process stands still: longer than a connection may be silent.
func standstill() time.Duration {
	if testing.Short() {
		return 16 * time.Second
	}
	return 30 * time.Second
}

// TestDaemonStandsStill: who calls a daemon that is stopped hears of it by its
// deadline, and of none that it succeeded; when it goes on everything does.
func TestDaemonStandsStill(t *testing.T) {
	t.Parallel()
	c := begin(t, nil)
	c.talk()
	c.held20()
	c.desk.stop()
	time.Sleep(standstill()) // is the fault
	c.desk.resume()
	c.connected()
	if ended := c.quiet(); ended.of("unreachable")+ended.of("timeout") == 0 {
		t.Errorf("nobody noticed: %v", ended)
	}
	c.settle()
}

// TestNoDescriptorsUnderTraffic: while desk can open nothing, what is connected goes
// on or is refused, and everything goes on when it can.
// holds: security.md#on-this-machine
func TestNoDescriptorsUnderTraffic(t *testing.T) {
	t.Parallel()
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
		time.Sleep(2 * time.Second) // of traffic without descriptors
		if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, &limit, nil); err != nil {
			t.Fatal(err)
		}
		c.desk.MustOutput("whoami")
	}
	c.quiet()
	c.settle()
}

// TestAgentStandsStill: who calls an agent that is stopped hears of it by its
// deadline, what is told it waits, and other agents notice nothing.
func TestAgentStandsStill(t *testing.T) {
	t.Parallel()
	c := newCheck(t, nil)
	c.befriend(c.desk.Addr, c.laptop.Addr)
	reviewer := c.desk.StartAcpctl("serve", "--name", "reviewer", "--prompt", "--", "cat")
	c.desk.AwaitAgent("reviewer")
	c.ready()
	var stops sync.WaitGroup
	c.talk()
	c.held20()
	reviewer.Signal(syscall.SIGSTOP)
	for end := time.Now().Add(standstill()); time.Now().Before(end); time.Sleep(time.Second) { // the pace of the queries
		stops.Go(func() { c.query(t.Context(), c.laptop, "desk/reviewer") })
		stops.Go(func() { c.delegate(t.Context(), c.laptop, "desk/reviewer", "short") })
	}
	reviewer.Signal(syscall.SIGCONT)
	stops.Wait()
	ended := c.quiet()
	if ended.of("timeout")+ended.of("no_agent")+ended.of("overloaded") == 0 {
		t.Errorf("nobody noticed: %v", ended)
	}
	for _, end := range []string{"unreachable", "internal", "nothing said"} {
		if ended.of(end) > 0 {
			t.Errorf("%d calls ended as %s", ended.of(end), end)
		}
	}
	c.desk.AwaitAgent("reviewer")
	await.Until(t, "the reviewer answers again", func() bool {
		before := ended["query"]["response"]
		c.query(t.Context(), c.laptop, "desk/reviewer")
		return ended["query"]["response"] > before
	})
	c.settle()
}

// TestKills: the daemons are killed at any instant while agents make calls and write
// in a channel, and start again.
func TestKills(t *testing.T) {
	t.Parallel()
	endUnderTraffic(t, 300, func(victim *side) { victim.KillDaemon() })
}

// TestStops: the daemons are told to end under load, again and again: each says that it
// has ended well, and whoever called it has an answer.
func TestStops(t *testing.T) {
	t.Parallel()
	endUnderTraffic(t, 100, func(victim *side) { victim.StopDaemon() })
}

// endUnderTraffic ends one daemon after the other so often, a tenth of that where tests are to be short, and starts it
// again.
func endUnderTraffic(t *testing.T, often int, end func(victim *side)) {
	if testing.Short() {
		often /= 10
	}
	c, writes := beginWithChannel(t)
	c.talk(talk{pause, writes.write})
	for i := range often {
		time.Sleep(time.Duration(i*37%400) * time.Millisecond) // nothing is waited for: any instant is as good
		victim := c.sides()[i%3%2]
		end(victim)
		victim.Start()
	}
	c.connected()
	c.quiet()
	writes.check()
	c.settle()
}

// TestReloadsUnderTraffic: the daemons read their configuration again all the time,
// also one that is not valid, and no call notices.
func TestReloadsUnderTraffic(t *testing.T) {
	t.Parallel()
	reloads := 200
	if testing.Short() {
		reloads = 40
	}
	c := begin(t, nil)
	c.talk()
	c.held20()
	texts := []string{
		"policy: {\"*\": {kinds: [ping, discover, query, delegate, notify]}}\n",
		"limits: {rate: [{kind: notify, per_second: 10000, burst: 10000}]}\n",
		"policy: {\"*\": {kinds: [everything]}}\n", // is not valid
		"",
	}
	for i := range reloads {
		s := c.sides()[i%2]
		if err := os.WriteFile(filepath.Join(s.Home, "config.yaml"), []byte(texts[i/2%len(texts)]), 0o600); err != nil {
			t.Fatal(err)
		}
		read := func() int {
			said := s.Acpd.Stderr.String()
			return strings.Count(said, "configuration reloaded") + strings.Count(said, "the old configuration stays")
		}
		before := read()
		s.Acpd.Signal(syscall.SIGHUP)
		await.Until(t, s.Name+" has read its configuration", func() bool { return read() > before })
		time.Sleep(50 * time.Millisecond) // so that calls begin and end under each
	}
	c.allWell()
	c.settle()
}
