package processes

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/integration/live"
)

// phase is what goes on while the caller calls, in turn with other phases for half a second, and what was
// measured meanwhile.
type phase struct {
	name   string
	attack func(context.Context) int // returns how many messages it has sent; nil: there is none

	took []time.Duration // each call
	sent int
	wall time.Duration

	// CPU time. The rest is of this process: the caller, and what an attack does beside its messages.
	daemon, server, attacker, rest time.Duration
}

// ratio returns how many times the 99th percentile of quiet the one of p is.
func (p *phase) ratio(quiet *phase) float64 {
	return float64(percentile(p.took, 99)) / float64(percentile(quiet.took, 99))
}

func (p *phase) String() string {
	perSecond := func(d time.Duration) int64 { return int64(d * 1000 / p.wall) } // ms
	return fmt.Sprintf("%s: %d messages, %d calls, p50 %v, p99 %v; CPU in a second: daemon %d ms, server %d, attacker %d, rest %d",
		p.name, p.sent, len(p.took), percentile(p.took, 50), percentile(p.took, 99), perSecond(p.daemon), perSecond(p.server), perSecond(p.attacker), perSecond(p.rest))
}

func percentile(all []time.Duration, p int) time.Duration {
	slices.Sort(all)
	return all[(len(all)-1)*p/100]
}

// calls pings for half a second, and appends how long each took.
func (a *assault) calls(took *[]time.Duration) {
	a.t.Helper()
	for end := time.Now().Add(time.Second / 2); time.Now().Before(end); time.Sleep(2 * time.Millisecond) { // the pace of the calls
		d, err := a.caller.ping(await.NewContext(a.t), a.desk.ID)
		if err != nil {
			a.t.Fatalf("a call of a trusted peer: %v", err)
		}
		*took = append(*took, d)
	}
}

// turn has a phase go on for half a second.
func (a *assault) turn(p *phase) {
	a.t.Helper()
	daemon, server, own, began := readCPU(a.t, a.desk.Acpd), readCPU(a.t, a.server.process), readOwnCPU(a.t, syscall.RUSAGE_SELF), time.Now()
	ctx, cancel := context.WithCancel(a.t.Context())
	defer cancel()
	attacker := make(chan time.Duration, 1)
	go func() {
		if p.attack == nil {
			attacker <- 0
			return
		}
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		before := readOwnCPU(a.t, rusageThread)
		p.sent += p.attack(ctx)
		attacker <- readOwnCPU(a.t, rusageThread) - before
	}()
	a.calls(&p.took)
	cancel()
	attack := <-attacker
	p.attacker += attack
	p.daemon += readCPU(a.t, a.desk.Acpd) - daemon
	p.server += readCPU(a.t, a.server.process) - server
	p.rest += readOwnCPU(a.t, syscall.RUSAGE_SELF) - own - attack
	p.wall += time.Since(began)
}

// readCPU returns the CPU time that a process has had, by /proc, which counts in 10 ms.
func readCPU(t *testing.T, p *live.Process) time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.Cmd.Process.Pid))
	if err != nil {
		t.Error(err)
		return 0
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * 10 * time.Millisecond
}

const rusageThread = 1 // of Linux, for getrusage

// readOwnCPU returns the CPU time that this process or thread has had.
func readOwnCPU(t *testing.T, who int) time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(who, &r); err != nil {
		t.Error(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// endure measures the caller's calls in quiet, under attack and, if control is there, while the
// same is done to somebody else: what that costs is the machine's and the server's doing. It fails for what the
// attack costs, in anything but time: calls, connections, memory, log lines. It returns how many
// times longer the 99th percentile is under attack and under control; 0 without one.
func (a *assault) endure(attack, control func(context.Context) int) (loud, controlled float64) {
	t := a.t
	t.Helper()
	quiet, attacked, elsewhere := &phase{name: "quiet"}, &phase{name: "attack", attack: attack}, &phase{name: "the same at somebody else", attack: control}
	var warm []time.Duration
	a.calls(&warm)
	pid := a.desk.Acpd.Cmd.Process.Pid
	boot, lines, memory := a.caller.Peers(), a.logLines(), readKiB(t, pid, "VmRSS")
	var events [3]int64
	for i := range events {
		events[i] = a.caller.events[i].Load()
	}
	since, most := relayOf(t, a.desk).Since, 0
	for range *rounds {
		a.turn(quiet)
		a.turn(attacked)
		most = max(most, readKiB(t, pid, "VmRSS"))
		if control != nil {
			a.turn(elsewhere)
		}
	}
	r := relayOf(t, a.desk)
	lines = a.logLines() - lines
	loud = attacked.ratio(quiet)
	told := fmt.Sprintf("%v\n%v\np99 %.1f times", quiet, attacked, loud)
	if control != nil {
		controlled = elsewhere.ratio(quiet)
		told = fmt.Sprintf("%v\n%v\n%v\np99 %.1f times, of which the machine and the server alone make %.1f", quiet, attacked, elsewhere, loud, controlled)
	}
	t.Logf("%s; RSS %d KiB, %d at most; %d log lines; %d packets dropped", told, memory, most, lines, r.Dropped)
	for i, what := range []string{"up", "moved", "down"} {
		if n := a.caller.events[i].Load() - events[i]; n != 0 {
			t.Errorf("the caller's connection was %s %d times", what, n)
		}
	}
	if now := a.caller.Peers(); len(now) != 1 || now[0].Addr != boot[0].Addr {
		t.Errorf("the caller has %+v, had %+v", now, boot)
	}
	if !r.Since.Equal(since.Time) {
		t.Errorf("the daemon has lost the relay: %+v", r)
	}
	bound := a.growth
	if live.IsRaceEnabled() {
		bound *= 4 // the detector remembers each access
	}
	if most-memory > bound {
		t.Errorf("the daemon's memory grew by %d KiB", most-memory)
	}
	if lines > 20 {
		t.Errorf("%d lines in the log:\n%s", lines, a.desk.Acpd.Stderr.String())
	}
	return loud, controlled
}

// logLines returns how many lines the daemon has logged.
func (a *assault) logLines() int { return strings.Count(a.desk.Acpd.Stderr.String(), "\n") }
