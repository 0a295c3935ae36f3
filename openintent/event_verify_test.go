package openintent

import (
	"context"
	"sync"
	"testing"
)

// Agents of one daemon verify logs one after the other. An agent here waits for none of them.
// holds: security.md#the-budget
func TestVerificationsOfOthersTakeTurns(t *testing.T) {
	h := start(t, toOthers)
	in := h.intent("planner")
	p := h.as("planner")
	for range 20 {
		p.post("/intents/"+in+"/events", obj{"event_type": "comment", "payload": obj{}}).ok(201)
	}
	path := "/intents/" + in + "/events/verify"
	far := h.from(desk, "reviewer")
	far.get("/intents/" + in).ok(200) // which is an event
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if a := far.get(path); a.status != 200 || a.at("valid") != true || a.at("event_count") != 22.0 {
				t.Errorf("%d %s", a.status, a.raw)
			}
		})
	}
	all.Wait()
	// Who waits for another of its daemon goes when its time is up; others do not wait.
	leave, err := h.e.verifies.enterQueue(t.Context(), desk)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if a := far.doContext(ctx, "GET", path, nil); a.status != 503 {
		t.Errorf("two of one daemon verify at once: %d %s", a.status, a.raw)
	}
	h.from(laptop, "tester").get(path).ok(200)
	p.get(path).ok(200)
	leave()
	far.get(path).ok(200)
	if n := len(h.e.verifies.homes); n != 0 {
		t.Errorf("%d homes verify when all is over", n)
	}
}
