package openintent

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestRolesAreResolvedWhenSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _, ch := team(t)
		p := h.as("planner")
		for _, a := range []string{"one", "two"} {
			h.as(a).register(obj{"role_id": "tester"}).ok(201)
		}
		h.as("other").register(obj{"role_id": "builder"}).ok(201)
		id := p.request(ch, "role:tester")
		for _, a := range []string{"one", "two"} {
			h.as(a).messages(ch).is("id", id)
		}
		h.as("other").messages(ch).is("id")
		h.as("other").respond(ch, id).refused(404, "not_found")
		// Who comes later does not see it, nor who takes the role later.
		p.say(ch, obj{"to": "role:welder"})
		h.as("late").register(obj{"role_id": "welder"}).ok(201)
		h.as("late").messages(ch).is("id")
		h.as("other").register(obj{"role_id": "tester"}).ok(200)
		h.as("other").messages(ch).is("id")
		h.as("other").respond(ch, id).refused(404, "not_found")
		h.as("other").register(obj{"role_id": "builder"}).ok(200)
		h.as("late").do("PATCH", "/agents/late/status", obj{"status": "draining"}).ok(200)
		late := p.say(ch, obj{"to": "role:welder"})
		h.as("late").messages(ch).is("id", late)
		h.as("late").do("DELETE", "/agents/late", nil).ok(200)
		p.say(ch, obj{"to": "role:welder"})
		h.as("late").messages(ch).is("id", late)
		// Who held the role when it was sent keeps it.
		h.as("one").register(obj{"role_id": "builder"}).ok(200)
		h.as("one").messages(ch).is("id", id)
		h.as("one").patch(ch+"/messages/"+id, obj{"status": "read"}).ok(200)
		// The dead hold no role: two is silent for five minutes.
		time.Sleep(299 * time.Second)
		h.as("one").get("/agents/two").has(obj{"status": "unhealthy"})
		welding := p.say(ch, obj{"to": "role:tester"})
		time.Sleep(2 * time.Second)
		h.as("one").get("/agents/two").has(obj{"status": "dead"})
		again := p.say(ch, obj{"to": "role:tester"})
		h.restart()
		h.as("").get(ch + "/messages/" + again).ok(200)
		h.as("").get(ch + "/messages/" + again).ok(200)
		h.as("two").messages(ch).is("id", id, welding)
	})
}

func TestBroadcastsReachTheMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t)
		in, p := h.intent("planner"), h.as("planner")
		ch := h.channel("planner", in, "talk", obj{"member_policy": "explicit", "members": []string{"planner", "reviewer"}})
		mine, theirs := h.follow(p, "/subscribe"+ch), h.follow(h.as("reviewer"), "/subscribe/intents/"+in)
		desk := h.follow(h.as("desk"), "/subscribe/intents/"+in)
		id := p.say(ch, obj{"message_type": "broadcast"})
		if got := theirs.next(); got.data["id"] != id {
			t.Errorf("pushed %+v", got)
		}
		p.messages(ch).is("id", id) // the sender lists it
		synctest.Wait()
		if mine.pending()+desk.pending() > 0 {
			t.Error("pushed to its sender, or to who is no member")
		}
		mine.stop()
		theirs.stop()
		desk.stop()
	})
}

func TestAccessExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t)
		in := h.closedIntent("planner")
		ch := h.channel("planner", in, "talk")
		h.as("planner").post("/intents/"+in+"/acl/entries", obj{"principal_id": "reviewer", "permission": "write", "expires_at": time.Now().Add(time.Minute).UTC().Format(time.RFC3339)}).ok(201)
		s := h.follow(h.as("reviewer"), "/subscribe"+ch)
		h.as("planner").say(ch, obj{})
		s.next()
		time.Sleep(time.Minute)
		h.as("reviewer").messages(ch).refused(404, "not_found")
		h.as("planner").say(ch, obj{})
		synctest.Wait()
		if s.pending() > 0 {
			t.Error("pushed to who has no access any more")
		}
		s.stop()
	})
}

