//go:build web

package web

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
)

// TestFlood: while 10,000 messages pass in a few seconds the page does not grow. Who reads older ones is not moved.
func TestFlood(t *testing.T) {
	b := startBrowser(t)
	w := newWorld(t)
	w.fill(plain)
	p := show(t, b, w.serve(t), 1280, 900, false)
	p.until("all is drawn", `document.querySelectorAll("#waiting-list > li").length === 2`)
	const messages, burst = 10_000, 100
	tick := time.NewTicker(30 * time.Millisecond) // the pace of who sends: some 3,300 a second
	defer tick.Stop()
	for n := 0; n < messages; n += burst {
		var some []client.TrafficEntry
		for i := range burst {
			k := n + i
			some = append(some, client.TrafficEntry{
				Direction: client.In, Peer: peerID(k % 5), Name: fmt.Sprintf("build-%d", k%5), Kind: kinds.KindNotify, Thread: fmt.Sprintf("t%d", k%200),
				Topic: "ci", Text: fmt.Sprintf("step %d of a long build", k), Outcome: "handed", TookUS: 900,
			})
		}
		w.pass(some...)
		<-tick.C
	}
	p.until("the last message is there", `document.getElementById("log").textContent.includes("step 9999 ")`)
	nodes := eval[int](p, `document.querySelectorAll("*").length`)
	if nodes > 6000 {
		t.Errorf("%d elements", nodes)
	}
	if rows := eval[int](p, `document.querySelectorAll("#log > *").length`); rows > 150 {
		t.Errorf("%d messages are drawn", rows)
	}
	if threads := eval[int](p, `document.querySelectorAll("#threads > *").length`); threads > 81 {
		t.Errorf("%d conversations are drawn", threads)
	}

	// Who reads older ones is not moved, and told of the new ones.
	eval[bool](p, `new Promise((done) => {
		document.getElementById("log").scrollTop = 0;
		requestAnimationFrame(() => requestAnimationFrame(() => done(true))); // the page hears of it before the second one
	})`)
	first := eval[string](p, `document.querySelector("#log > *").innerText`)
	w.pass(client.TrafficEntry{Direction: client.In, Peer: peerID(0), Name: "desk", Kind: kinds.KindNotify, Text: "one more", Outcome: "handed"})
	p.until("it is told", `!document.getElementById("newest").hidden`)
	if got := eval[string](p, `document.querySelector("#log > *").innerText`); got != first {
		t.Errorf("%q became %q", first, got)
	}
	eval[bool](p, `(document.getElementById("newest").click(), true)`)
	p.until("it is shown", `document.getElementById("log").textContent.includes("one more")`)
}

// TestNobodyTakesTheLog: however many messages a peer sends, each in a conversation of its own, those of another
// peer are on the page, in the log, as conversations and alone, and the page says that older ones are not kept.
// holds: security.md#the-page-of-acpctl-web
func TestNobodyTakesTheLog(t *testing.T) {
	b := startBrowser(t)
	w := newWorld(t)
	w.peers = []client.Peer{newPeer(0, "desk"), newPeer(1, "build")}
	p := show(t, b, w.serve(t), 1280, 900, false)
	for i := range 5 {
		w.pass(client.TrafficEntry{Direction: client.In, Peer: peerID(0), Name: "desk", Kind: kinds.KindNotify, Thread: fmt.Sprintf("plan %d", i), Text: fmt.Sprintf("step %d of desk", i), Outcome: "handed"})
	}
	p.until("the messages are there", `document.getElementById("log").textContent.includes("step 4 of desk")`)
	const messages = 1500
	for i := range messages {
		w.pass(client.TrafficEntry{Direction: client.In, Peer: peerID(1), Name: "build", Kind: kinds.KindNotify, Thread: fmt.Sprintf("flood %d", i), Text: fmt.Sprintf("message %d ", i), Outcome: "handed"})
	}
	p.until("the last message is there", fmt.Sprintf(`document.getElementById("log").textContent.includes("message %d ")`, messages-1))
	check := func(when string) {
		t.Helper()
		if log := eval[string](p, `document.getElementById("log").innerText`); strings.Count(log, "of desk") != 5 || !strings.Contains(log, "some older messages are not kept") {
			t.Errorf("%s: the log shows %.300s", when, log)
		}
		if n := eval[int](p, `[...document.querySelectorAll("#threads button")].filter((b) => b.textContent.includes("plan ")).length`); n != 5 {
			t.Errorf("%s: %d conversations", when, n)
		}
	}
	check("a page that was there")
	p.call("Page.reload", nil, nil)
	p.until("the page is there again", fmt.Sprintf(`document.getElementById("log")?.textContent.includes("message %d ")`, messages-1))
	check("a page that was opened later")
	eval[bool](p, `([...document.querySelectorAll("#peers button")].find((b) => b.textContent.includes("desk")).click(), true)`)
	p.until("it is alone", `document.querySelectorAll("#log .row").length === 5 && document.querySelectorAll("#threads button").length === 6`)
}

