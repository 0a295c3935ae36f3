//go:build web

package web

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// rowsOfLog is an expression for what the rows of the log say, without their times.
const rowsOfLog = `[...document.querySelectorAll("#log .row .text")].map((e) => e.innerText)`

// TestMessagesOpen: a click on a message shows all that it says, among the messages of its thread, and so do the keys.
// Of a message that the daemon does not keep whole the page says so.
func TestMessagesOpen(t *testing.T) {
	b := startBrowser(t)
	w := newWorld(t)
	w.peers = []client.Peer{newPeer(0, "desk"), newPeer(1, "build")}
	pass := func(n int, thread, text, whole string) {
		e := client.TrafficEntry{Direction: client.In, Peer: peerID(n), Name: w.peers[n].Name, Kind: kinds.KindQuery, Thread: thread, Text: text, Answer: "yes", Outcome: client.TrafficOK, TookUS: 58}
		if whole != "" {
			e.Payload, e.AnswerPayload = kinds.EncodePayload(&kinds.Query{Question: whole}), kinds.EncodePayload(&kinds.Response{Summary: "yes\nand no"})
		}
		w.pass(e)
	}
	pass(0, "parser", "first", "")
	pass(1, "", "another", "")
	pass(0, "parser", "a long one …", "a long one\n  with "+strings.Repeat("many words ", 100)+"and an <b>end</b>")
	pass(0, "parser", "cut …", "")
	p := show(t, b, w.serve(t), 1280, 900, false)
	p.until("the messages are there", `document.querySelectorAll("#log .row").length === 4`)
	if text := eval[string](p, `document.getElementById("log").innerText`); strings.Contains(text, "µs") || strings.Contains(text, " ms") {
		t.Errorf("times that nobody notices: %s", text)
	}
	x, y := p.point(`document.querySelectorAll("#log .row")[2]`)
	p.mouse("mousePressed", x, y)
	p.mouse("mouseReleased", x, y)
	p.until("it is whole", `document.querySelector("#log .whole")?.textContent.endsWith("and an <b>end</b>")`)
	if got := eval[[]string](p, `[...document.querySelectorAll("#log .bubble > :last-child")].map((e) => e.textContent.slice(0, 17))`); !cmp.Equal(got, []string{"first", "yes", "a long one\n  with", "yes\nand no", "cut …", "yes"}) {
		t.Errorf("the thread: %q", got)
	}
	if got := eval[string](p, `document.querySelector("#threads [aria-pressed=true]").innerText`); !strings.Contains(got, "parser") {
		t.Errorf("the conversation that is chosen: %q", got)
	}
	p.checkLayout(t)
	if err := os.WriteFile(filepath.Join(pictureDir(t), "open-wide-light.png"), p.picture(false), 0o600); err != nil {
		t.Fatal(err)
	}
	p.press("ArrowDown", 40)
	p.press("Enter", 13)
	p.until("it says that it is cut", `document.getElementById("log").innerText.includes("The daemon has kept only the beginning.")`)
	p.press("Enter", 13)
	p.until("it is closed", `!document.getElementById("log").innerText.includes("The daemon has kept only")`)
	eval[bool](p, `(document.querySelector("#threads button").click(), true)`)
	p.until("all are there again", `document.querySelectorAll("#log .row").length === 4`)
	p.checkProblems(t)
}

