//go:build web

package web

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// TestTitlesNameThePeer: a thread's name is a peer's choice, and may be the name of another peer. So the title of
// a conversation begins with its peer, and on a phone no conversation is cut through its text.
// holds: security.md#the-page-of-acpctl-web
func TestTitlesNameThePeer(t *testing.T) {
	b := startBrowser(t)
	w := newWorld(t)
	w.peers = []client.Peer{newPeer(0, "desk"), newPeer(1, "build")}
	for i, thread := range []string{"", "desk", "desk › parser", strings.TrimSpace(strings.Repeat("desk ", 12)), "ship"} {
		w.pass(client.TrafficEntry{Direction: client.In, Peer: peerID(1), Name: "build", Kind: kinds.KindNotify, Thread: thread, Text: fmt.Sprintf("message %d", i), Outcome: "handed"})
	}
	p := show(t, b, w.serve(t), 390, 844, false)
	p.until("all is there", `document.querySelectorAll("#threads button").length === 6`)
	titles := eval[[]string](p, `[...document.querySelectorAll("#threads .of")].map((e) => [...e.querySelectorAll(".said-by")].map((s) => s.textContent).join("|") || e.textContent)`)
	if diff := cmp.Diff([]string{"All messages", "build|ship", "build|" + strings.TrimSpace(strings.Repeat("desk ", 12)), "build|desk › parser", "build|desk", "build"}, titles); diff != "" {
		t.Error(diff)
	}
	if cut := eval[[]string](p, `(() => {
		const list = document.getElementById("threads").getBoundingClientRect();
		return [...document.querySelectorAll("#threads button")].filter((e) => { const r = e.getBoundingClientRect(); return r.top < list.bottom - 1 && r.bottom > list.bottom + 1; }).map((e) => e.innerText);
	})()`); len(cut) > 0 {
		t.Errorf("cut at the edge: %q", cut)
	}
	if hidden := eval[[]string](p, `[...document.querySelectorAll("#threads .of > .said-by")].filter((e) => e.clientWidth < 20).map((e) => e.textContent)`); len(hidden) > 0 {
		t.Errorf("nothing is seen of %q", hidden)
	}
	p.checkLayout(t)
}

// TestHeldStandTogether: held messages of one sender for one agent stand together, with their numbers and ids, and
// the page says how they are removed.
func TestHeldStandTogether(t *testing.T) {
	b := startBrowser(t)
	w := newWorld(t)
	hold := func(seq uint64, peer int, agent string) wire.MessageID {
		m := client.HeldMessage{Seq: seq, Agent: "planner", Envelope: wire.Envelope{ID: wire.NewMessageID(), From: peerID(peer), Kind: kinds.KindNotify, FromAgent: agent, TS: uint64(time.Now().UnixMilli()), Payload: kinds.EncodePayload(&kinds.Notify{Topic: fmt.Sprintf("ci.step%d", seq)})}}
		w.held = append(w.held, m)
		return m.Envelope.ID
	}
	w.peers = []client.Peer{newPeer(0, "desk"), newPeer(1, "build")}
	first := hold(5, 1, "runner")
	for seq := range uint64(12) {
		hold(6+seq, 1, "runner")
	}
	last := hold(18, 0, "reviewer")
	p := show(t, b, w.serve(t), 390, 844, false)
	p.until("they are there", `document.querySelectorAll("#held-list > li").length === 2`)
	text := strings.Join(strings.Fields(eval[string](p, `document.getElementById("held").innerText`)), " ")
	for _, want := range []string{"×13", "and 10 more messages", "ci.step5", first.String(), last.String(), "acpctl inbox --ack 18 removes those up to number 18."} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in %s", want, text)
		}
	}
	if n := eval[int](p, `document.querySelectorAll("#held-list .held").length`); n != 4 {
		t.Errorf("%d messages are shown", n)
	}
	p.checkLayout(t)
	w.change(func() { w.held = nil })
	p.until("nothing is held", `!document.querySelectorAll("#held-list > li").length && document.getElementById("held-how").hidden`)
}

// TestEventsStandTogether: events of peers that follow each other are one row, which says who, and another row
// begins with a message.
func TestEventsStandTogether(t *testing.T) {
	b := startBrowser(t)
	w := newWorld(t)
	p := show(t, b, w.serve(t), 390, 844, false)
	await.Until(t, "the page subscribes", func() bool { return w.SubscribedConn() != nil })
	at := time.Now()
	tell := func(kind client.EventType, peer int, name string) {
		w.SubscribedConn().Notify(client.NotificationEvent, &client.Event{Type: kind, Peer: peerID(peer), Name: name, At: at})
	}
	for i, name := range []string{"desk", "build", "archive", "hub", "laptop-2", "laptop-3"} {
		tell(client.EventDiscovered, i, name)
		tell(client.EventUp, i, name)
	}
	tell(client.EventDown, 1, "build")
	p.until("all is told", `document.getElementById("log").innerText.includes("build is no longer connected")`)
	w.pass(talk(plain)[0])
	p.until("a message has passed", `document.getElementById("log").innerText.includes("Which branch")`)
	tell(client.EventUp, 1, "build")
	tell(client.EventPending, 50, "")
	p.until("a stranger has called", `document.getElementById("log").innerText.includes("a stranger that called")`)
	got := eval[[]string](p, `[...document.querySelectorAll("#log .row[data-quiet] .what")].map((e) => e.innerText.replace(/\s+/g, " "))`)
	want := []string{
		"desk, build, archive, hub, and 2 others are on the network; desk, build, archive, hub, and 2 others are connected; build is no longer connected",
		"build is connected",
		peerID(50).Label() + " is a stranger that called",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	p.checkProblems(t)
}
