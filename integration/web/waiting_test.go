//go:build web

package web

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// TestWaitingWords: the page says in words that a peer is not connected, and that nobody waits for what
// is only told, beside what needs an approval.
func TestWaitingWords(t *testing.T) {
	b := startBrowser(t)
	w := newWorld(t)
	since := time.Now().Add(-20 * time.Second)
	w.peers = []client.Peer{newPeer(0, "desk"), newPeer(1, "build"), newPeer(2, "archive")}
	w.wait = []client.Approval{{ID: "a1", Agent: "planner", Peer: peerID(0), Name: "desk", Kind: kinds.KindNotify, Message: wire.NewMessageID(), Text: "the build is over", Since: since}}
	p := show(t, b, w.serve(t), 1280, 900, false)
	says := func(what, selector, want string) {
		t.Helper()
		p.until(what, fmt.Sprintf(`[...document.querySelectorAll(%q)].some((e) => e.innerText.replace(/\s+/g, " ").includes(%q))`, selector, want))
	}
	lacks := func(selector, word string) {
		t.Helper()
		if text := eval[string](p, fmt.Sprintf(`document.querySelector(%q).innerText`, selector)); strings.Contains(text, word) {
			t.Errorf("%q is in %q", word, text)
		}
	}
	says("nobody else waits", "#waiting-sum", "Nobody else is waiting.")
	says("the row says what it is", "#approvals-list li", "a notice of desk for here/planner")
	says("the row asks", "#approvals-list li", "May it wake planner?")
	lacks("#waiting", "waits for here/planner")

	places := func() string {
		return eval[string](p, `[...document.querySelectorAll("#peers > li")].map((e) => e.querySelector(".name").textContent + " " + e.style.left + " " + e.style.top).join("; ")`)
	}
	p.until("the peers are there", `document.querySelectorAll("#peers > li").length === 3`)
	before := places()
	w.change(func() { w.wait = nil })
	says("nobody waits", "#waiting-sum", "Nobody is waiting.")
	w.change(func() {
		w.open = []client.TrafficEntry{{At: since, Direction: client.Out, Peer: peerID(1), Name: "build", Kind: kinds.KindQuery, ID: wire.NewMessageID(), Text: "Is it built?"}}
	})
	p.until("the notice is gone", `document.querySelectorAll("#waiting-list > li").length === 1 && document.getElementById("approvals").hidden`)
	says("a program waits", "#waiting-list li", "a program here waits for build")
	lacks("#waiting-list", "here/")
	lacks("#waiting", "not connected")
	w.change(func() { w.peers[1].State, w.peers[1].Path, w.peers[1].RTTUS = client.PeerTrusted, "", nil })
	says("the row says that the peer is away", "#waiting-list li[data-missing]", "build is not connected")
	says("the headline says so", "#waiting-sum", "build is not connected.")
	p.until("the count warns", `document.querySelector("[data-count=waiting]").dataset.tone === "warn"`)
	says("the picture says so", "#peers > li", "not connected")
	if after := places(); after != before {
		t.Errorf("peers have moved from %s to %s", before, after)
	}
	p.checkLayout(t)
	p.checkProblems(t)
}

// TestUnreadIsNotNobody: while a daemon does not say what is open, the page says why, and not that nobody waits.
func TestUnreadIsNotNobody(t *testing.T) {
	b := startBrowser(t)
	w := newWorld(t)
	w.SetHandler(client.MethodTraffic, func(*jsonrpc.Request) (any, error) {
		return nil, kinds.Errorf(kinds.Overloaded, "traffic: 64 connections watch already")
	})
	p := show(t, b, w.serve(t), 1280, 900, false)
	for _, section := range []string{"waiting", "messages"} {
		p.until(section+" says why", fmt.Sprintf(`document.getElementById(%q).innerText.includes("This cannot be read: traffic: 64 connections watch already")`, section))
	}
	p.until("nobody knows who waits", `document.getElementById("waiting-sum").textContent === ""`)
	p.checkLayout(t)
	w.SetHandler(client.MethodTraffic, w.answerTraffic)
	p.until("nobody waits", `document.getElementById("waiting-sum").textContent.startsWith("Nobody is waiting.")`)
	p.until("nothing is wrong", `!document.getElementById("main").innerText.includes("cannot be read")`)
	p.checkProblems(t)
}

