//go:build wide

package processes

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/integration/live"
	"github.com/acpd/acpd/kinds"
)

// verdictTime bounds the median of how long calls to peers take that no server of an arrangement knows.
// A call gives up after giveUpTime if nobody says anything, so that lost verdicts are seen. A single call may be
// slow, as the machine has other things to do; one that has given up for that says only that there was no answer.
const (
	verdictTime = 2 * time.Second
	giveUpTime  = 2800 * time.Millisecond
)

// TestWide follows two daemons at different ends of what connects several NATS servers, or at an older
// one: every kind both ways, who is absent, and a server of each end that dies and comes back.
func TestWide(t *testing.T) {
	old := findOldServer(t)
	for _, c := range []struct {
		name string
		make func(t *testing.T) wide
	}{
		{"cluster of three", func(t *testing.T) wide { return newCluster(t, "") }},
		{"gateways", func(t *testing.T) wide { return newGateways(t, "", "") }},
		{"leaf node", func(t *testing.T) wide { return newLeaf(t, "", "") }},
		{"older server", func(t *testing.T) wide { return newSingle(t, old) }},
		{"cluster of three of the older", func(t *testing.T) wide { return newCluster(t, old) }},
		{"gateways, one of the older", func(t *testing.T) wide { return newGateways(t, "", old) }},
		{"leaf node of the older", func(t *testing.T) wide { return newLeaf(t, "", old) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			tryWide(t, c.make(t))
		})
	}
}

func tryWide(t *testing.T, w wide) {
	desk, laptop := newWideMachine(t, "desk", w.desk), newWideMachine(t, "laptop", w.laptop)
	desk.Trust(laptop)
	laptop.Trust(desk)
	awaitConnected(t, desk, laptop)
	for _, m := range []*live.Machine{desk, laptop} {
		for _, r := range relaysOf(t, m) {
			t.Logf("%s is at %s by the relay %s", m.Name, r.Server, r.Name)
		}
		if out := m.MustOutput("relay", "test"); strings.Contains(out, "\tfailed\t") || !strings.Contains(out, "\tnobody\tok\t") {
			t.Errorf("relay test says\n%s", out)
		}
	}
	for _, m := range []*live.Machine{desk, laptop} {
		serveEcho(t, m)
	}
	speak(t, desk, laptop)
	speak(t, laptop, desk)

	for _, m := range []*live.Machine{desk, laptop} {
		var took []time.Duration
		for range 20 {
			took = append(took, checkAbsent(t, m, trustNobody(t, m)))
		}
		if median(took) > verdictTime {
			t.Errorf("%s hears that nobody is there after %s", m.Name, median(took))
		}
		t.Logf("%s calls who was never there: the first %s, longest %s, median %s", m.Name, took[0].Round(100*time.Microsecond), slices.Max(took).Round(100*time.Microsecond), median(took).Round(100*time.Microsecond))
	}

	// Who was there, and is killed.
	killed := laptop.KillDaemon()
	await.Until(t, "nobody takes the laptop's packets", func() bool {
		return strings.Contains(queryFails(t, desk, "laptop").Message, "nobody takes its packets at relay:")
	})
	t.Logf("the laptop's daemon is killed: nobody takes its packets after %s, and the next call fails after %s",
		time.Since(killed).Round(time.Millisecond), checkAbsent(t, desk, "laptop").Round(100*time.Microsecond))
	laptop.StartDaemon()
	serveEcho(t, laptop)
	awaitConnected(t, desk, laptop)

	for _, end := range [][]*server{w.laptop, w.desk} {
		loseServer(t, desk, laptop, end)
	}
	speak(t, desk, laptop)
	speak(t, laptop, desk)
}

// loseServer kills the first server of an end. Where each daemon has another one, calls go
// on by that; else they fail, until the server is back.
func loseServer(t *testing.T, desk, laptop *live.Machine, end []*server) {
	t.Helper()
	s := end[0]
	s.process.Signal(syscall.SIGKILL)
	<-s.process.Ended
	at := time.Now()
	if len(end) > 1 {
		awaitPing(t, desk)
		awaitPing(t, laptop)
		t.Logf("a server of two is killed: answers both ways after %s", time.Since(at).Round(time.Millisecond))
		s.start()
		return
	}
	for _, m := range []*live.Machine{desk, laptop} {
		began := time.Now()
		e := queryFails(t, m, map[string]string{"desk": "laptop", "laptop": "desk"}[m.Name])
		t.Logf("%s without a server: after %s, delivered %s: %s", m.Name, time.Since(began).Round(time.Millisecond), e.Delivered(), e.Message)
	}
	s.start()
	at = time.Now()
	awaitPing(t, desk)
	awaitPing(t, laptop)
	t.Logf("the server is back: answers both ways after %s", time.Since(at).Round(time.Millisecond))
}