func TestCoordinatorsManage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t)
		in, p := h.intent("planner"), h.as("planner")
		ch := h.channel("builder", in, "talk", obj{"member_policy": "explicit", "members": []string{"builder"}})
		l := h.as("leader")
		l.patch(ch, obj{"add_members": []string{"desk"}}).refused(403, "not_manager")
		l.post("/coordinators", obj{"agent_id": "leader", "intent_id": in}).refused(403, "no_permission")
		co := p.post("/coordinators", obj{"agent_id": "leader", "intent_id": in, "heartbeat_interval_seconds": 10}).ok(201)
		l.patch(ch, obj{"add_members": []string{"desk"}}).ok(200)
		time.Sleep(29 * time.Second)
		l.post("/coordinators/"+co.id()+"/heartbeat", nil).ok(200)
		p.post("/coordinators/"+co.id()+"/heartbeat", nil).refused(403, "not_yours")
		h.restart()
		time.Sleep(29 * time.Second)
		l, p = h.as("leader"), h.as("planner")
		l.patch(ch, obj{"add_members": []string{"lamp"}}).ok(200)
		p.get("/intents/"+in+"/coordinators").is("status", "active")
		time.Sleep(time.Second)
		l.patch(ch, obj{"add_members": []string{"lamp"}}).refused(403, "not_manager")
		l.post("/coordinators/"+co.id()+"/heartbeat", nil).refused(410, "coordinator_gone")
		// An assignment with that role does as well, and needs an admin.
		h.as("desk").post("/intents/"+in+"/agents", obj{"agent_id": "desk", "role": "coordinator"}).refused(403, "no_permission")
		p.post("/intents/"+in+"/agents", obj{"agent_id": "leader", "role": "coordinator"}).ok(201)
		l.patch(ch, obj{"remove_members": []string{"lamp"}}).ok(200)
		l.do("DELETE", ch, nil).ok(200)
	})
}

// bare is a caller that sends these headers and no others.
func (h *host) bare(handler http.Handler, headers ...string) *client {
	c := &client{host: h, handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header = http.Header{}
		for pair := range slices.Chunk(headers, 2) {
			r.Header.Set(pair[0], pair[1])
		}
		handler.ServeHTTP(w, r)
	}), header: http.Header{}}
	return c
}

const desk, laptop = "de5c000000" + idRest, "1a97090000" + idRest

// Of the daemons in open_to the first that uses an id on an intent has it there.
func TestHomes(t *testing.T) {
	h := start(t, toOthers)
	in := h.intent("planner")
	ch := h.channel("planner", in, "talk")
	far := h.from(desk, "reviewer")
	far.send(ch, obj{}).ok(201)
	for range 2 {
		h.from(laptop, "reviewer").send(ch, obj{}).refused(409, "agent_homed_elsewhere")
		h.from(laptop, "reviewer").get(ch).refused(409, "agent_homed_elsewhere")
		h.from(desk, "planner").get(ch).refused(409, "agent_homed_elsewhere") // planner is at home here
		h.restart()
	}
	p := h.as("planner")
	p.get("/intents/"+in+"/homes").is("agent_id", "planner", "reviewer").is("home", "", desk)
	events := p.get("/intents/" + in + "/events?event_type=access_granted").ok(200)
	if payload := events.list("payload"); len(payload) != 1 || payload[0].(obj)["home"] != desk {
		t.Errorf("events %s", events.raw)
	}
	// Freed, it goes to the next who claims it, and reading is enough.
	p.do("DELETE", "/intents/"+in+"/homes/reviewer", nil).ok(204)
	h.from(laptop, "reviewer").get(ch).ok(200)
	h.from(desk, "reviewer").get(ch).refused(409, "agent_homed_elsewhere")
	h.from(laptop, "reviewer").do("DELETE", "/intents/"+in+"/homes/planner", nil).refused(403, "no_permission")
	// So it is here, and a request that is refused claims nothing, wherever it comes from.
	h.from(desk, "lathe").send(ch, obj{"message_type": "response", "correlation_id": "msg_1"}).refused(422, "invalid")
	h.as("lathe").messages(ch).ok(200)
	h.from(desk, "lathe").messages(ch).refused(409, "agent_homed_elsewhere")
	h.as("drill").send(ch, obj{"message_type": "response", "correlation_id": "msg_1"}).refused(422, "invalid")
	h.from(desk, "drill").messages(ch).ok(200)
	// An id that is registered here, or named with the home of such a daemon, cannot be claimed.
	h.as("lamp").register(obj{}).ok(201)
	h.from(desk, "lamp").get(ch).refused(409, "agent_homed_elsewhere")
	p.post("/intents/"+in+"/agents", obj{"agent_id": "worker", "home": desk}).ok(201)
	h.from(laptop, "worker").get(ch).refused(409, "agent_homed_elsewhere")
	h.from(desk, "worker").get(ch).ok(200)
	// Nobody is bound by being refused.
	closed := h.closedIntent("planner")
	h.from(desk, "stranger").get("/intents/"+closed).refused(404, "not_found")
	p.get("/intents/"+closed+"/homes").is("agent_id", "planner")
	h.from(desk, "stranger").post("/intents", obj{"title": "t"}).refused(403, "not_here")
}

