package processes

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/integration/live"
)

// calls pings for half a second, and returns how long each took.
func (a *assault) calls() (took []time.Duration) {
	a.t.Helper()
	for end := time.Now().Add(time.Second / 2); time.Now().Before(end); time.Sleep(2 * time.Millisecond) { // the pace of the calls
		d, err := a.caller.ping(await.NewContext(a.t), a.desk.ID)
		if err != nil {
			a.t.Fatalf("a call of a trusted peer: %v", err)
		}
		took = append(took, d)
	}
	return took
}

// endure has the caller call in quiet and under attack, in turn. It fails for what the attack costs, in anything but
// time: calls, connections, memory, log lines.
func (a *assault) endure(attack func(context.Context) int) {
	t := a.t
	t.Helper()
	a.calls()
	pid := a.desk.Acpd.Cmd.Process.Pid
	boot, lines, memory := a.caller.Peers(), a.logLines(), readKiB(t, pid, "VmRSS")
	var events [3]int64
	for i := range events {
		events[i] = a.caller.events[i].Load()
	}
	since, most, sent := relayOf(t, a.desk).Since, 0, 0
	var quiet, loud []time.Duration
	for range *rounds {
		quiet = append(quiet, a.calls()...)
		ctx, stop := context.WithCancel(t.Context())
		var attacking sync.WaitGroup
		attacking.Go(func() { sent += attack(ctx) })
		loud = append(loud, a.calls()...)
		stop()
		attacking.Wait()
		most = max(most, readKiB(t, pid, "VmRSS"))
	}
	r := relayOf(t, a.desk)
	lines = a.logLines() - lines
	slices.Sort(quiet)
	slices.Sort(loud)
	t.Logf("%d messages; calls took %s as a rule, and %s under attack; RSS %d KiB, %d at most; %d log lines; %d packets dropped",
		sent, quiet[len(quiet)/2], loud[len(loud)/2], memory, most, lines, r.Dropped)
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
	bound := 32 << 10 // KiB, of the daemon's memory
	if live.IsRaceEnabled() {
		bound *= 4 // the detector remembers each access
	}
	if most-memory > bound {
		t.Errorf("the daemon's memory grew by %d KiB", most-memory)
	}
	if lines > 20 {
		t.Errorf("%d lines in the log:\n%s", lines, a.desk.Acpd.Stderr.String())
	}
}

// logLines returns how many lines the daemon has logged.
func (a *assault) logLines() int { return strings.Count(a.desk.Acpd.Stderr.String(), "\n") }
