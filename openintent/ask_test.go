package openintent

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/acpd/acpd/openintent/object"
)

func TestAskAnswersWithTheResponse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _, ch := team(t)
		p, r := h.as("planner"), h.as("reviewer")
		asked := make(chan *answer)
		go func() {
			asked <- p.post(ch+"/ask", obj{"sender": "planner", "to": "reviewer", "payload": obj{"q": 1}, "timeout": 20})
		}()
		synctest.Wait()
		a := r.messages(ch)
		id := a.list("id")[0].(string)
		if exp := a.list("expires_at")[0]; exp == nil {
			t.Error("the request does not expire")
		}
		reply := r.respond(ch, id).ok(201)
		got := (<-asked).ok(200)
		if string(got.raw) != string(reply.raw) {
			t.Errorf("got %s, want %s", got.raw, reply.raw)
		}
		if n := len(h.e.channels[ch[len("/channels/"):]].asks); n != 0 {
			t.Errorf("%d asks are left", n)
		}
		for _, bad := range []obj{{"timeout": -1}, {"timeout": 4000}, {"min_responses": -1}, {"timeout": "x"}, {"to": "*"}, {"to": nil}} {
			body := obj{"to": "reviewer"}
			for k, v := range bad {
				body[k] = v
			}
			p.post(ch+"/ask", body).refused(422, "invalid")
		}
		p.post(ch+"/ask", obj{"to": "reviewer", "sender": "desk"}).refused(403, "sender_mismatch")
		p.with("Idempotency-Key", "k").post(ch+"/ask", obj{"to": "reviewer"}).refused(400, "bad_key")
	})
}

func TestAskAllCollects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _, ch := team(t)
		for _, a := range []string{"one", "two", "three"} {
			h.as(a).register(obj{"role_id": "tester"}).ok(201)
		}
		ask := func(body obj, answers ...string) (*answer, time.Duration) {
			t.Helper()
			began := time.Now()
			asked := make(chan *answer)
			go func() { asked <- h.as("planner").post(ch+"/ask", body) }()
			synctest.Wait()
			all := h.as("one").get(ch + "/messages?wait=0&types=request").list("id")
			for _, a := range answers {
				time.Sleep(time.Second)
				h.as(a).respond(ch, all[len(all)-1].(string)).ok(201)
			}
			a := <-asked
			return a, time.Since(began)
		}
		senders := func(a *answer) (s []any) {
			for _, m := range a.at("responses").([]any) {
				s = append(s, m.(obj)["sender"])
			}
			return s
		}
		// Everybody has answered.
		a, took := ask(obj{"to": "role:tester", "all": true, "timeout": 20}, "one", "two", "three")
		if got := senders(a.ok(200)); fmt.Sprint(got) != "[one two three]" || took != 3*time.Second {
			t.Errorf("%v after %v", got, took)
		}
		if a.at("request").(obj)["message_type"] != object.KindRequest {
			t.Errorf("%s", a.raw)
		}
		// Some have when the time is over.
		a, took = ask(obj{"to": "role:tester", "all": true, "timeout": 20}, "one")
		if got := senders(a.ok(200)); len(got) != 1 || took != 20*time.Second {
			t.Errorf("%v after %v", got, took)
		}
		// Nobody has.
		a, _ = ask(obj{"to": "role:tester", "all": true, "timeout": 20})
		a.refused(504, "ask_timeout")
		// As many as were asked for.
		a, took = ask(obj{"to": "role:tester", "min_responses": 2, "timeout": 20}, "two", "one")
		if got := senders(a.ok(200)); fmt.Sprint(got) != "[two one]" || took != 2*time.Second {
			t.Errorf("%v after %v", got, took)
		}
		a, _ = ask(obj{"to": "role:tester", "min_responses": 2, "timeout": 20}, "three")
		if got := senders(a.refused(504, "ask_timeout")); fmt.Sprint(got) != "[three]" {
			t.Errorf("%v", got)
		}
		a, took = ask(obj{"to": "one", "all": true, "timeout": 20}, "one")
		if got := senders(a.ok(200)); len(got) != 1 || took != time.Second {
			t.Errorf("%v after %v", got, took)
		}
	})
}

// sdkAsk asks as the unmodified Python SDK does: it sends a request and lists
// the whole channel twice a second.
func sdkAsk(c *client, ch, to string, timeout time.Duration) (response obj, took time.Duration) {
	began := time.Now()
	id := c.request(ch, to)
	for time.Since(began) < timeout {
		for _, m := range c.get(ch + "/messages").ok(200).body.([]any) {
			if m := m.(obj); m["correlation_id"] == id && m["message_type"] == object.KindResponse {
				return m, time.Since(began)
			}
		}
		time.Sleep(500 * time.Millisecond)
	}
	return nil, time.Since(began)
}