// TestReachesTheDaemon: what is done at the page, by keyboard, reaches the daemon; always does only after
// a second step.
func TestReachesTheDaemon(t *testing.T) {
	b := startBrowser(t)
	w := newWorld(t)
	w.fill(plain)
	p := show(t, b, w.serve(t), 1280, 900, false)
	approvals := w.wait
	decided := func() []client.ApproveParams {
		w.mu.Lock()
		defer w.mu.Unlock()
		return append([]client.ApproveParams(nil), w.decided...)
	}
	focused := func() string {
		return eval[string](p, `(document.activeElement.dataset.act || document.activeElement.id || document.activeElement.getAttribute("class") || "")`)
	}
	tabTo := func(what string) {
		t.Helper()
		for range 60 {
			if p.press("Tab", 9); focused() == what {
				return
			}
		}
		t.Fatalf("Tab does not come to %s", what)
	}
	p.until("there is an approval", `document.querySelector("[data-act=yes]")`)
	if p.press("Tab", 9); focused() != "skip" {
		t.Errorf("the first stop is %q", focused())
	}
	p.press("Enter", 13)
	p.until("the skip link leads on", `location.hash === "#main"`)
	tabTo("always")
	p.press("Enter", 13)
	p.until("it asks once more", `document.activeElement.dataset.act === "back"`)
	if n := len(decided()); n != 0 {
		t.Fatalf("always was decided at once: %v", decided())
	}
	p.press("Enter", 13)
	p.until("it has gone back", `document.activeElement.dataset.act === "yes"`)
	p.press("Enter", 13)
	await.Until(t, "yes reaches the daemon", func() bool { return len(decided()) == 1 })
	if got := decided()[0]; got != (client.ApproveParams{ID: "a1", Answer: "yes"}) {
		t.Errorf("%+v", got)
	}
	p.until("the page says so", `document.getElementById("said").textContent.startsWith("Yes")`)
	p.until("it asks no more", `!document.querySelector("[data-act=yes]")`)

	w.change(func() { w.wait = approvals })
	p.until("there is an approval again", `document.querySelector("[data-act=always]")`)
	eval[bool](p, `(document.querySelector("[data-act=always]").click(), true)`)
	p.until("it asks once more", `document.querySelector("[data-act=sure]")`)
	eval[bool](p, `(document.querySelector("[data-act=sure]").click(), true)`)
	await.Until(t, "always reaches the daemon", func() bool { return len(decided()) == 2 })
	if got := decided()[1]; got != (client.ApproveParams{ID: "a1", Answer: "always"}) {
		t.Errorf("%+v", got)
	}

	eval[bool](p, `(document.querySelector("[data-act=mute]").focus(), true)`)
	p.press("Enter", 13)
	p.until("it is muted", `document.querySelector("[data-act=unmute]")`)
	eval[bool](p, `(document.querySelector("[data-act=unmute]").click(), true)`)
	p.until("it is not muted", `document.querySelector("[data-act=mute]")`)
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.muted) != 2 || w.muted[0] != (client.MuteAgentParams{Name: "planner", Secs: 3600}) || w.muted[1] != (client.MuteAgentParams{Name: "planner"}) {
		t.Errorf("%+v", w.muted)
	}
	p.checkProblems(t)
}

// TestAway: the page says that the daemon is away, and when it is back.
func TestAway(t *testing.T) {
	b := startBrowser(t)
	w := newWorld(t)
	w.fill(plain)
	p := show(t, b, w.serve(t), 360, 740, true)
	p.until("all is drawn", `document.querySelectorAll("#waiting-list > li").length === 2`)
	away := kinds.Errorf(kinds.DaemonUnavailable, "no daemon: start acpd")
	for _, method := range []string{client.MethodStatus, client.MethodPeers, client.MethodApprovals, client.MethodTasks, client.MethodAgents, client.MethodInbox, client.MethodBudget, client.MethodTraffic} {
		w.SetAnswer(method, away)
	}
	p.until("it says so", `!document.getElementById("away").hidden && document.getElementById("away").textContent.includes("no daemon: start acpd")`)
	p.checkLayout(t)
	if chip := eval[string](p, `document.getElementById("link-text").textContent`); chip != "away" {
		t.Errorf("the chip says %q", chip)
	}
	kept := func() string { return eval[string](p, `document.getElementById("waiting").innerText`) }
	before := kept()
	if n := strings.Count(before, "since "); n != 2 || strings.Contains(before, "since before") {
		t.Errorf("rows have lost since when they wait: %s", before)
	}
	if !eval[bool](p, `document.querySelector("main").hasAttribute("data-old") && [...document.querySelectorAll("main section")].every((e) => e.getAttribute("aria-describedby") === "away") && [...document.querySelectorAll("[data-act=yes], [data-act=no], [data-act=always], [data-act=mute]")].every((b) => b.disabled)`) {
		t.Error("parts are not grey, or can be used")
	}
	eval[bool](p, `new Promise((done) => setTimeout(() => done(true), 2100))`) // two beats
	if after := kept(); after != before {
		t.Errorf("ages go on: %s, then %s", before, after)
	}
	w.SetAnswer(client.MethodStatus, &w.status)
	for _, method := range []string{client.MethodPeers, client.MethodApprovals, client.MethodTasks, client.MethodAgents, client.MethodInbox, client.MethodBudget} {
		w.SetAnswer(method, struct{}{})
	}
	w.SetHandler(client.MethodTraffic, w.answerTraffic)
	p.until("it is back", `document.getElementById("away").hidden && document.getElementById("link-text").textContent === "live" && !document.querySelector("main").hasAttribute("data-old") && !document.querySelector("main section").hasAttribute("aria-describedby")`)
}