// TestFilter: the log shows messages of a peer, an agent or a kind, those that failed, and those that have a text,
// also one that only the whole message has.
func TestFilter(t *testing.T) {
	b := startBrowser(t)
	w := newWorld(t)
	w.peers = []client.Peer{newPeer(0, "desk"), newPeer(1, "build")}
	pass := func(n int, from, kind, outcome, text, whole string) {
		e := client.TrafficEntry{Direction: client.In, Peer: peerID(n), Name: w.peers[n].Name, FromAgent: from, Agent: "planner", Kind: kind, Text: text, Outcome: outcome}
		if whole != "" {
			e.Payload = kinds.EncodePayload(&kinds.Query{Question: whole})
		}
		w.pass(e)
	}
	pass(0, "reviewer", "query", "ok", "one", "one, and at its end a Needle")
	pass(0, "reviewer", "notify", "handed", "two", "")
	pass(1, "runner", "query", "no_agent", "three", "")
	pass(1, "reviewer", "ping", "ok", "", "")
	pass(1, "runner", "query", "timeout", "four needles", "")
	p := show(t, b, w.serve(t), 390, 844, false)
	p.until("the messages are there", `document.querySelectorAll("#log .row").length === 5`)
	set := func(id, property, value string) {
		t.Helper()
		eval[bool](p, fmt.Sprintf(`(() => { const e = document.getElementById(%q); e[%q] = %s; e.dispatchEvent(new Event("input", { bubbles: true })); return true; })()`, id, property, value))
	}
	clear := func() {
		t.Helper()
		eval[bool](p, `(document.getElementById("filter-none").click(), true)`)
		p.until("all are shown", `document.querySelectorAll("#log .row").length === 5 && document.getElementById("filter-none").hidden`)
	}
	shows := func(what, rows string) {
		t.Helper()
		p.until(what, `JSON.stringify(`+rowsOfLog+`) === `+fmt.Sprintf("%q", rows))
	}
	options := eval[[]string](p, `[...document.querySelectorAll("#filter option")].map((e) => e.textContent)`)
	if diff := cmp.Diff([]string{"all peers", "build", "desk", "all agents", "planner", "reviewer", "runner", "all kinds", "notify", "query"}, options); diff != "" {
		t.Error(diff)
	}
	set("filter-agent", "value", `"reviewer"`)
	shows("of an agent", `["one","two"]`)
	set("filter-kind", "value", `"query"`)
	shows("and of a kind", `["one"]`)
	clear()
	set("filter-failed", "checked", "true")
	shows("what has failed", `["three","four needles"]`)
	if text := eval[string](p, `document.getElementById("messages").innerText`); !strings.Contains(text, "no such agent") || !strings.Contains(text, "timed out") || strings.Contains(text, "no_agent") || !strings.Contains(text, "2 of 4 messages") {
		t.Errorf("the words of a machine: %s", text)
	}
	set("filter-peer", "value", fmt.Sprintf("%q", peerID(0).String()))
	p.until("nothing matches", `document.getElementById("log").innerText.includes("No message matches.")`)
	clear()
	set("filter-text", "value", `"NEEDLE"`)
	shows("what has a text, also at its end", `["one","four needles"]`)
	p.checkLayout(t)
	clear()
	p.checkProblems(t)
}

// TestHeldIsRemoved: a held message is removed after a second click, and no other one is.
// holds: security.md#the-page-of-acpctl-web
func TestHeldIsRemoved(t *testing.T) {
	b := startBrowser(t)
	w := newWorld(t)
	w.peers = []client.Peer{newPeer(0, "desk")}
	for seq := range uint64(2) {
		w.held = append(w.held, client.HeldMessage{Seq: 5 + seq, Envelope: wire.Envelope{ID: wire.NewMessageID(), From: peerID(0), Kind: kinds.KindNotify, TS: uint64(time.Now().UnixMilli()), Payload: kinds.EncodePayload(&kinds.Notify{Topic: "ci"})}})
	}
	id := w.held[0].Envelope.ID
	p := show(t, b, w.serve(t), 390, 844, false)
	click := func(act string) {
		t.Helper()
		button := fmt.Sprintf(`document.querySelector("#held-list [data-act=%s][data-of='5']")`, act)
		p.until(act+" is there", button)
		eval[bool](p, "("+button+".click(), true)")
	}
	click("remove")
	click("stay")
	click("remove")
	p.checkLayout(t)
	w.change(func() {
		if len(w.acked) > 0 {
			t.Errorf("removed at the first click: %+v", w.acked)
		}
	})
	click("gone")
	await.Until(t, "it is removed", func() bool { w.mu.Lock(); defer w.mu.Unlock(); return len(w.acked) == 1 })
	if diff := cmp.Diff([]client.AckParams{{IDs: []wire.MessageID{id}, Peers: []string{peerID(0).String()}}}, w.acked); diff != "" {
		t.Error(diff)
	}
	p.until("the other one is there", `document.querySelectorAll("#held-list .held").length === 1 && document.getElementById("said").textContent === "Message 5 is removed."`)
	p.checkProblems(t)
}

