//go:build web

package web

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/internal/app/cli/clitest"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// ask adds an approval of a query by that peer.
func (w *world) ask(id, peer string, n int) {
	w.change(func() {
		w.wait = append(w.wait, client.Approval{ID: id, Agent: "planner", Peer: peerID(n), Name: peer, Kind: kinds.KindQuery, Message: wire.NewMessageID(), Text: "a question of " + peer, Since: time.Now()})
	})
}

// withdraw takes back the approval of an id, as when its deadline has passed.
func (w *world) withdraw(id string) {
	w.change(func() {
		w.wait = slices.DeleteFunc(w.wait, func(a client.Approval) bool { return a.ID == id })
	})
}

// keepApprovals has the daemon write down what is decided, and change nothing.
func (w *world) keepApprovals() {
	w.SetHandler(client.MethodApprove, func(r *jsonrpc.Request) (any, error) {
		var p client.ApproveParams
		if err := r.ReadParams(&p); err != nil {
			return nil, err
		}
		w.change(func() { w.decided = append(w.decided, p) })
		return &client.Approval{ID: p.ID, Message: clitest.SomeID}, nil
	})
}

func (w *world) countDecided() (n int, last client.ApproveParams) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n = len(w.decided); n > 0 {
		last = w.decided[n-1]
	}
	return n, last
}

// yesOf is an expression for the button of an approval.
func yesOf(id string) string {
	return fmt.Sprintf(`document.querySelector('#approvals-list [data-act=yes][data-of="%s"]')`, id)
}

// point returns the middle of a button.
func (p *tab) point(button string) (x, y float64) {
	p.t.Helper()
	at := eval[[]float64](p, `(() => { const r = `+button+`.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; })()`)
	return at[0], at[1]
}

func (p *tab) mouse(what string, x, y float64) {
	p.t.Helper()
	press := object{"type": what, "x": x, "y": y, "button": "left", "clickCount": 1}
	if what == "mouseMoved" {
		press = object{"type": what, "x": x, "y": y}
	}
	p.call("Input.dispatchMouseEvent", press, nil)
}

// TestAClickIsForItsRow: when rows move up because one above them is over, a click that was meant for what lay
// there before decides nothing, and the page says so. Whoever looks and clicks again is heard.
// holds: security.md#the-page-of-acpctl-web
func TestAClickIsForItsRow(t *testing.T) {
	b := startBrowser(t)
	w := newWorld(t)
	w.keepApprovals()
	for i, id := range []string{"11", "12", "13"} {
		w.ask(id, []string{"build", "desk", "build"}[i], i%2)
	}
	p := show(t, b, w.serve(t), 1280, 900, false)
	p.until("three rows ask", yesOf("11")+` && `+yesOf("12")+` && `+yesOf("13"))
	// The click comes as soon as the rows have moved, where desk's Yes was.
	eval[bool](p, `(() => {
		const r = `+yesOf("12")+`.getBoundingClientRect(), x = r.x + r.width / 2, y = r.y + r.height / 2;
		window.click = () => { const e = document.elementFromPoint(x, y); e.dispatchEvent(new MouseEvent("click", { detail: 1, bubbles: true })); return e.dataset.of || e.textContent; };
		new MutationObserver(() => { if (!`+yesOf("11")+` && !window.first) window.first = click(); }).observe(document.getElementById("approvals-list"), { childList: true, subtree: true });
		return true;
	})()`)
	w.withdraw("11")
	p.until("the rows have moved", `window.first`)
	if lies := eval[string](p, `window.first`); lies != "13" {
		t.Fatalf("what lies there is %q: the rows have not moved as this test needs it", lies)
	}
	p.until("the page says that the click did not count", `document.getElementById("said").textContent.startsWith("Nothing was done")`)
	if n, last := w.countDecided(); n != 0 {
		t.Fatalf("the click has decided %+v", last)
	}
	eval[bool](p, `new Promise((done) => setTimeout(() => { click(); done(true); }, 1000))`)
	await.Until(t, "a click after a look counts", func() bool { n, _ := w.countDecided(); return n == 1 })
	if _, last := w.countDecided(); last.ID != "13" {
		t.Errorf("%+v", last)
	}
}

