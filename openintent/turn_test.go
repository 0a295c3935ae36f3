package openintent

import (
	"strings"
	"sync"
	"testing"

	"github.com/acpd/acpd/integration/await"
)

// Long bodies of other daemons' agents are computed one at a time, and in turns of these
// daemons. Agents here and short bodies wait for nobody, and who waits for a response holds
// up nobody.
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
	await.From(t, "an answer", asked).ok(200)
	if len(h.e.turn) != 0 || len(h.e.long.homes) != 0 {
		t.Errorf("%d are in their turn, and of %d daemons some wait", len(h.e.turn), len(h.e.long.homes))
	}
}
