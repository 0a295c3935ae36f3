package openintent

import (
	"sync/atomic"
	"testing"
)

// TestAPanicInsideAWriteEndsThatOne: nothing of it is kept, others go on, and so does the
// feed.
func TestAPanicInsideAWriteEndsThatOne(t *testing.T) {
	var fails atomic.Bool
	h := start(t, func(c *Config) {
		c.Inside = func(write func() error) error {
			err := write()
			if fails.Load() {
				panic("a bug")
			}
			return err
		}
		c.Freeing = func(free func() error) error { return free() }
	})
	stop := h.run()
	defer stop()
	in := h.intent("planner")
	ch := h.channel("planner", in, "build")
	events := h.follow(h.as("reviewer"), "/subscribe"+ch)
	defer events.stop()
	fails.Store(true)
	p := h.as("planner")
	for what, a := range map[string]func() *answer{
		"an intent": func() *answer { return p.post("/intents", obj{"title": "t"}) },
		"a channel": func() *answer { return p.post("/intents/"+in+"/channels", obj{"name": "test"}) },
		"a message": func() *answer { return p.post(ch+"/messages", obj{"payload": obj{}}) },
		"an ask":    func() *answer { return p.post(ch+"/ask", obj{"payload": obj{}, "to": "reviewer", "timeout": 1}) },
		"a state": func() *answer {
			return p.with("If-Match", "1").post("/intents/"+in+"/state", obj{"patches": []obj{{"op": "set", "path": "/a", "value": 1}}})
		},
		"a deletion": func() *answer { return p.do("DELETE", ch, nil) },
		"an agent":   func() *answer { return p.post("/agents", obj{"agent_id": "planner"}) },
	} {
		t.Log(what)
		a().refused(500, "internal")
	}
	fails.Store(false)
	p.get(ch).ok(200).has(obj{"status": "open"})
	if n := len(p.get(ch + "/messages").ok(200).list("id")); n != 0 {
		t.Errorf("%d messages of writes that failed are there", n)
	}
	p.post(ch+"/messages", obj{"payload": obj{}}).ok(201)
	events.next()
}