// Records of agents elsewhere are kept apart, and their roles count where an entry says so.
func TestAgentsElsewhere(t *testing.T) {
	h := start(t, toOthers)
	in := h.intent("planner")
	ch := h.channel("planner", in, "talk")
	far := h.from(desk, "reviewer")
	far.register(obj{"role_id": "tester"}).ok(201).has(obj{"host": desk})
	h.as("reviewer").register(obj{"role_id": "cook"}).ok(201)
	h.as("planner").get("/agents").is("agent_id", "reviewer", "reviewer").is("host", nil, desk)
	// The id is taken here, so desk's cannot use it; another can.
	far.get(ch).refused(409, "agent_homed_elsewhere")
	other := h.from(desk, "welder")
	other.register(obj{"role_id": "tester"}).ok(201)
	other.get(ch).ok(200)
	h.as("planner").say(ch, obj{"to": "role:tester"})
	other.messages(ch).is("id")
	h.as("planner").post("/intents/"+in+"/acl/entries", obj{"principal_id": "tester", "principal_type": "role", "home": desk}).ok(201)
	id := h.as("planner").say(ch, obj{"to": "role:tester"})
	other.messages(ch).is("id", id)
	pending := h.as("planner").request(ch, "welder")
	other.do("DELETE", "/agents/welder", nil).ok(200)
	h.as("planner").get(ch + "/messages/" + pending).has(obj{"status": "expired"})
}

// A home sends what it has accepted while the host was away, once, with its id.
func TestPendingMessages(t *testing.T) {
	const home = farID + idRest
	h, _, ch := team(t, toOthers)
	away := start(t, func(c *Config) { c.Self = home })
	id := away.e.newMessageID(now(), 0)
	far := h.from(home, "reviewer").with(headerID, id)
	body := obj{"message_type": "request", "to": "planner"}
	first := far.send(ch, body).ok(201).has(obj{"id": id, "status": "delivered"})
	last := h.as("planner").say(ch, obj{})
	for range 2 {
		far = h.from(home, "reviewer").with(headerID, id)
		if again := far.send(ch, body).ok(201); string(again.raw) != string(first.raw) {
			t.Errorf("first %s, then %s", first.raw, again.raw)
		}
		p := h.as("planner")
		p.messages(ch).is("id", id, last)
		p.get(ch+"/messages?since="+id).is("id", last)
		p.get(ch + "/messages/" + id).ok(200)
		h.restart()
	}
	h.as("planner").patch(ch+"/messages/"+id, obj{"status": "read"}).ok(200)
	h.as("planner").respond(ch, id).ok(201).has(obj{"correlation_id": id})
	h.as("planner").respond(ch, id).ok(201)
	for _, bad := range []string{"msg_1", last, h.e.newMessageID(now(), 0), strings.Replace(id, "msg_", "chan_", 1)} {
		far.with(headerID, bad).send(ch, body).refused(400, "bad_id")
	}
	// An id is taken for good, also where the key is forgotten, or was another.
	far = h.from(home, "reviewer").with(headerID, id).with(headerKey, "other")
	far.send(ch, body).ok(201).has(obj{"id": id, "correlation_id": nil})
	h.from(home, "welder").with(headerID, id).send(ch, body).refused(409, "id_taken")
	second := "/channels/" + h.as("planner").post("/intents/"+h.as("planner").get(ch).str("intent_id")+"/channels", obj{"name": "second"}).ok(201).id()
	far.with(headerKey, "third").send(second, body).refused(409, "id_taken")
	// An ask takes no id, and is made anew.
	asked := away.e.newMessageID(now(), 0)
	for range 2 {
		h.from(home, "reviewer").with(headerID, asked).post(ch+"/ask", obj{"to": "planner", "timeout": 0.001}).refused(504, "ask_timeout")
	}
	// Who is at home here chooses nothing.
	if got := h.as("planner").with(headerID, id).say(ch, obj{}); got == id {
		t.Error("a local agent has chosen an id")
	}
}