func TestHeldListMakesPollingFast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _, ch := team(t)
		p := h.as("planner")
		r := h.as("reviewer")
		s := h.follow(r, "/subscribe"+ch)
		quit := make(chan struct{})
		go func() {
			for {
				select {
				case f := <-s.events:
					if f.data["message_type"] == object.KindRequest {
						time.Sleep(50 * time.Millisecond)
						r.respond(ch, f.data["id"].(string)).ok(201)
					}
				case <-quit:
					return
				}
			}
		}()
		for range 3 {
			if m, took := sdkAsk(p, ch, "reviewer", 10*time.Second); m == nil || took != 50*time.Millisecond {
				t.Errorf("answered after %v with %v", took, m)
			}
		}
		// Nobody answers: each list waits for a second and no longer.
		if m, took := sdkAsk(p, ch, "desk", 2*time.Second); m != nil || took > 3*time.Second {
			t.Errorf("given up after %v with %v", took, m)
		}
		// Others, and any query, are not held.
		began := time.Now()
		h.as("desk").get(ch + "/messages").ok(200)
		p.get(ch + "/messages?wait=0").ok(200)
		p.get(ch + "/messages?to=desk").ok(200)
		p.get(ch + "/messages?since=2001-01-01T00:00:00Z").ok(200)
		if took := time.Since(began); took != 0 {
			t.Errorf("held for %v", took)
		}
		close(quit)
		s.stop()
	})
}

func TestTwentyConcurrentAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _, ch := team(t)
		s := h.follow(h.as("reviewer"), "/subscribe"+ch)
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				p := h.as(fmt.Sprint("planner", i%2))
				if i%2 == 0 {
					if m, took := sdkAsk(p, ch, "reviewer", 10*time.Second); m == nil || took > 2*time.Second {
						t.Errorf("answered after %v with %v", took, m)
					}
					return
				}
				a := p.post(ch+"/ask", obj{"to": "reviewer", "payload": obj{"n": i}}).ok(200)
				if got := a.at("payload").(obj)["n"]; got != float64(i) {
					t.Errorf("%d got the answer of %v", i, got)
				}
			})
		}
		for range 20 {
			f := s.next()
			wg.Go(func() {
				h.as("reviewer").post(ch+"/messages/"+f.data["id"].(string)+"/reply", obj{"payload": f.data["payload"]}).ok(201)
			})
		}
		wg.Wait()
		s.stop()
	})
}

// Who answers one ask ever again does not fill the memory: it ends with what a list holds.
func TestResponsesToAnAskAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _, ch := team(t)
		for _, a := range []string{"one", "two"} {
			h.as(a).register(obj{"role_id": "tester"}).ok(201)
		}
		asked := make(chan *answer, 1)
		go func() {
			asked <- h.as("planner").post(ch+"/ask", obj{"to": "role:tester", "all": true, "timeout": 20})
		}()
		synctest.Wait()
		id := h.as("one").messages(ch).list("id")[0].(string)
		const n = 40
		for range n {
			h.as("one").post(ch+"/messages/"+id+"/reply", obj{"payload": obj{"a": strings.Repeat("x", 255<<10)}}).ok(201)
		}
		a := <-asked
		if got := len(a.ok(200).at("responses").([]any)); got < 30 || got >= n {
			t.Errorf("%d of %d responses", got, n)
		}
	})
}

// A request that is refused takes nothing from others: no ask ends, and nothing that is
// in memory goes.
func TestRefusedRequestsEndNoAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, in, ch := team(t, toOthers)
		for i := range object.MaxEntries {
			h.from(laptop, fmt.Sprint("worker", i)).get(ch).ok(200)
		}
		asked := make(chan *answer, 1)
		go func() {
			asked <- h.as("planner").post(ch+"/ask", obj{"to": "reviewer", "payload": obj{}})
		}()
		synctest.Wait()
		one := h.from(laptop, "one-more")
		version := h.as("planner").get("/intents/" + in).ok(200).at("version")
		for _, refused := range []*answer{
			one.send(ch, obj{}),
			one.post("/intents/"+in+"/channels/talk/messages", obj{"payload": obj{}}),
			one.post("/intents/"+in+"/channels", obj{"name": "new"}),
			one.post("/intents/"+in+"/events", obj{"event_type": "comment", "payload": obj{}}),
			one.post("/intents/"+in+"/agents", obj{"agent_id": "welder"}),
			one.post("/tasks", obj{"intent_id": in, "name": "n"}),
			one.with("If-Match", fmt.Sprint(version)).post("/intents/"+in+"/state", obj{"state": obj{"a": 1}}),
			one.get(ch),
		} {
			refused.refused(429, "too_many")
		}
		if len(h.e.memory) == 0 {
			t.Error("the messages are not in memory any more")
		}
		synctest.Wait()
		list := h.as("reviewer").messages(ch).ok(200).is("message_type", "request")
		h.as("reviewer").respond(ch, list.list("id")[0].(string)).ok(201)
		(<-asked).ok(200).has(obj{"message_type": "response"})
	})
}

// A plain list is held too while the response is being committed: its request has an
// answer, and no list would show it.
func TestHeldListWaitsForWhatIsCommitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, audit := range []bool{false, true} {
			var ch, request string
			listed := make(chan *answer, 1)
			var h *host
			responding := false
			h = start(t, func(c *Config) {
				c.Inside = func(run func() error) error {
					err := run()
					if responding { // between the write and its commit
						responding = false
						go func() { listed <- h.as("planner").get(ch + "/messages") }()
						synctest.Wait()
						if len(listed) > 0 {
							t.Errorf("audit %v: the list was not held", audit)
						}
					}
					return err
				}
			})
			ch = h.channel("planner", h.intent("planner"), "talk", obj{"options": obj{"audit": audit}})
			h.as("reviewer").messages(ch).ok(200)
			request = h.as("planner").request(ch, "reviewer")
			responding = true
			response := h.as("reviewer").respond(ch, request).ok(201).id()
			(<-listed).is("id", request, response)
		}
	})
}
