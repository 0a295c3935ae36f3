package openintent

import (
	"fmt"
	"strings"
	"testing"

	"github.com/acpd/acpd/openintent/object"
)

// nested is JSON that nests so many arrays.
func nested(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }

// Whatever is taken can be read when the daemon starts again, and what could not is refused:
// no agent keeps a daemon from starting.
func TestWhatIsTakenIsReadAgain(t *testing.T) {
	h := start(t, toOthers)
	in := h.intent("planner")
	ch := h.channel("planner", in, "talk", obj{"options": obj{"audit": true}})
	over := h.channel("planner", in, "over")
	p, far := h.as("planner"), h.from(desk, "worker")
	path := strings.Repeat("/a", object.MaxSteps)
	for what, c := range map[string]struct {
		room int // levels that the body has beside the value
		send func(value string) *answer
	}{
		"an intent": {2, func(v string) *answer { return p.post("/intents", `{"title":"t","state":{"a":`+v+`}}`) }},
		"a state": {3, func(v string) *answer {
			version := fmt.Sprint(h.e.intents[in].version)
			return p.with("If-Match", version).post("/intents/"+in+"/state", `{"patches":[{"op":"set","path":"`+path+`","value":`+v+`}]}`)
		}},
		"an event": {2, func(v string) *answer {
			return far.post("/intents/"+in+"/events", `{"event_type":"comment","payload":{"a":`+v+`}}`)
		}},
		"a message": {2, func(v string) *answer { return far.post(ch+"/messages", `{"payload":{"a":`+v+`}}`) }},
		"a channel": {2, func(v string) *answer { return p.patch(over, `{"options":{"a":`+v+`}}`) }},
		"a task": {2, func(v string) *answer {
			return far.post("/tasks", `{"intent_id":"`+in+`","name":"n","input":{"a":`+v+`}}`)
		}},
		"an agent": {2, func(v string) *answer { return p.post("/agents/register", `{"metadata":{"a":`+v+`}}`) }},
	} {
		if a := c.send(nested(object.MaxDepth - c.room)); a.status >= 300 {
			t.Errorf("%s: %d %s", what, a.status, a.raw)
		}
		for _, n := range []int{object.MaxDepth - c.room + 1, 2000, 9990} {
			if a := c.send(nested(n)); a.status != 400 || a.at("error") != "bad_json" {
				t.Errorf("%s of %d levels: %d %.200s", what, n, a.status, a.raw)
			}
		}
	}
	p.post(ch+"/messages", obj{"payload": obj{"a": `\"` + nested(2*object.MaxDepth), "b": nested(9)}}).ok(201)
	p.do("DELETE", over, nil).ok(200)
	for _, at := range []string{"9999-12-31T23:59:59-01:00", "1970-01-01T00:00:00+01:00"} {
		p.post("/intents/"+in+"/acl/entries", obj{"principal_id": "welder", "permission": "read", "expires_at": at}).refused(422, "invalid")
	}
	p.post("/intents/"+in+"/acl/entries", obj{"principal_id": "welder", "permission": "read", "expires_at": "1971-01-01T00:00:00+01:00"}).ok(201)
	kept := h.e.told()
	h.restart()
	differ(t, "read again", h.e.told(), kept)
	h.as("planner").get("/intents/" + in + "/events/verify").ok(200).has(obj{"valid": true})
}
