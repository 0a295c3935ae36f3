package openintent

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/acpd/acpd/openintent/object"
)

func TestResolutionClosesTheChannels(t *testing.T) {
	for _, status := range []string{"completed", "abandoned"} {
		synctest.Test(t, func(t *testing.T) {
			h, in, ch := team(t)
			p := h.as("planner")
			other := h.channel("planner", in, "other")
			request, note := p.request(ch, "reviewer"), p.say(ch, obj{"to": "reviewer"})
			p.with("If-Match", "1").post("/intents/"+in+"/status", obj{"status": "suspended_awaiting_input"}).ok(200)
			p.send(ch, obj{}).ok(201)
			asked := make(chan *answer)
			go func() { asked <- p.post(other+"/ask", obj{"to": "reviewer"}) }()
			synctest.Wait()
			p.with("If-Match", "2").post("/intents/"+in+"/status", obj{"status": status}).ok(200).has(obj{"status": status, "version": 3})
			(<-asked).refused(409, "channel_closed")
			for range 2 {
				p = h.as("planner")
				p.get(ch).has(obj{"status": "closed"})
				p.send(ch, obj{}).refused(409, "channel_closed")
				h.as("reviewer").respond(ch, request).refused(409, "channel_closed")
				p.get(ch + "/messages/" + request).has(obj{"status": "expired"})
				p.get(ch + "/messages/" + note).has(obj{"status": "delivered"})
				p.with("If-Match", "3").post("/intents/"+in+"/status", obj{"status": "active"}).refused(409, "intent_terminal")
				h.restart()
			}
		})
	}
}

func TestDepartedAgents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, leave := range []func(*client) *answer{
			func(c *client) *answer { return c.do("DELETE", "/agents/reviewer", nil) },
			func(c *client) *answer { return c.patch("/agents/reviewer/status", obj{"status": "deregistered"}) },
		} {
			h := start(t)
			in, p, r := h.intent("planner"), h.as("planner"), h.as("reviewer")
			r.register(obj{"role_id": "tester"}).ok(201)
			member := h.channel("planner", in, "member", obj{"member_policy": "explicit", "members": []string{"planner", "reviewer"}})
			asked := h.channel("planner", in, "asked")
			neither := h.channel("planner", in, "neither")
			gone := h.channel("planner", in, "gone", obj{"members": []string{"reviewer"}})
			p.patch(gone, obj{"status": "closed"}).ok(200)
			request := p.request(asked, "reviewer")
			answered := p.request(asked, "reviewer")
			r.respond(asked, answered).ok(201)
			toRole := p.request(asked, "role:tester")
			waits := make(chan *answer)
			go func() { waits <- p.post(member+"/ask", obj{"to": "reviewer"}) }()
			synctest.Wait()
			p.patch("/agents/reviewer/status", obj{"status": "deregistered"}).refused(403, "not_yours")
			leave(r).ok(200).has(obj{"status": "deregistered"})
			(<-waits).refused(409, "request_expired")
			for range 2 {
				p = h.as("planner")
				p.get(member).has(obj{"members": []any{"planner"}})
				p.get(gone).has(obj{"members": []any{"reviewer"}})
				p.get(asked + "/messages/" + request).has(obj{"status": "expired"})
				p.get(asked + "/messages/" + answered).has(obj{"status": "delivered"})
				p.get(asked + "/messages/" + toRole).has(obj{"status": "delivered"})
				for _, ch := range []string{member, asked} {
					a := p.get(ch+"/messages?types=notify").is("sender", "system").is("to", "*")
					want := obj{"event": "agent_departed", "agent_id": "reviewer", "role_id": "tester", "reason": "deregistered"}
					if got := a.list("payload")[0]; object.EncodeJSONText(got) != object.EncodeJSONText(want) {
						t.Errorf("notice %s", object.EncodeJSONText(got))
					}
				}
				p.messages(neither).is("id")
				p.get(gone).has(obj{"message_count": 0})
				h.restart()
			}
			// Dead is not deregistered.
			r = h.as("reviewer")
			r.post("/agents/reviewer/heartbeat", obj{}).refused(410, "agent_gone")
			r.patch("/agents/reviewer/status", obj{"status": "active"}).refused(409, "agent_deregistered")
			r.register(obj{}).ok(200).has(obj{"status": "active"})
			h.as("planner").patch(member, obj{"add_members": []string{"reviewer"}}).ok(200)
			r.patch("/agents/reviewer/status", obj{"status": "dead"}).ok(200)
			h.as("planner").get(member).has(obj{"members": []any{"planner", "reviewer"}})
		}
	})
}

