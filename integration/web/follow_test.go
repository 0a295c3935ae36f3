//go:build web

package web

import (
	"fmt"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/kinds"
)

// fromEnd is an expression for how far the log is from its end.
const fromEnd = `(() => { const l = document.getElementById("log"); return l.scrollHeight - l.scrollTop - l.clientHeight; })()`

// TestFollowsAfterATurn: the log goes on to show the newest message when the window has another size, as after the
// turn of a phone. Who reads older ones stays there.
func TestFollowsAfterATurn(t *testing.T) {
	b := startBrowser(t)
	w := newWorld(t)
	p := show(t, b, w.serve(t), 1280, 900, false)
	n := 0
	say := func(times int) (last string) {
		for range times {
			n++
			w.pass(client.TrafficEntry{Direction: client.In, Peer: peerID(0), Name: "desk", FromAgent: "reviewer", Agent: "planner", Kind: kinds.KindNotify, Thread: "parser", Text: fmt.Sprintf("step %d: the frame reader takes what a peer sends it in pieces of any length, and says so on each of its lines", n), Outcome: "handed"})
		}
		return fmt.Sprintf("step %d:", n)
	}
	settled := `new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))`
	said := func(text string) {
		t.Helper()
		p.until("the message is there", fmt.Sprintf(`document.getElementById("log").textContent.includes(%q)`, text))
	}
	said(say(60))
	for _, size := range [][2]int{{800, 900}, {390, 844}, {844, 390}, {390, 844}, {1400, 1000}, {390, 844}} {
		when := fmt.Sprintf("%d wide, %d high", size[0], size[1])
		p.look(size[0], size[1], false)
		eval[bool](p, settled)
		p.until("the log shows its end, "+when, fromEnd+` < 2`)
		said(say(1))
		p.until("it follows, "+when, fromEnd+` < 2 && document.getElementById("newest").hidden`)
	}
	eval[bool](p, `(() => { document.getElementById("log").scrollTop = 100; return true; })()`)
	p.until("somebody reads older ones", fromEnd+` > 1000`)
	eval[bool](p, settled)
	p.look(844, 390, false)
	eval[bool](p, settled)
	say(1)
	p.until("it is told", `!document.getElementById("newest").hidden`)
	if away := eval[float64](p, fromEnd); away < 1000 {
		t.Errorf("who reads older ones was moved to %g of the end", away)
	}
	p.checkProblems(t)
}
