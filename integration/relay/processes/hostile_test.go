package processes

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/integration/live"
)

var (
	bounds = flag.Bool("bounds", false, "judge times too: the machine has nothing else to do")
	rounds = flag.Int("rounds", 4, "of half a second in quiet and half a second under attack")
)

// assault is a daemon on a relay, a node that it trusts and that calls it, and a member of the account.
type assault struct {
	t      *testing.T
	server *server
	desk   *live.Machine
	caller *node
	member *member
	token  string
}

func newAssault(t *testing.T) *assault {
	a := &assault{t: t, token: "a-token"}
	a.server = newServer(t, []string{"of a person"}, "TOKEN", a.token)
	a.server.start()
	a.desk = newMachine(t, "desk", a.server)
	config := fmt.Sprintf("reach: {relays: [{name: hub, url: %q, token: %s}], direct: off}\n", a.server.url(), a.token)
	if err := os.WriteFile(filepath.Join(a.desk.Home, "config.yaml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	a.desk.StartDaemon()
	awaitRelay(t, a.desk, "up")
	a.caller = a.newTrusted("planner")
	a.member = newMember(t, a.server, a.server.roots(), a.token)
	a.member.listenTo("acp1.>")
	if _, err := a.caller.ping(await.NewContext(t), a.desk.ID); err != nil {
		t.Fatal(err)
	}
	return a
}

// newTrusted returns a node that the daemon trusts, on the relay.
func (a *assault) newTrusted(name string) *node {
	a.t.Helper()
	n := newNode(a.t, a.server, a.server.roots(), a.token)
	n.trusts(a.t, a.desk.ID, "desk")
	a.desk.MustOutput("trust", n.ID().String(), "--name", name, "--yes")
	n.awaitUp(a.t)
	return n
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

// logLines returns how many lines the daemon has logged.
func (a *assault) logLines() int { return strings.Count(a.desk.Acpd.Stderr.String(), "\n") }

// endure measures the caller's calls, in turn in quiet and while attack runs. It fails for what the attack
// costs, in anything but time: calls, connections, memory, log lines. It returns the 99th percentiles.
func (a *assault) endure(attack func(context.Context) int) (quiet, loud time.Duration) {
	t := a.t
	t.Helper()
	var still, under []time.Duration
	a.calls(&still) // warm
	still = nil
	pid := a.desk.Acpd.Cmd.Process.Pid
	boot, lines, memory := a.caller.Peers(), a.logLines(), readKiB(t, pid, "VmRSS")
	var events [3]int64
	for i := range events {
		events[i] = a.caller.events[i].Load()
	}
	since, sent, most := relayOf(t, a.desk).Since, 0, 0
	for range *rounds {
		a.calls(&still)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan int, 1)
		go func() { ended <- attack(ctx) }()
		a.calls(&under)
		cancel()
		sent += <-ended
		most = max(most, readKiB(t, pid, "VmRSS"))
	}
	r := relayOf(t, a.desk)
	lines = a.logLines() - lines
	quiet, loud = percentile(still, 99), percentile(under, 99)
	t.Logf("%d messages of the attack; %d and %d calls: p50 %v and %v, p99 %v in quiet and %v under attack, %.1f times; RSS %d KiB, %d at most; %d log lines; %d packets dropped",
		sent, len(still), len(under), percentile(still, 50), percentile(under, 50), quiet, loud, float64(loud)/float64(quiet), memory, most, lines, r.Dropped)
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
	bound := 32 << 10
	if live.IsRaceEnabled() {
		bound *= 4 // the detector remembers each access
	}
	if most-memory > bound {
		t.Errorf("the daemon's memory grew by %d KiB", most-memory)
	}
	if lines > 20 {
		t.Errorf("%d lines in the log:\n%s", lines, a.desk.Acpd.Stderr.String())
	}
	return quiet, loud
}

func percentile(all []time.Duration, p int) time.Duration {
	slices.Sort(all)
	return all[(len(all)-1)*p/100]
}

// TestHostileAccount: one that has an account at the relay, and 2,000 messages a second for a daemon, costs a
// trusted peer neither a call nor its connection, and the daemon neither its connection to the relay, nor much
// memory, nor its log.
func TestHostileAccount(t *testing.T) {
	a := newAssault(t)
	stranger, err := identity.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	own := "acp1." + a.desk.ID.String()
	initials := newInitials(t, stranger, a.desk.ID, 400)
	garbage := make([]byte, 1200)
	for i := range garbage {
		garbage[i] = byte(rand.Uint32())
	}
	var many strings.Builder
	many.WriteString("NATS/1.0\r\n")
	for i := 0; many.Len() < 60_000; i++ {
		fmt.Fprintf(&many, "%x:\r\n", i)
	}
	huge := many.String() + strings.Repeat("x:y\r\n", 150_000) + "\r\n"
	many.WriteString("\r\n")
	var replays, answers []heardMessage
	await.Until(t, "the member has seen packets both ways", func() bool {
		replays, answers = a.member.findHeard(own), a.member.findHeard("acp1."+a.caller.ID().String())
		return len(replays) > 0 && len(answers) > 0
	})
	randomID := func() (id identity.ID) {
		for i := range id {
			id[i] = byte(rand.Uint32())
		}
		return id
	}
	attacks := []struct {
		name string
		send func(i int)
	}{
		{"garbage of anybody", func(int) { a.member.publish(own, "", "", claim(randomID(), garbage)) }},
		{"garbage in the caller's name", func(i int) {
			short := claim(a.caller.ID(), garbage)
			short[32] = byte(i) // each kind of packet
			a.member.publish(own, "", "", short)
		}},
		{"handshakes of anybody", func(i int) { a.member.publish(own, "", "", claim(randomID(), initials[i%len(initials)])) }},
		{"handshakes in the caller's name", func(i int) {
			a.member.publish(own, "", "", claim(a.caller.ID(), initials[i%len(initials)]))
		}},
		{"replays", func(i int) {
			h := replays[i%len(replays)]
			a.member.publish(own, h.reply, "", []byte(h.payload))
		}},
		{"false 503s", func(i int) {
			const nobody = "NATS/1.0 503\r\n\r\n"
			a.member.publish(replays[i%len(replays)].reply, "", nobody, nil) // to the caller: nobody is at the daemon
			a.member.publish(answers[i%len(answers)].reply, "", nobody, nil) // to the daemon: nobody is at the caller
		}},
		{"wrong reply subjects", func(i int) {
			switch i % 3 {
			case 0:
				a.member.publish(own+fmt.Sprintf(".%016x", i), "", "", garbage)
			case 1: // as long as the server allows
				a.member.publish(own, strings.Repeat("r", 4096-len(own)-len("  0")), "", nil)
			default:
				a.member.publish(own, own+fmt.Sprintf(".%016x", i), "", nil) // who has this identity?
			}
		}},
		{"malformed headers", func(i int) {
			a.member.publish(own, "", []string{"\r\n\r\n", "NATS/1.0\r\nx\r\n\r\n", "NATS/1.0 5\r\n\r\n", "NATS/1.0\r\nx:y\r\n", "HTTP/1.1 200 OK\r\n\r\n"}[i%5], claim(a.caller.ID(), garbage[:100]))
		}},
		{"many headers", func(i int) {
			switch {
			case i%200 == 0:
				a.member.publish(own, "", huge, nil)
			case i%10 == 0:
				a.member.publish(own, "", many.String(), nil)
			}
		}},
	}
	judge := func(t *testing.T, send func(i int)) {
		t.Helper()
		a.t = t
		quiet, loud := a.endure(func(ctx context.Context) int { return a.member.flood(ctx, 2000, send) })
		if *bounds && loud > 5*quiet {
			t.Errorf("p99 is %v under attack, %v in quiet", loud, quiet)
		}
	}
	judge(t, func(i int) { attacks[i%len(attacks)].send(i / len(attacks)) })
	if *bounds { // each by itself, too
		for _, attack := range attacks {
			t.Run(attack.name, func(t *testing.T) { judge(t, attack.send) })
		}
	}
	a.t = t
	if peers := a.desk.ListPeers(); len(peers) != 1 {
		t.Errorf("the daemon knows %+v", peers)
	}
}