func TestTaskChannelsCloseWithTheTask(t *testing.T) {
	for status, closes := range map[string]bool{"completed": true, "cancelled": true, "skipped": true, "failed": false, "running": false} {
		h := start(t)
		in, p := h.intent("planner"), h.as("planner")
		task := p.post("/tasks", obj{"intent_id": in, "name": "write"}).ok(201).id()
		ch := h.channel("planner", in, "talk", obj{"task_id": task})
		other := h.channel("planner", in, "other")
		request := p.request(ch, "reviewer")
		p.with("If-Match", "1").patch("/tasks/"+task, obj{"status": status}).ok(200).has(obj{"status": status, "version": 2})
		want := "open"
		if closes {
			want = "closed"
			p.post("/intents/"+in+"/channels", obj{"name": "late", "task_id": task}).refused(409, "task_over")
			p.get(ch + "/messages/" + request).has(obj{"status": "expired"})
			p.with("If-Match", "2").patch("/tasks/"+task, obj{"status": "running"}).refused(409, "task_over")
		}
		p.get(ch).has(obj{"status": want})
		p.get(other).has(obj{"status": "open"})
	}
}

func TestClosedChannelsStayForTheRetention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t)
		in, p := h.intent("planner"), h.as("planner")
		ch := h.channel("planner", in, "talk", obj{"options": obj{"audit": true}})
		id := p.say(ch, obj{})
		stop := h.run()
		p.patch(ch, obj{"status": "closed"}).ok(200)
		time.Sleep(retention - time.Second) // of the virtual clock
		synctest.Wait()
		p.messages(ch).is("id", id)
		stop()
		h.restart() // the time goes on while nobody serves
		stop = h.run()
		p = h.as("planner")
		p.messages(ch).is("id", id)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		p.get(ch).refused(404, "not_found")
		p.get("/intents/" + in + "/channels").is("id")
		p.get("/intents/"+in+"/events").is("event_type", "channel_message", "intent_created")
		stop()
	})
}

func TestIntents(t *testing.T) {
	h := start(t)
	p := h.as("planner")
	a := p.post("/intents", obj{"title": "work", "description": "all of it", "constraints": []string{"soon"}, "state": obj{"a": 1}, "created_by": "planner", "parent_intent_id": "x", "depends_on": []string{"y"}}).ok(201)
	a.has(obj{"version": 1, "status": "draft", "state": obj{"a": 1}, "constraints": obj{"rules": []any{"soon"}}, "parent_intent_id": "x", "parent_id": "x", "depends_on": []any{"y"}, "confidence": 0, "governance_policy": nil})
	in := "/intents/" + a.id()
	p.with("If-Match", "7").post(in+"/state", obj{"patches": []obj{}}).refused(409, "version_conflict").has(obj{"current_version": 1})
	set := func(version string, patches ...obj) *answer {
		return p.with("If-Match", version).post(in+"/state", obj{"patches": patches})
	}
	set(`"1"`, obj{"op": "set", "path": "b/c", "value": 2}, obj{"op": "remove", "path": "a"}).ok(200).has(obj{"version": 2, "state": obj{"b/c": 2}})
	set("2", obj{"op": "add", "path": "/x/y", "value": nil}, obj{"op": "set", "path": "/b~1c", "value": []int{}}).ok(200).has(obj{"state": obj{"b/c": []any{}, "x": obj{"y": nil}}})
	p.with("If-Match", "3").post(in+"/state", obj{"state": obj{"whole": true}}).ok(200).has(obj{"version": 4})
	set("4", obj{"op": "set", "path": "big", "value": strings.Repeat("x", object.MaxState)}).refused(413, "too_large")
	p.with("If-Match", "4").post(in+"/status", obj{"status": "draft"}).ok(200).has(obj{"version": 4})
	p.with("If-Match", "4").post(in+"/status", obj{"status": "completed", "reason": "finished"}).ok(200)
	set("5", obj{"op": "set", "path": "x", "value": 1}).refused(409, "intent_terminal")
	before := p.get(in).ok(200)
	second := h.intent("planner")
	h.restart()
	p = h.as("planner")
	if after := p.get(in).ok(200); string(after.raw) != string(before.raw) {
		t.Errorf("before %s, after %s", before.raw, after.raw)
	}
	list := p.get("/intents?limit=1").ok(200).at("intents").([]any)
	if len(list) != 1 || list[0].(obj)["id"] != second {
		t.Errorf("%v", list)
	}
	list = p.get("/intents?status=completed").ok(200).at("intents").([]any)
	if len(list) != 1 || list[0].(obj)["id"] != a.id() {
		t.Errorf("%v", list)
	}
}