func median(took []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(took))
	return sorted[len(sorted)/2]
}

func serveEcho(t *testing.T, m *live.Machine) {
	t.Helper()
	m.StartAcpctl("serve", "--name", "reviewer", "--prompt", "--", "sh", "-c", `read -r first; case $first in sleep*) exec sleep 60; esac; echo "You asked: $first"`)
	await.Until(t, "reviewer is attached", func() bool {
		s, err := m.Client.Status(await.NewContext(t))
		return err == nil && len(s.Agents) == 1
	})
}

// speak lets one daemon send every kind to another one.
func speak(t *testing.T, from, to *live.Machine) {
	t.Helper()
	from.MustOutput("ping", to.Name, "-c", "1")
	if said := from.MustOutput("discover", to.Name); !strings.Contains(said, "reviewer") {
		t.Errorf("discover: %q", said)
	}
	if said := from.MustOutput("query", to.Name, "Is the parser safe?"); said != "You asked: Is the parser safe?\n" {
		t.Errorf("query: %q", said)
	}
	if said := from.MustOutput("delegate", to.Name, "Review the parser.", "--wait"); said != "You asked: Review the parser.\n" {
		t.Errorf("delegate: %q", said)
	}
	task := strings.TrimSpace(from.MustOutput("delegate", to.Name, "sleep"))
	if said := from.MustOutput("cancel", task); said != "cancelled\n" {
		t.Errorf("cancel: %q", said)
	}
	if said := from.MustOutput("notify", to.Name, "build.done", `{"commit": "4f2a"}`); said != "held\n" {
		t.Errorf("notify: %q", said)
	}
	large := strings.Repeat("x", 900_000)
	file := filepath.Join(t.TempDir(), "large")
	if err := os.WriteFile(file, []byte(large), 0o600); err != nil {
		t.Fatal(err)
	}
	if said := from.StartProcess("sh", "-c", from.ProgramPath("acpctl")+" --home "+from.Home+" query "+to.Name+" - <"+file).AwaitExit(0); said != "You asked: "+large+"\n" {
		t.Errorf("a query of 900,000 bytes is answered with %d bytes", len(said))
	}
}

// trustNobody lets a daemon trust an id that nobody has, and returns its name.
func trustNobody(t *testing.T, m *live.Machine) string {
	t.Helper()
	key, err := identity.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("absent-%.8s", key.ID())
	if _, err := m.Client.Trust(await.NewContext(t), client.TrustParams{Peer: key.ID().String(), Name: name}); err != nil {
		t.Fatal(err)
	}
	return name
}

// checkAbsent calls a peer of whom a server says that nobody is there, and returns how long that took.
func checkAbsent(t *testing.T, m *live.Machine, name string) time.Duration {
	t.Helper()
	began := time.Now()
	_, err := m.Client.Ping(await.NewContext(t), client.PingParams{To: name})
	took := time.Since(began)
	e := kinds.AsError(err)
	if e == nil || e.Code != kinds.Unreachable || e.Delivered() != kinds.DeliveredNo || took < giveUpTime && !strings.Contains(e.Message, "nobody takes its packets at relay:") {
		t.Errorf("%s calls who is absent: %v after %s", m.Name, err, took)
	}
	return took
}

// queryFails lets a daemon ask a peer, and returns the error, which must be there.
func queryFails(t *testing.T, m *live.Machine, to string) *kinds.Error {
	t.Helper()
	var answer struct {
		Error *kinds.Error `json:"error"`
	}
	p := m.StartAcpctl("query", to, "Ready?", "--json", "--deadline", "10s")
	p.AwaitEnd()
	if err := json.Unmarshal([]byte(p.Stdout.String()), &answer); err != nil || answer.Error == nil {
		t.Fatalf("%v: %s", err, p.Stdout.String())
	}
	return answer.Error
}
