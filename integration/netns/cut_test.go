//go:build netns

package netns

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/integration/await"
)

// TestCut pulls the network during a query: the call fails in time and says what
// is known, and calls work again as soon as the network is back.
func TestCut(t *testing.T) {
	cuts := map[string]func(desk, laptop *host) (cut, restore string){
		"the caller's cable": func(_, laptop *host) (string, string) {
			return "link set " + laptop.port("eth0") + " down", "link set " + laptop.port("eth0") + " up"
		},
		"the answerer's cable": func(desk, _ *host) (string, string) {
			return "link set " + desk.port("eth0") + " down", "link set " + desk.port("eth0") + " up"
		},
		// Neither end has an interface that tells it.
		"somewhere between": func(desk, _ *host) (string, string) {
			return "link set " + desk.port("eth0") + " nomaster", "link set " + desk.port("eth0") + " master lan"
		},
	}
	t.Parallel()
	for name, cut := range cuts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, h := lan(t, both, "desk", "laptop", "tablet")
			desk, laptop, tablet := h[0].acpd("desk"), h[1].acpd("laptop"), h[2].acpd("tablet")
			befriend(desk, laptop)
			befriend(desk, tablet)
			script := filepath.Join(desk.Home, "answer.sh")
			if err := os.WriteFile(script, []byte("#!/bin/sh\nread -r q\ncase $q in slow) exec sleep 60;; esac\necho \"here: $q\"\n"), 0o755); err != nil {
				t.Fatal(err)
			}
			desk.Serve("answer", "--prompt", "--", script)
			active := func(n int) bool { a := desk.FindAgent("answer"); return a != nil && a.Active == n }
			asking := laptop.StartAcpctl("query", "desk", "slow", "--deadline", "1m", "--json")
			eventually(t, time.Now(), await.Patience, "the agent works", func() bool { return active(1) })

			down, up := cut(h[0], h[1])
			at := time.Now()
			l.bridge.ip(down)
			if said := asking.AwaitExit(5); !strings.Contains(said, `"code":"unreachable"`) || !strings.Contains(said, `"delivered":"unknown"`) {
				t.Errorf("in flight: %s", said)
			}
			await.CheckDuration(t, "failure in flight", time.Since(at), 8*time.Second+slack)
			again := laptop.StartAcpctl("query", "desk", "there?", "--json")
			if said := again.AwaitExit(5); !strings.Contains(said, `"code":"unreachable"`) || !strings.Contains(said, `"delivered":"no"`) {
				t.Errorf("new: %s", said)
			}
			await.CheckDuration(t, "failure of a new call", again.Took, 3*time.Second+slack)
			// Who waits for nothing learns it later, and then ends the agent's work.
			t.Logf("the agent is told after %s", eventually(t, at, 20*time.Second+2*slack, "the agent is told", func() bool { return active(0) }).Round(time.Millisecond))
			desk.hears(client.EventDown, laptop.ID, at, 20*time.Second+2*slack)

			at = time.Now()
			l.bridge.ip(up)
			answered := eventually(t, at, 2*time.Second+slack, "an answer after the network is back", func() bool {
				first := laptop.StartAcpctl("query", "desk", "there?")
				<-first.Ended
				return first.Stdout.String() == "here: there?\n"
			})
			t.Logf("answer after the network is back: %s", answered.Round(time.Millisecond))
			t.Logf("the others are connected again after %s", tablet.connects(desk, at, 30*time.Second+slack))
		})
	}
}