func TestTasks(t *testing.T) {
	h := start(t)
	in, p := h.intent("planner"), h.as("planner")
	a := p.post("/tasks", obj{"intent_id": in, "name": "write", "input": obj{"a": 1}, "capabilities_required": []string{"go"}, "unknown": 1}).ok(201)
	a.has(obj{"status": "pending", "priority": "normal", "attempt": 1, "max_attempts": 3, "permissions": "inherit", "depends_on": []any{}, "output": nil, "metadata": obj{}, "input": obj{"a": 1}})
	p.with("If-Match", "9").patch("/tasks/"+a.id(), obj{"status": "running"}).refused(409, "version_conflict").has(obj{"current_version": 1})
	p.with("If-Match", "1").patch("/tasks/"+a.id(), obj{"id": "mine", "version": 99, "status": "running", "assigned_agent": "reviewer"}).ok(200).
		has(obj{"id": a.id(), "version": 2, "assigned_agent": "reviewer", "capabilities_required": []any{"go"}, "input": obj{"a": 1}})
	done := p.with("If-Match", "2").patch("/tasks/"+a.id(), obj{"status": "completed", "output": obj{"pages": 3}}).ok(200)
	h.restart()
	if again := h.as("planner").get("/tasks/" + a.id()).ok(200); string(again.raw) != string(done.raw) {
		t.Errorf("before %s, after %s", done.raw, again.raw)
	}
	p = h.as("planner")
	p.get("/intents/"+in+"/tasks").is("id", a.id())
	p.get("/intents/" + in + "/tasks?status=pending").is("id")
	p.get("/intents/"+in+"/events").is("event_type", "task.completed", "task.started", "task.created", "intent_created")
}

func TestAgents(t *testing.T) {
	h := start(t)
	r := h.as("reviewer")
	r.register(obj{"role_id": "tester", "name": "R", "metadata": obj{"a": 1}, "capabilities": []string{"go"}}).ok(201).
		has(obj{"status": "active", "version": 1, "role_id": "tester", "capacity": obj{"max_concurrent_tasks": 5, "current_load": 0}})
	r.register(obj{"role_id": "tester"}).ok(200).has(obj{"version": 2, "name": nil, "capabilities": []any{}, "metadata": obj{}})
	h.as("desk").post("/agents", obj{"agent_id": "reviewer"}).refused(409, "agent_taken")
	h.as("desk").post("/agents", obj{"agent_id": "helper", "role_id": "welder"}).ok(201)
	h.as("helper").post("/agents", obj{"agent_id": "helper"}).ok(200) // an agent is always its own
	r.get("/agents").is("agent_id", "helper", "reviewer")
	r.get("/agents?role_id=tester").is("agent_id", "reviewer")
	r.get("/agents?status=dead").is("agent_id")
	before := r.get("/agents/reviewer/record").ok(200)
	delete(before.body.(obj), "last_heartbeat_at") // this request counts as one
	r.get("/agents/reviewer").ok(200).has(before.body.(obj))
	r.post("/agents/reviewer/heartbeat", obj{"status": "active", "current_load": 0}).ok(200)
	h.restart()
	h.as("desk").get("/agents/reviewer").ok(200).has(before.body.(obj))
}

// A list of intents leaves out the one whose write is under way.
func TestIntentsAreListedWhileOneIsMade(t *testing.T) {
	var during func()
	h := start(t, func(c *Config) {
		c.Inside = func(run func() error) error {
			err := run()
			if during != nil {
				during()
			}
			return err
		}
	})
	in := h.intent("planner")
	var list *answer
	during = func() { list = h.as("planner").get("/intents") }
	h.intent("planner")
	during = nil
	if ids := list.ok(200).at("intents").([]any); len(ids) != 1 || ids[0].(obj)["id"] != in {
		t.Errorf("while one is made there are %v", ids)
	}
	if n := len(h.as("planner").get("/intents").ok(200).at("intents").([]any)); n != 2 {
		t.Errorf("then there are %d", n)
	}
}

// A coordinator that makes room for another while it reports its life is told so.
func TestACoordinatorThatIsGoneIsToldSo(t *testing.T) {
	gone := ""
	h := start(t)
	h.cfg.Inside = func(run func() error) error {
		delete(h.e.coords, gone)
		return run()
	}
	h.restart()
	in := h.intent("planner")
	h.as("planner").get("/intents/" + in).ok(200)
	lead := h.as("planner").post("/coordinators", obj{"intent_id": in, "agent_id": "planner"}).ok(201).id()
	gone = lead
	h.as("planner").post("/coordinators/"+lead+"/heartbeat", nil).refused(404, "not_found")
}
