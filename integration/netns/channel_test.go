//go:build netns && interop

package netns

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/integration/live"
	"github.com/acpd/acpd/openintent/api"
)

// agentOfOurs follows its own stream, over the socket.
const agentOfOurs = `
import sys
from acp_openintent import Agent
from openintent import on_message

@Agent("critic")
class Critic:
    @on_message("talk")
    async def answer(self, message):
        return {"echo": message.payload}

critic = Critic()
critic.client.list_channels(sys.argv[1])  # from then on the host knows where it lives
critic.run()
`

// TestChannelsOfTheSDK: agents that are written with the published SDK, each on its
// own machine, with its own daemon. The link between these is cut and restored.
func TestChannelsOfTheSDK(t *testing.T) {
	t.Parallel()
	l, h := lan(t, both, "desk", "laptop")
	desk, laptop := h[0].daemon("desk"), h[1].daemon("laptop")
	for _, d := range []*daemon{desk, laptop} {
		config := fmt.Sprintf("channels:\n  open_to: [\"*\"]\n  listen: 127.0.0.1:7118\n  keys: [{sha256: %s}]\n", api.HashAPIKey("any"))
		if err := os.WriteFile(filepath.Join(d.Home, "config.yaml"), []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
		d.Env = []string{"ACP_HOME=" + d.Home, "PYTHONDONTWRITEBYTECODE=1"}
		d.start()
	}
	befriend(desk, laptop)
	ids := strings.Fields(desk.sdk("planner", "create", "work", "talk").AwaitExit(0))
	intent, channel := ids[0], ids[1]
	laptop.sdk("reviewer", "echo", intent)
	laptop.python("-c", agentOfOurs, intent)
	desk.sdk("planner", "ask", channel, "reviewer", "20", "60").AwaitExit(0)
	desk.sdk("planner", "ask", channel, "critic", "20", "60").AwaitExit(0)
	laptop.sdk("tester", "ask", channel, "reviewer", "5", "60").AwaitExit(0) // both of them across the link

	numbers := func(from, to int, status string) string {
		var b strings.Builder
		for n := from; n <= to; n++ {
			fmt.Fprintf(&b, "%d %s\n", n, status)
		}
		return b.String()
	}
	if said := laptop.sdk("tester", "send", channel, "1", "10").AwaitExit(0); said != strings.Repeat("delivered\n", 10) {
		t.Errorf("sent: %q", said)
	}
	l.bridge.ip("link set " + h[0].port("eth0") + " nomaster") // which neither end is told of
	// The first is sent into the dark: whether it has arrived nobody knows, so it waits too.
	cut := time.Now()
	if said := laptop.sdk("tester", "send", channel, "11", "20").AwaitExit(0); said != strings.Repeat("pending\n", 10) {
		t.Errorf("sent without a link: %q", said)
	}
	// One failure of 8 s, and not ten; the SDK takes its time to start.
	await.CheckDuration(t, "ten messages without a link", time.Since(cut), 40*time.Second)
	if said := laptop.sdk("tester", "fail", channel, "reviewer").AwaitExit(0); said != "TimeoutError \n" { // the request waits, and goes when the link is back
		t.Errorf("an ask without a link: %q", said)
	}
	if said := desk.sdk("planner", "fail", channel, "reviewer").AwaitExit(0); said != "TimeoutError \n" {
		t.Errorf("an ask of one who is away: %q", said)
	}

	l.bridge.ip("link set " + h[0].port("eth0") + " master lan")
	restored := time.Now()
	want := numbers(1, 20, "delivered")
	var got string
	t.Logf("what waited has come after %s", eventually(t, restored, await.Patience, "what waited comes", func() bool {
		got = desk.sdk("planner", "numbers", channel).AwaitExit(0)
		return len(got) >= len(want)
	}).Round(time.Millisecond))
	if got != want {
		t.Errorf("after the cut: %q", got)
	}
	desk.sdk("planner", "ask", channel, "reviewer", "20", "60").AwaitExit(0)
	desk.sdk("planner", "ask", channel, "critic", "20", "60").AwaitExit(0)
	if got := laptop.sdk("reviewer", "numbers", channel).AwaitExit(0); got != want {
		t.Errorf("from the other side: %q", got)
	}
	desk.sdk("planner", "lifecycle", channel).AwaitExit(0)
}

// sdk does one thing with the SDK on the daemon's host.
func (d *daemon) sdk(agent, verb string, args ...string) *live.Process {
	t := d.T
	t.Helper()
	program, err := filepath.Abs("../interop/openintent/machines.py")
	if err != nil {
		t.Fatal(err)
	}
	return d.python(append([]string{program, verb, "http://127.0.0.1:7118", agent}, args...)...)
}

// python runs a program on the daemon's host.
func (d *daemon) python(args ...string) *live.Process {
	t := d.T
	t.Helper()
	python, err := filepath.Abs("../../.interop/openintent/bin/python")
	if err != nil {
		t.Fatal(err)
	}
	if !exists(python) {
		t.Fatalf("the SDK is not installed: run make interop")
	}
	return d.StartProcess(append([]string{python}, args...)...)
}