// TestKeptIsWithdrawn: a message that is kept is withdrawn after a second click, and the page says until when it is kept.
// holds: security.md#the-page-of-acpctl-web
func TestKeptIsWithdrawn(t *testing.T) {
	b := startBrowser(t)
	w := newWorld(t)
	w.peers = []client.Peer{newPeer(0, "desk")}
	id, until := wire.NewMessageID(), client.Time{Time: time.Now().Add(time.Hour)}
	w.tasks = []client.Task{{ID: id, Kind: kinds.KindQuery, Peer: "desk", Direction: client.Given, Task: "Ready?", State: client.TaskKept, Kept: &client.Kept{ID: id, Until: until, Tries: 3, LastError: "desk is unreachable"}}}
	p := show(t, b, w.serve(t), 390, 844, false)
	click := func(act string) {
		t.Helper()
		button := fmt.Sprintf(`document.querySelector("#tasks-list [data-act=%s]")`, act)
		p.until(act+" is there", button)
		eval[bool](p, "("+button+".click(), true)")
	}
	click("withdraw")
	p.until("it says until when", fmt.Sprintf(`document.getElementById("tasks-list").innerText.includes("kept until %s, tried 3 times: desk is unreachable")`, until.UTC().Format("15:04:05")))
	if n := eval[int](p, `document.querySelectorAll("#waiting-list > li").length`); n != 0 {
		t.Errorf("%d wait", n)
	}
	click("stay")
	click("withdraw")
	p.checkLayout(t)
	w.change(func() {
		if len(w.cancelled) > 0 {
			t.Errorf("withdrawn at the first click: %v", w.cancelled)
		}
	})
	click("gone")
	await.Until(t, "it is withdrawn", func() bool { w.mu.Lock(); defer w.mu.Unlock(); return slices.Equal(w.cancelled, []wire.MessageID{id}) })
	p.until("it is said", `document.getElementById("said").textContent.endsWith(" is withdrawn.")`)
	p.checkProblems(t)
}

// TestWordsOfThePage: each section is called the same in the list of sections, what needs approval is there once, an
// outcome is said in words, a stranger that calls comes with the command to type, and delegations with their times.
// holds: security.md#the-page-of-acpctl-web
func TestWordsOfThePage(t *testing.T) {
	b := startBrowser(t)
	w := newWorld(t)
	w.fill(plain)
	var failed []client.TrafficEntry
	for _, code := range kinds.ListCodes() {
		failed = append(failed, client.TrafficEntry{Direction: client.Out, Peer: peerID(0), Name: "desk", Kind: kinds.KindQuery, Text: "?", Outcome: string(code.Code)})
	}
	w.pass(failed...)
	p := show(t, b, w.serve(t), 390, 844, false)
	p.until("all is there", fmt.Sprintf(`document.querySelectorAll("#log .row").length === %d && document.querySelectorAll("#tasks-list > li").length === 3 && document.querySelectorAll("#callers > li").length === 1 && document.querySelectorAll("#agents-list > li").length === 2 && document.querySelector("#approvals-list > li")`, len(failed)))
	if names := eval[[]string](p, `[...document.querySelectorAll(".jump a")].filter((a) => document.querySelector(a.getAttribute("href") + " h2").textContent !== a.firstChild.textContent.trim()).map((a) => a.innerText)`); len(names) > 0 {
		t.Errorf("the sections of these have other headings: %q", names)
	}
	text := strings.Join(strings.Fields(eval[string](p, `document.getElementById("main").innerText`)), " ")
	if n := strings.Count(text, "May I merge"); n != 1 {
		t.Errorf("what needs approval is there %d times", n)
	}
	for _, want := range []string{"A stranger that calls itself stranger wants to connect", "acpctl trust " + peerID(90).Label(), "answers query, delegate · takes notify · code.test", "for here/tester"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in %s", want, text)
		}
	}
	if times := eval[[]string](p, `[...document.querySelectorAll("#tasks-list .right")].map((e) => e.innerText)`); len(times) != 3 || !strings.Contains(times[0], " · 12 min ") || !strings.Contains(times[1], ":") || !strings.Contains(times[2], "-") {
		t.Errorf("the times of delegations: %q", times)
	}
	if said := eval[[]string](p, `[...document.querySelectorAll("#log .out")].map((e) => e.innerText).filter((s) => !s || s.includes("_"))`); len(said) > 0 {
		t.Errorf("codes: %q", said)
	}
	if height := eval[float64](p, `document.querySelector("header").getBoundingClientRect().height`); height > 60 {
		t.Errorf("the header is %g high: more than a line", height)
	}
	p.look(1360, 1000, false)
	p.until("the list of sections fits", `document.querySelector(".jump ul").scrollWidth <= document.querySelector(".jump ul").clientWidth`)
	p.checkLayout(t)
	p.checkProblems(t)
}