// TestChains: calls that led to others stand as one chain, with all that wait for each other on one line. One that
// branches off says who waits for it, and a guess is dotted. Each says the name of its chain, which joins nothing. A
// narrow window cuts nothing of what calls say. Programs that only look who is there are one quiet row.
func TestChains(t *testing.T) {
	b := startBrowser(t)
	w := newWorld(t)
	w.peers = []client.Peer{newPeer(0, "desk"), newPeer(1, "build"), newPeer(4, "archive")}
	w.openChains()
	p := show(t, b, w.serve(t), 1280, 900, false)
	p.until("all is there", `document.querySelectorAll("#waiting-list > li").length === 3 && document.querySelectorAll("#waiting-list .call").length === 6`)
	lines := func(selector string) []string {
		return eval[[]string](p, fmt.Sprintf(`[...document.querySelectorAll(%q)].map((e) => e.innerText.replace(/\s+/g, " ").replace(/ ?\/ ?/g, "/").trim())`, selector))
	}
	want := []string{
		"here/clerk waits for desk/reviewer",
		"desk/reviewer waits for here/tester waits for build/runner and 1 call beside",
		"here/scribe waits for build/writer waits for here/scribe",
	}
	if diff := cmp.Diff(want, lines("#waiting-list .path")); diff != "" {
		t.Error(diff)
	}
	if got := lines("#waiting-list .age"); len(got) != 3 || !strings.HasPrefix(got[0], "41 min") || !strings.HasPrefix(got[1], "40 min") || !strings.HasPrefix(got[2], "7 min") {
		t.Errorf("%q", got)
	}
	if diff := cmp.Diff([]string{"chain 5f0c2a9e", "chain 5f0c2a9e"}, lines("#waiting-list [title='5f0c2a9e4bf92f3577b34da6a3ce929d']")); diff != "" {
		t.Error(diff)
	}
	if got := lines(".call:has(.to[data-guess])"); len(got) != 1 || !strings.HasPrefix(got[0], "query here/tester waits for archive/keeper ") || !strings.Contains(got[0], "guessed") {
		t.Errorf("guessed: %q", got)
	}
	calls := lines("#waiting-list > li:nth-child(2) .call")
	for i, want := range []string{"query to here/tester ", "query to build/runner ", "query here/tester waits for archive/keeper "} {
		if len(calls) != 3 || !strings.HasPrefix(calls[i], want) {
			t.Errorf("call %d is not %q: %q", i, want, calls)
		}
	}
	p.checkLayout(t)
	p.look(360, 740, false)
	if got := eval[[]string](p, `[...document.querySelectorAll("#waiting-list .text")].filter((e) => e.scrollHeight > e.clientHeight + 1).map((e) => e.innerText)`); len(got) > 0 {
		t.Errorf("cut in a narrow window: %q", got)
	}
	p.checkLayout(t)

	probe := func(kind string, n int) (all []client.TrafficEntry) {
		for range n {
			all = append(all, client.TrafficEntry{Direction: client.Out, Peer: peerID(0), Name: "desk", Kind: kind, Outcome: client.TrafficOK})
		}
		return all
	}
	w.pass(talk(plain)[0])
	w.pass(probe(kinds.KindDiscover, 40)...)
	w.pass(probe(kinds.KindPing, 2)...)
	w.pass(client.TrafficEntry{Direction: client.Out, Peer: peerID(4), Name: "archive", Kind: kinds.KindPing, Outcome: "unreachable"})
	p.until("what has failed is there", `document.getElementById("log").textContent.includes("unreachable")`)
	if got := lines("#log .row .what"); len(got) != 3 || !strings.Contains(got[0], "Which branch") || got[1] != "discover to desk ×40, ping to desk ×2" || !strings.Contains(got[2], "archive") {
		t.Errorf("%q", got)
	}
	if got := lines("#threads .t"); len(got) != 3 { // all messages, parser, and what has failed
		t.Errorf("%q", got)
	}
	p.checkProblems(t)
}