// TestNothingMovesBeneathThePointer: while somebody points at a row, a row above it that is over keeps its
// place, new ones come below, and the click counts at once.
// holds: security.md#the-page-of-acpctl-web
func TestNothingMovesBeneathThePointer(t *testing.T) {
	b := startBrowser(t)
	w := newWorld(t)
	w.keepApprovals()
	w.ask("11", "build", 1)
	w.ask("12", "desk", 0)
	p := show(t, b, w.serve(t), 1280, 900, false)
	p.until("two rows ask", yesOf("11")+` && `+yesOf("12"))
	eval[bool](p, `new Promise((done) => setTimeout(() => done(true), 1000))`) // somebody reads
	x, y := p.point(yesOf("12"))
	p.mouse("mouseMoved", x, y)
	p.until("the pointer is there", `document.getElementById("approvals-list").matches(":hover")`)
	eval[bool](p, `(() => { // those that are set and have not ended
		const timers = window.timers = new Set(), set = setTimeout, clear = clearTimeout;
		window.setTimeout = (f, ms) => { const id = set(() => { timers.delete(id); f(); }, ms); if (ms === 1000) timers.add(id); return id; };
		window.clearTimeout = (id) => { timers.delete(id); clear(id); };
		return true;
	})()`)
	w.withdraw("11")
	for i := range 3 {
		w.ask(fmt.Sprint(13+i), "build", 1)
	}
	p.until("all that is drawn", `!`+yesOf("11")+` && `+yesOf("15"))
	if atX, atY := p.point(yesOf("12")); atX != x || atY != y {
		t.Errorf("the row has moved from %g,%g to %g,%g", x, y, atX, atY)
	}
	if text := eval[string](p, `document.querySelector("#approvals-list > li").innerText`); !strings.Contains(text, "no longer waits") {
		t.Errorf("the first row says %q", text)
	}
	for n := range 3 { // the daemon goes on, and the list is drawn anew
		w.change(func() { w.status.Messages.In = map[string]uint64{"query": uint64(41 + n)} })
		p.until("the daemon's row has changed", fmt.Sprintf(`document.getElementById("about").textContent.includes(" %d in")`, 41+n))
	}
	if n := eval[int](p, `timers.size`); n > 1 {
		t.Errorf("%d timers wait for the pointer to leave", n)
	}
	p.mouse("mousePressed", x, y)
	p.mouse("mouseReleased", x, y)
	await.Until(t, "the click counts", func() bool { n, _ := w.countDecided(); return n == 1 })
	if _, last := w.countDecided(); last.ID != "12" {
		t.Errorf("%+v", last)
	}
	p.mouse("mouseMoved", 5, 5)
	p.until("what is over has gone", `document.querySelectorAll("#approvals-list > li").length === 4`)
	p.checkProblems(t)
}

// TestClicksCountWhileCallsChange: however fast a peer begins and ends calls, each click at an approval counts,
// also one whose button is held for a while.
// holds: security.md#the-page-of-acpctl-web
func TestClicksCountWhileCallsChange(t *testing.T) {
	b := startBrowser(t)
	w := newWorld(t)
	w.keepApprovals()
	var asked []string
	for i := range 10 {
		asked = append(asked, fmt.Sprint(11+i))
		w.ask(asked[i], "desk", 0)
	}
	p := show(t, b, w.serve(t), 1280, 1800, false)
	p.until("the rows ask", yesOf(asked[9]))
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for tick := time.NewTicker(20 * time.Millisecond); ; { // the pace of the peer
			select {
			case <-stop:
				tick.Stop()
				return
			case <-tick.C:
			}
			w.pass(client.TrafficEntry{Direction: client.In, Peer: peerID(1), Name: "build", Kind: kinds.KindQuery, Text: "short", Outcome: "ok"})
			w.change(func() {
				w.open = []client.TrafficEntry{{At: time.Now(), Direction: client.In, Peer: peerID(1), Name: "build", Agent: "planner", Kind: kinds.KindQuery, ID: wire.NewMessageID(), Text: "short"}}
			})
		}
	}()
	defer func() { close(stop); <-stopped }()
	p.until("calls change", `document.querySelectorAll("#waiting-list > li").length === 1`)
	eval[bool](p, `new Promise((done) => setTimeout(() => done(true), 1000))`) // somebody reads
	for i, id := range asked {                                                 // each its own: a row whose click is on its way to the daemon takes no other
		x, y := p.point(yesOf(id))
		p.mouse("mousePressed", x, y)
		time.Sleep(200 * time.Millisecond) // as long as a finger takes
		p.mouse("mouseReleased", x, y)
		await.Until(t, "the press at "+id+" counts", func() bool {
			n, last := w.countDecided()
			return n == i+1 && last.ID == id
		})
	}
}

// TestAlwaysNamesThePeer: what is asked before an always is the rule that the daemon then keeps. It names the
// peer, and not the agent that the peer says it has.
// holds: security.md#the-page-of-acpctl-web
func TestAlwaysNamesThePeer(t *testing.T) {
	b := startBrowser(t)
	w := newWorld(t)
	w.ask("11", "desk", 0)
	w.open = []client.TrafficEntry{{At: time.Now(), Direction: client.In, Peer: peerID(0), Name: "desk", FromAgent: "release-notes", Agent: "planner", Kind: kinds.KindQuery, ID: w.wait[0].Message}}
	p := show(t, b, w.serve(t), 1280, 900, false)
	p.until("the row names the agent", `document.querySelector("#approvals-list .path")?.textContent.includes("desk/release-notes")`)
	labels := func() string {
		return eval[string](p, `[...document.querySelectorAll("#approvals-list button")].map((b) => b.ariaLabel).join("; ")`)
	}
	before := labels()
	eval[bool](p, `(document.querySelector("[data-act=always]").click(), true)`)
	p.until("it asks once more", `document.querySelector("[data-act=sure]")`)
	asked := strings.NewReplacer("\u2068", "", "\u2069", "").Replace(eval[string](p, `document.querySelector("#approvals-list .ask").textContent`))
	if asked != "Every query of desk, of any agent there, wakes planner without asking, those that wait included?" {
		t.Errorf("it asks %q", asked)
	}
	if all := before + "; " + labels(); strings.Contains(all, "release-notes") || !strings.Contains(all, "of any agent there") {
		t.Errorf("labels: %q", all)
	}
}
