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

// TestWaitingWords: the page says in words that a peer is not connected, and that nobody waits for what
// is only told.
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
	says("nobody waits", "#waiting-sum", "Nobody is waiting. A notice of desk waits for your word.")
	says("the row says so", "#waiting-list li", "a notice of desk for planner (here) waits for your word")
	lacks("#waiting", "waits for planner")

	places := func() string {
		return eval[string](p, `[...document.querySelectorAll("#peers > li")].map((e) => e.querySelector(".name").textContent + " " + e.style.left + " " + e.style.top).join("; ")`)
	}
	p.until("the peers are there", `document.querySelectorAll("#peers > li").length === 3`)
	before := places()
	w.change(func() {
		w.wait = nil
		w.open = []client.TrafficEntry{{At: since, Direction: client.Out, Peer: peerID(1), Name: "build", Kind: kinds.KindQuery, ID: wire.NewMessageID(), Text: "Is it built?"}}
	})
	p.until("the notice is gone", `document.querySelectorAll("#waiting-list > li").length === 1 && !document.getElementById("waiting-sum").textContent.includes("notice")`)
	says("a program waits", "#waiting-list li", "a program here waits for build")
	lacks("#waiting", "(here)")
	lacks("#waiting", "not connected")
	w.change(func() { w.peers[1].State, w.peers[1].Path, w.peers[1].RTTUS = client.PeerTrusted, "", nil })
	says("the row says that the peer is away", "#waiting-list li[data-missing]", "build is not connected since ")
	says("the headline says so", "#waiting-sum", "and build is not connected.")
	p.until("the count warns", `document.querySelector("[data-count=waiting]").dataset.tone === "warn"`)
	says("the picture says so", "#peers > li", "not connected")
	if after := places(); after != before {
		t.Errorf("peers have moved from %s to %s", before, after)
	}
	p.checkLayout(t)
	for _, problem := range p.takeProblems() {
		t.Error(problem)
	}
}