// A request about another host's intent is passed on.
func TestForward(t *testing.T) {
	var asked []string
	h := start(t)
	h.forward = func(p ForwardedRequest, w http.ResponseWriter, r *http.Request) {
		asked = append(asked, p.Host+" "+p.Caller.Agent+" "+r.Method+" "+r.URL.Path+" "+read(t, r.Body))
		io.WriteString(w, "{}")
	}
	h.h = h.handler(front.local)
	far := strings.Replace(h.intent("planner"), hostID, "fedcba9876", 1)
	p := h.as("planner")
	p.get("/intents/" + far).ok(200)
	p.post("/tasks", obj{"intent_id": far, "name": "n"}).ok(200)
	p.post("/channels/talk/messages", obj{"intent_id": far}).ok(200)
	want := []string{"fedcba9876 planner GET /api/v1/intents/" + far + " ", `fedcba9876 planner POST /api/v1/tasks {"intent_id":"` + far + `","name":"n"}`,
		`fedcba9876 planner POST /api/v1/channels/talk/messages {"intent_id":"` + far + `","payload":{}}`}
	if !slices.Equal(asked, want) {
		t.Errorf("asked %q, want %q", asked, want)
	}
	h.from(desk, "reviewer").get("/intents/"+far).refused(404, "not_found") // and no further
	alone := start(t)
	alone.as("planner").get("/intents/"+far).refused(404, "not_found")
}

// What the agents here remove has the reserve while it is removed here, and not while
// another host does so. Other daemons do not use it up.
func TestFreeing(t *testing.T) {
	freeing, calls := false, 0
	h := start(t, toOthers, func(c *Config) {
		c.Freeing = func(remove func() error) error {
			freeing = true
			defer func() { freeing = false }()
			calls++
			return remove()
		}
	})
	h.forward = func(_ ForwardedRequest, w http.ResponseWriter, r *http.Request) {
		if freeing {
			t.Errorf("%s %s has the reserve while another host is asked", r.Method, r.URL.Path)
		}
		io.WriteString(w, "{}")
	}
	h.h = h.handler(front.local)
	in := h.intent("planner")
	p := h.as("planner")
	p.do("DELETE", "/intents/"+strings.Replace(in, hostID, "fedcba9876", 1)+"/agents/worker", nil).ok(200)
	far := h.from(desk, "reviewer")
	for _, who := range []*client{p, far} {
		who.register(obj{}).ok(201)
	}
	ch := h.channel("planner", in, "talk")
	if calls != 0 {
		t.Fatalf("%d requests had the reserve and removed nothing here", calls)
	}
	p.do("DELETE", ch, nil).ok(200)
	p.do("DELETE", "/agents/planner", nil).ok(200)
	far.do("DELETE", "/agents/reviewer", nil).ok(200)
	far.do("DELETE", ch, nil).refused(404, "not_found")
	if calls != 2 {
		t.Errorf("%d of 2 removals had the reserve", calls)
	}
}
