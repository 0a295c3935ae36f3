package openintent

import (
	"context"
	"sync"
	"testing"

	"github.com/acpd/acpd/integration/await"
)

// Agents of one daemon that verify a log all at once cost what one of them does, while it
// does not grow. An agent here always has it looked through.
// holds: security.md#the-budget
func TestVerificationsOfOthersTakeTurns(t *testing.T) {
	h := start(t, toOthers)
	in := h.intent("planner")
	p := h.as("planner")
	p.post("/intents/"+in+"/events", obj{"event_type": "comment", "payload": obj{}}).ok(201)
	for range 200 {
		p.post("/intents/"+in+"/events", obj{"event_type": "comment", "payload": obj{}}).ok(201)
	}
	path := "/intents/" + in + "/events/verify"
	far := h.from(desk, "reviewer")
	far.get("/intents/" + in).ok(200) // which is an event
	seen := h.looks()
	once := func() int {
		t.Helper()
		p.get(path).ok(200).has(obj{"valid": true})
		return seen.bounded(t, "one", 1).rows
	}
	want := once()
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if a := far.get(path); a.status != 200 || a.at("valid") != true || a.at("event_count") != float64(want) {
				t.Errorf("%d %s", a.status, a.raw)
			}
		})
	}
	all.Wait()
	if got := seen.bounded(t, "others", 1).rows; got != want {
		t.Errorf("20 verifications have looked at %d events of %d", got, want)
	}
	if got := once(); got != want {
		t.Errorf("an agent here has %d events looked at of %d", got, want)
	}
	p.post("/intents/"+in+"/events", obj{"event_type": "comment", "payload": obj{}}).ok(201)
	far.get(path).ok(200).has(obj{"valid": true, "event_count": want + 1})
	if got := seen.bounded(t, "again", 1).rows; got != 1 {
		t.Errorf("of a log that has grown by one %d events are looked at", got)
	}
	long := h.e.verifies.lastResult(desk, in)
	long.at = long.at.Add(-verifiedTime)
	h.e.verifies.storeResult(desk, long)
	far.get(path).ok(200).has(obj{"valid": true, "event_count": want + 1})
	if got := seen.bounded(t, "after a minute", 1).rows; got != want+1 {
		t.Errorf("after a minute %d events are looked at", got)
	}
	// Who has waited for one that has seen more is told that.
	first, err := h.e.verifies.enterQueue(t.Context(), desk)
	if err != nil {
		t.Fatal(err)
	}
	waited := make(chan *answer, 1)
	go func() { waited <- far.get(path) }()
	await.Until(t, "it waits", func() bool {
		h.e.verifies.homeQueues.mu.Lock()
		defer h.e.verifies.homeQueues.mu.Unlock()
		return h.e.verifies.homes[desk].n == 2
	})
	p.post("/intents/"+in+"/events", obj{"event_type": "comment", "payload": obj{}}).ok(201)
	h.from(laptop, "tester").get(path).ok(200)
	h.e.verifies.storeResult(desk, h.e.verifies.lastResult(laptop, in))
	first()
	a := <-waited
	if n := a.ok(200).has(obj{"valid": true}).at("event_count").(float64); n < float64(want)+2 {
		t.Errorf("it is told of %v events", n)
	}
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
	leave()
	far.get(path).ok(200)
	if n := len(h.e.verifies.homes); n != 0 {
		t.Errorf("%d homes verify when all is over", n)
	}
}
