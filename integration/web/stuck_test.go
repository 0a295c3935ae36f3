//go:build web

package web

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// TestStuckDelegations: the page says that the agent that works on a delegation is gone, to which agent one was
// given, how long it has, and what was abandoned.
func TestStuckDelegations(t *testing.T) {
	b := startBrowser(t)
	w := newWorld(t)
	taken, given, late := wire.NewMessageID(), wire.NewMessageID(), wire.NewMessageID()
	ago := func(d time.Duration) time.Time { return time.Now().Add(-d) }
	w.peers = []client.Peer{newPeer(0, "desk"), newPeer(1, "build")}
	w.open = []client.TrafficEntry{ // they begin later, so that they are not old, however slow the machine is
		{At: ago(-time.Hour), Direction: client.In, Peer: peerID(0), Name: "desk", FromAgent: "planner", Agent: "tester", Kind: kinds.KindDelegate, ID: taken, Text: "Run the long tests"},
		{At: ago(-time.Hour), Direction: client.Out, Peer: peerID(1), Name: "build", FromAgent: "planner", Kind: kinds.KindDelegate, ID: given, Text: "Build the release"},
	}
	w.tasks = []client.Task{
		{ID: taken, Peer: "desk", Direction: client.Taken, FromAgent: "planner", Agent: "tester", Task: "Run the long tests", State: client.TaskAccepted},
		{ID: given, Peer: "build", Direction: client.Given, ToAgent: "runner", Task: "Build the release", State: client.TaskAccepted, Deadline: client.Time{Time: time.Now().Add(23*time.Hour + 30*time.Minute)}},
		{ID: late, Peer: "build", Direction: client.Given, ToAgent: "keeper", Task: "Find the old figures", State: client.TaskCancelled, Over: true, Outcome: "abandoned: no longer needed"},
	}
	p := show(t, b, w.serve(t), 390, 844, false)
	words := func(selector string) string {
		return strings.NewReplacer(" / ", "/").Replace(strings.Join(strings.Fields(eval[string](p, fmt.Sprintf(`document.querySelector(%q).innerText`, selector))), " "))
	}
	p.until("all is there", `document.querySelectorAll("#waiting-list > li").length === 2 && document.querySelectorAll("#tasks-list > li").length === 3 && document.querySelector("#waiting-list [data-until]")`)
	if eval[bool](p, `[...document.querySelectorAll("#waiting-legend")].some((e) => e.checkVisibility())`) {
		t.Error("amber is explained where there is none")
	}
	if text := words("#waiting-list"); strings.Contains(text, "not attached") || !strings.Contains(text, "build/runner") || !strings.Contains(text, "deadline in 23 h ") {
		t.Errorf("who waits: %s", text)
	}
	if text := words("#tasks-list"); !strings.Contains(text, "to build/runner") || !strings.Contains(text, given.String()[:8]) || !strings.Contains(text, "to build/keeper abandoned") || !strings.Contains(text, "It has ended only here. The agent there may still be working.") {
		t.Errorf("delegations: %s", text)
	}

	w.change(func() {
		since := client.Time{Time: ago(time.Minute)}
		w.open[0].At, w.open[0].AgentAwaySince = ago(3*time.Minute), since
		w.tasks[0].AgentAwaySince, w.tasks[0].AgentAwaitedUntil = since, client.Time{Time: since.Add(10 * time.Minute)}
		w.tasks[1].Deadline = client.Time{Time: ago(time.Second)}
	})
	p.until("the row says that the agent is gone", `document.querySelector("#waiting-list li[data-missing]")?.innerText.includes("until")`)
	said := fmt.Sprintf("⚠ tester is not attached (since %s; the daemon waits until %s)", w.tasks[0].AgentAwaySince.UTC().Format("15:04:05"), w.tasks[0].AgentAwaitedUntil.UTC().Format("15:04:05"))
	for _, selector := range []string{"#waiting-list", "#tasks-list"} {
		p.until(selector+" says so", fmt.Sprintf(`document.querySelector(%q).innerText.includes("not attached")`, selector))
		if text := words(selector); !strings.Contains(text, said) {
			t.Errorf("%q is not in %s", said, text)
		}
	}
	p.until("the headline says so", `document.getElementById("waiting-sum").innerText.includes("tester is not attached.")`)
	p.until("the count warns", `document.querySelector("[data-count=waiting]").dataset.tone === "warn"`)
	p.until("the deadline has passed", `[...document.querySelectorAll("#waiting-list [data-until][data-tone=bad]")].some((e) => e.innerText === "past its deadline")`)
	p.until("amber is explained", `document.querySelector("#waiting-list [data-long]") && document.getElementById("waiting-legend").checkVisibility() && document.getElementById("waiting-legend").innerText === "Amber: waiting for more than 1 min."`)
	p.checkLayout(t)
	p.checkProblems(t)
}
