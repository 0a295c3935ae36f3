//go:build netns

package netns

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
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
			desk.StartAcpctl("serve", "--prompt", "--", script)
			agent := func() (a client.Agent) {
				if s, err := desk.Client.Status(t.Context()); err == nil && len(s.Agents) == 1 {
					a = s.Agents[0]
				}
				return a
			}
			eventually(t, time.Now(), await.Patience, "the agent is attached", func() bool { return agent().Name != "" })
			asking := laptop.StartAcpctl("query", "desk", "slow", "--deadline", "1m", "--json")
			eventually(t, time.Now(), await.Patience, "the agent works", func() bool { return agent().Active == 1 })

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
			t.Logf("the agent is told after %s", eventually(t, at, 20*time.Second+2*slack, "the agent is told", func() bool { return agent().Active == 0 }).Round(time.Millisecond))
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

// TestOutage: the network is away while a task ends; its result comes when the
// network does, and what is sent meanwhile is not said to be delivered.
func TestOutage(t *testing.T) {
	t.Parallel()
	l, h := lan(t, both, "desk", "laptop")
	desk, laptop := h[0].acpd("desk"), h[1].acpd("laptop")
	befriend(desk, laptop)
	done := filepath.Join(desk.Home, "done")
	if err := syscall.Mkfifo(done, 0o600); err != nil {
		t.Fatal(err)
	}
	serve := desk.StartAcpctl("serve", "--", "sh", "-c", "read -r word <"+done+"; echo \"$word\"")
	eventually(t, serve.Begun, await.Patience, "an agent", func() bool {
		s, err := desk.Client.Status(t.Context())
		return err == nil && len(s.Agents) == 1
	})
	task := strings.TrimSpace(laptop.StartAcpctl("delegate", "desk", "Take your time.").AwaitExit(0))
	wait := laptop.StartAcpctl("wait", task)

	l.bridge.ip("link set " + h[0].port("eth0") + " down")
	if err := os.WriteFile(done, []byte("done\n"), 0); err != nil {
		t.Fatal(err)
	}
	eventually(t, time.Now(), await.Patience, "serve has tried to tell", func() bool { return strings.Contains(serve.Stderr.String(), task) })
	<-time.After(silence)
	lost := laptop.StartAcpctl("notify", "desk", "build.done", "1", "--json")
	if said := lost.AwaitExit(5); !strings.Contains(said, `"code":"unreachable"`) || !strings.Contains(said, `"delivered":"no"`) {
		t.Errorf("notify: %s", said)
	}
	if !wait.IsRunning() {
		t.Fatalf("the result came without a network: %s", wait.Stdout.String())
	}

	at := time.Now()
	l.bridge.ip("link set " + h[0].port("eth0") + " up")
	if said := wait.AwaitExit(0); said != "done\n" {
		t.Errorf("result: %q", said)
	}
	t.Logf("the result comes %s after the network", time.Since(at).Round(time.Millisecond))
	if said := desk.StartAcpctl("inbox").AwaitExit(0); said != "" {
		t.Errorf("what was said to be lost has come: %s", said)
	}
	if said := laptop.StartAcpctl("notify", "desk", "build.done", "2").AwaitExit(0); said != "held\n" {
		t.Errorf("notify: %q", said)
	}
}
