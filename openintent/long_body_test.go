package openintent

import (
	"strings"
	"sync"
	"testing"

	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/store"
)

// Long bodies of other daemons' agents are computed one at a time, and in turns of these
// daemons. Agents here and short bodies wait for nobody, and who waits for a response holds
// up nobody.
// holds: security.md#the-budget
func TestLongBodiesOfOthersTakeTurns(t *testing.T) {
	h := start(t, toOthers)
	in := h.intent("planner")
	ch := h.channel("planner", in, "talk")
	text := strings.Repeat("x", longBody)
	comment := func(text string) obj { return obj{"event_type": "comment", "payload": obj{"text": text}} }
	path := "/intents/" + in + "/events"
	h.e.turn <- struct{}{} // something long is computed
	h.from(desk, "reviewer").post(path, comment("short")).ok(201)
	h.as("planner").post(path, comment(text)).ok(201)

	var others sync.WaitGroup
	for range 3 {
		for _, home := range []string{desk, laptop} {
			others.Go(func() { h.from(home, "reviewer-"+home[:4]).post(path, comment(text)).ok(201) })
		}
	}
	await.Until(t, "all wait", func() bool {
		h.e.long.mu.Lock()
		defer h.e.long.mu.Unlock()
		n := 0
		for _, q := range h.e.long.homes {
			n += q.n
		}
		return n == 6
	})
	<-h.e.turn
	others.Wait()

	asked := make(chan *answer, 1)
	go func() {
		asked <- h.from(desk, "reviewer").post(ch+"/ask", obj{"to": "planner", "payload": obj{"text": text}, "timeout": 60})
	}()
	var request string
	await.Until(t, "the request is there", func() bool {
		for _, id := range h.as("planner").get(ch + "/messages?wait=0&message_type=request").list("id") {
			request = id.(string)
		}
		return request != ""
	})
	h.from(desk, "reviewer").post(path, comment(text)).ok(201) // while the ask waits
	h.as("planner").respond(ch, request).ok(201)
	await.Receive(t, "an answer", asked).ok(200)
	if len(h.e.turn) != 0 || len(h.e.long.homes) != 0 {
		t.Errorf("%d are in their turn, and of %d daemons some wait", len(h.e.turn), len(h.e.long.homes))
	}
}

// Who waits for what others of its daemon read holds up no other daemon.
// holds: security.md#the-budget
func TestWhoWaitsForAReaderHasNoTurn(t *testing.T) {
	text := strings.Repeat("x", longBody)
	for _, what := range []string{"state", "messages", "verify"} {
		t.Run(what, func(t *testing.T) {
			h := start(t, toOthers)
			in := h.intent("planner")
			ch := h.channel("planner", in, "talk")
			busy := store.WithRequester(t.Context(), peerAccountKey(desk))
			read, stop := make(chan struct{}), make(chan struct{})
			var others sync.WaitGroup
			defer others.Wait()
			defer close(stop)
			for range 2 { // as many as a peer has
				others.Go(func() {
					if err := h.db.Read(busy, func(*store.Tx) error { read <- struct{}{}; <-stop; return nil }); err != nil {
						t.Error(err)
					}
				})
				<-read
			}
			far, waiting := h.from(desk, "reviewer"), &h.e.long
			asks := map[string]func() *answer{
				"state": func() *answer {
					return far.with("If-Match", "1").doContext(busy, "POST", "/intents/"+in+"/state", obj{"state": obj{"x": text}})
				},
				"messages": func() *answer {
					return far.with("Idempotency-Key", "1").doContext(busy, "POST", ch+"/messages", obj{"payload": obj{"text": text}})
				},
				"verify": func() *answer { return far.doContext(busy, "GET", "/intents/"+in+"/events/verify", nil) },
			}
			if what == "verify" {
				waiting = &h.e.verifies
			}
			h.e.turn <- struct{}{} // something is computed
			others.Go(func() {
				if a := asks[what](); a.status/100 != 2 {
					t.Errorf("%d %s", a.status, a.raw)
				}
			})
			await.Until(t, "it is asked", func() bool {
				waiting.mu.Lock()
				defer waiting.mu.Unlock()
				return waiting.homes[desk] != nil
			})
			<-h.e.turn
			for range 3 {
				a := h.from(laptop, "tester").doContext(await.NewContext(t), "POST", "/intents/"+in+"/events", obj{"event_type": "comment", "payload": obj{"text": text}})
				if a.status != 201 {
					t.Fatalf("another daemon's agent waits for a reader of the first one: %d %s", a.status, a.raw)
				}
			}
		})
	}
}
