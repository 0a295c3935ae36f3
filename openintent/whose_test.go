package openintent

import (
	"slices"
	"testing"

	"github.com/acpd/acpd/openintent/object"
)

// at is the name of an agent of another daemon.
func at(home, id string) string { return id + "@" + home }

// openTo opens the daemon's open intents to others.
func openTo(homes ...string) func(*Config) {
	return func(c *Config) { c.OpenTo = func(home string) bool { return slices.Contains(homes, home) } }
}

func (h *host) grant(in string, entry obj) *answer {
	h.t.Helper()
	return h.as("planner").post("/intents/"+in+"/acl/entries", entry)
}

// intents returns the ids of the intents that the client lists.
func (c *client) intents() (ids []string) {
	c.t.Helper()
	for _, in := range c.get("/intents").ok(200).at("intents").([]any) {
		ids = append(ids, in.(obj)["id"].(string))
	}
	return ids
}

// Grants without a home are for agents here: another daemon that says their names
// gets nothing, and keeps nobody from anything.
// holds: security.md#in-channels
func TestGrantsAreForAgentsHere(t *testing.T) {
	for name, change := range map[string]func(*Config){"trusted": openTo(), "open_to": toOthers} {
		t.Run(name, func(t *testing.T) {
			h := start(t, change)
			in := h.closedIntent("planner", "reviewer")
			p, r, thief := h.as("planner"), h.as("reviewer"), h.from(desk, "reviewer")
			ch := h.channel("planner", in, "talk", obj{"member_policy": "explicit", "members": []string{"planner", "reviewer"}})
			waiting := p.request(ch, "reviewer")
			h.as("leader").post("/coordinators", obj{"intent_id": in}).refused(404, "not_found")
			p.post("/coordinators", obj{"agent_id": "leader", "intent_id": in}).ok(201)
			p.post("/intents/"+in+"/agents", obj{"agent_id": "worker"}).ok(201)
			for _, id := range []string{"reviewer", "planner", "leader", "worker", at(desk, "reviewer"), at(hostID+idRest, "reviewer")} {
				c := h.from(desk, id)
				if got := c.intents(); got != nil {
					t.Errorf("%s lists %v", id, got)
				}
				for _, a := range []*answer{c.get("/intents/" + in), c.get(ch), c.messages(ch), c.get(ch + "/messages/" + waiting), c.send(ch, obj{}), c.respond(ch, waiting),
					c.patch(ch, obj{"status": "closed"}), c.do("DELETE", ch, nil), c.do("PUT", "/intents/"+in+"/acl", obj{"default_policy": "open"}), c.get("/intents/" + in + "/events"),
					c.get("/subscribe" + ch), c.post("/tasks", obj{"intent_id": in, "name": "n"}), c.do("DELETE", "/intents/"+in+"/agents/worker", nil)} {
					a.refused(404, "not_found")
				}
			}
			// The real one has lost nothing.
			r.get("/intents/" + in).ok(200)
			r.messages(ch).is("id", waiting)
			r.respond(ch, waiting).ok(201).has(obj{"sender": "reviewer", "to": "planner"})
			p.get("/intents/"+in+"/homes").is("agent_id", "planner", "reviewer").is("home", "", "")
			// An entry with its home lets the other in, as somebody else.
			h.grant(in, obj{"principal_id": "reviewer", "home": desk, "permission": "read"}).ok(201).has(obj{"principal_id": "reviewer", "home": desk})
			thief.get("/intents/" + in).ok(200)
			thief.messages(ch).refused(403, "not_member")
			thief.post("/intents/"+in+"/channels", obj{"name": "mine"}).refused(403, "no_permission")
			h.from(laptop, "reviewer").get("/intents/"+in).refused(404, "not_found")
			p.patch(ch, obj{"add_members": []string{at(desk, "reviewer")}}).ok(200).has(obj{"members": []string{"planner", "reviewer", at(desk, "reviewer")}})
			thief.messages(ch).is("id")
			id := thief.say(ch, obj{})
			r.messages(ch).is("sender", "planner", "reviewer", at(desk, "reviewer"))
			thief.get(ch + "/messages/" + id).has(obj{"sender": "reviewer"})
			r.get(ch + "/messages/" + id).has(obj{"sender": at(desk, "reviewer")})
			r.patch(ch+"/messages/"+id, obj{"status": "read"}).ok(200)
		})
	}
}

// What a channel's creator and a coordinator may do is for the one at that home alone.
// holds: security.md#in-channels
func TestManagersAreAtTheirHome(t *testing.T) {
	h := start(t, openTo(desk))
	in := h.intent("planner")
	far := h.from(desk, "builder")
	ch := h.channel("planner", in, "talk")
	mine := "/channels/" + far.post("/intents/"+in+"/channels", obj{"name": "mine", "member_policy": "explicit"}).ok(201).has(obj{"created_by": "builder", "home": desk, "members": []string{at(desk, "builder")}}).id()
	far.say(mine, obj{})
	h.as("builder").patch(mine, obj{"status": "closed"}).refused(403, "not_manager")
	h.as("builder").messages(mine).refused(403, "not_member")
	far.patch(mine, obj{"status": "closed"}).refused(409, "agent_homed_elsewhere") // the id is in use here by now
	h.as("planner").do("DELETE", "/intents/"+in+"/homes/builder", nil).ok(204)
	far.patch(mine, obj{"status": "closed"}).ok(200)
	co := h.as("planner").post("/coordinators", obj{"agent_id": "leader", "home": desk, "intent_id": in}).ok(201).has(obj{"agent_id": "leader", "home": desk}).id()
	h.as("leader").patch(ch, obj{"options": obj{"a": 1}}).refused(403, "not_manager")
	h.as("leader").post("/coordinators/"+co+"/heartbeat", nil).refused(403, "not_yours")
	h.as("planner").post("/intents/"+in+"/agents", obj{"agent_id": at(desk, "leader"), "role": "coordinator"}).ok(201).has(obj{"agent_id": "leader", "home": desk})
	h.from(desk, "leader").patch(ch, obj{"options": obj{"a": 1}}).ok(200)
	h.from(desk, "leader").post("/coordinators/"+co+"/heartbeat", nil).ok(200)
	h.restart()
	h.from(desk, "leader").do("DELETE", ch, nil).ok(200)
}

// A role that another daemon says its agents have counts where an entry gives it to
// that daemon, and nowhere else.
// holds: security.md#in-channels
func TestRolesOfOthersAreGranted(t *testing.T) {
	h := start(t, openTo(desk))
	in := h.closedIntent("planner")
	p, guest := h.as("planner"), h.from(laptop, "guest")
	ch := h.channel("planner", in, "talk")
	h.grant(in, obj{"principal_id": "guest", "home": laptop, "permission": "read"}).ok(201)
	h.grant(in, obj{"principal_id": "leads", "principal_type": "role", "permission": "admin"}).ok(201)
	guest.get("/intents/" + in).ok(200)
	early := p.say(ch, obj{"to": "role:leads"})
	declare := func(role string) {
		t.Helper()
		guest.with("X-Agent-Record", object.EncodeJSONText(obj{"status": "active", "role_id": role})).get("/intents/" + in).ok(200)
	}
	declare("leads")
	guest.do("PUT", "/intents/"+in+"/acl", obj{"default_policy": "open"}).refused(403, "no_permission")
	later := p.say(ch, obj{"to": "role:leads"})
	guest.messages(ch).is("id")
	guest.get(ch+"/messages/"+early).refused(404, "not_found")
	// Of this daemon's agents it counts; of the laptop's with an entry that says so.
	h.as("lead").register(obj{"role_id": "leads"}).ok(201)
	h.as("lead").get("/intents/" + in + "/acl").ok(200)
	h.as("lead").messages(ch).is("id") // what was sent before is not for it
	h.grant(in, obj{"principal_id": "leads", "principal_type": "role", "home": laptop, "permission": "write"}).ok(201).has(obj{"home": laptop})
	guest.post("/intents/"+in+"/channels", obj{"name": "mine"}).ok(201)
	guest.do("PUT", "/intents/"+in+"/acl", obj{"default_policy": "open"}).refused(403, "no_permission")
	both := p.say(ch, obj{"to": "role:leads"})
	guest.messages(ch).is("id", both)
	h.as("lead").messages(ch).is("id", both)
	declare("tester")
	guest.post("/intents/"+in+"/channels", obj{"name": "again"}).refused(403, "no_permission")
	guest.messages(ch).is("id", both) // fixed when it was sent
	h.restart()
	h.from(laptop, "guest").messages(ch).is("id", both)
	h.as("planner").get(ch + "/messages/" + later).ok(200)
	// A daemon in open_to may say what it likes, too.
	open := h.intent("planner")
	talk := h.channel("planner", open, "talk")
	h.from(desk, "welder").register(obj{"role_id": "leads"}).ok(201)
	h.from(desk, "welder").get(talk).ok(200)
	h.as("planner").say(talk, obj{"to": "role:leads"})
	h.from(desk, "welder").messages(talk).is("id")
}

// To trust a daemon opens nothing to its agents, and shows them nobody.
// holds: security.md#in-channels
func TestOpenIntentsAreOpenHere(t *testing.T) {
	h := start(t, openTo(desk))
	h.as("lamp").register(obj{"endpoint": "http://lamp.example"}).ok(201)
	h.from(desk, "welder").register(obj{}).ok(201)
	in := h.intent("planner")
	ch := h.channel("planner", in, "talk")
	far, let := h.from(laptop, "stranger"), h.from(desk, "stranger")
	if got := far.intents(); got != nil {
		t.Errorf("it lists %v", got)
	}
	for _, a := range []*answer{far.get("/intents/" + in), far.messages(ch), far.send(ch, obj{}), far.get("/subscribe/intents/" + in), far.get("/agents/lamp"), far.get("/agents/welder"),
		far.get("/agents/" + at(desk, "welder"))} {
		a.refused(404, "not_found")
	}
	far.get("/agents").is("agent_id")
	if got := let.intents(); !slices.Equal(got, []string{in}) {
		t.Errorf("a daemon in open_to lists %v", got)
	}
	let.send(ch, obj{}).ok(201)
	let.get("/agents/lamp").ok(200)
	h.from(laptop, "other").register(obj{}).ok(201)
	let.get("/agents/other").refused(404, "not_found") // of other homes it hears nothing
	let.get("/agents").is("agent_id", "lamp")
	h.as("planner").get("/agents/other").has(obj{"host": laptop})
	h.as("planner").get("/agents/" + at(laptop, "other")).has(obj{"host": laptop})
	// An entry or an assignment with its home lets an agent in, whatever daemon it is of.
	h.grant(in, obj{"principal_id": at(laptop, "stranger"), "permission": "write"}).ok(201).has(obj{"principal_id": "stranger", "home": laptop})
	far.send(ch, obj{}).ok(201)
	h.as("planner").post("/intents/"+in+"/agents", obj{"agent_id": "worker", "home": laptop}).ok(201)
	h.from(laptop, "worker").send(ch, obj{}).ok(201)
	h.from(laptop, "guest").send(ch, obj{}).refused(404, "not_found")
	h.as("planner").messages(ch).is("sender", at(desk, "stranger"), at(laptop, "stranger"), at(laptop, "worker"))
}

// Under open_to an id is for one that nobody here has, of the first of such daemons.
// holds: security.md#in-channels
func TestOpenToIDs(t *testing.T) {
	h := start(t, openTo(desk, laptop))
	in, other := h.intent("planner"), h.intent("planner")
	ch, elsewhere := h.channel("planner", in, "talk"), h.channel("planner", other, "talk")
	// Used here on this intent, by reading; on another it is free.
	h.as("reader").messages(ch).ok(200)
	h.from(desk, "reader").get(ch).refused(409, "agent_homed_elsewhere")
	h.from(desk, "reader").get(elsewhere).ok(200)
	// Named here by each kind of grant, and free again when that is taken back.
	p := h.as("planner")
	free := map[string]func(){}
	entry := h.grant(in, obj{"principal_id": "a"}).ok(201).id()
	free["a"] = func() { p.do("DELETE", "/intents/"+in+"/acl/entries/"+entry, nil).ok(204) }
	p.post("/intents/"+in+"/agents", obj{"agent_id": "b"}).ok(201)
	free["b"] = func() { p.do("DELETE", "/intents/"+in+"/agents/b", nil).ok(204) }
	private := h.channel("planner", in, "private", obj{"members": []string{"planner", "c", "d"}})
	free["c"] = func() { p.patch(private, obj{"remove_members": []string{"c"}}).ok(200) }
	free["d"] = func() { p.do("DELETE", private, nil).ok(200) }
	p.post("/coordinators", obj{"agent_id": "e", "intent_id": in}).ok(201)
	for range 2 {
		for _, id := range []string{"a", "b", "c", "d", "e"} {
			h.from(desk, id).get(ch).refused(409, "agent_homed_elsewhere")
			h.from(desk, id).get(elsewhere).ok(200)
		}
		h.restart()
		p = h.as("planner")
	}
	for _, id := range []string{"a", "b", "c", "d"} {
		free[id]()
		h.from(desk, id).get(ch).ok(200)
	}
	// A role of that name is nobody's id, and registered here is everywhere.
	h.grant(in, obj{"principal_id": "f", "principal_type": "role"}).ok(201)
	h.from(desk, "f").get(ch).ok(200)
	h.as("g").register(obj{}).ok(201)
	h.from(desk, "g").get(elsewhere).refused(409, "agent_homed_elsewhere")
	// Between such daemons the first has it; homes that are named are kept apart.
	h.from(desk, "x").get(ch).ok(200)
	h.from(laptop, "x").get(ch).refused(409, "agent_homed_elsewhere")
	h.grant(in, obj{"principal_id": "x", "home": laptop}).ok(201)
	h.from(laptop, "x").get(ch).ok(200)
	h.from(desk, "x").get(ch).ok(200)
	h.grant(in, obj{"principal_id": "y", "home": laptop}).ok(201)
	h.from(desk, "y").get(ch).refused(409, "agent_homed_elsewhere")
	// Who is here is never kept out, and then the id is its own.
	h.as("x").messages(ch).ok(200)
	h.from(desk, "x").get(ch).refused(409, "agent_homed_elsewhere")
	h.from(laptop, "x").get(ch).ok(200)
}

// Homes are asked about members, about agents that are asked something and about those that have a
// role. Who is deregistered leaves, whether it has ever come or not, and is not asked about again.
func TestAwaitedAgentsDepart(t *testing.T) {
	h := start(t, openTo(desk))
	in := h.intent("planner")
	p := h.as("planner")
	ch := h.channel("planner", in, "talk", obj{"members": []string{"planner", at(desk, "worker"), at(laptop, "worker")}})
	all := h.channel("planner", in, "all")
	p.post("/intents/"+in+"/agents", obj{"agent_id": "worker", "home": desk}).ok(201)
	p.post("/intents/"+in+"/agents", obj{"agent_id": "welder", "home": desk}).ok(201)
	asked, also := p.request(ch, at(desk, "worker")), p.request(all, at(desk, "welder"))
	h.learned(desk, "smith", obj{"status": "active", "role_id": "smiths"})
	h.learned(desk, "idle", obj{"status": "active"}) // nothing depends on it
	awaited := func(want ...string) {
		t.Helper()
		if got := slices.Sorted(slices.Values(h.e.ListAwaitedAgents()[desk])); !slices.Equal(got, want) {
			t.Errorf("%v are asked about, not %v", got, want)
		}
	}
	for range 2 {
		awaited("smith", "welder", "worker")
		if got := h.e.ListAwaitedAgents()[laptop]; !slices.Equal(got, []string{"worker"}) {
			t.Errorf("%v are asked about", got)
		}
		h.restart()
	}
	role := "smiths"
	said := object.AgentStates{Agents: map[string]object.AgentState{"worker": {Status: "deregistered"}, "welder": {Status: "deregistered"}, "smith": {Status: "dead", RoleID: &role}, "idle": {Status: "deregistered"}, "odd": {Status: "odd"}}}
	if err := h.e.StoreAgentStates(t.Context(), desk, []string{"worker", "welder", "smith", "nobody"}, said); err != nil {
		t.Fatal(err)
	}
	p = h.as("planner")
	p.get(ch).has(obj{"members": []string{"planner", at(laptop, "worker")}})
	p.get(ch + "/messages/" + asked).has(obj{"status": "expired"})
	p.get(all + "/messages/" + also).has(obj{"status": "expired"})
	if notice := p.get(ch + "/messages?types=notify").list("payload"); len(notice) != 1 || object.EncodeJSONText(notice[0]) != object.EncodeJSONText(obj{"event": "agent_departed", "agent_id": "worker", "role_id": nil, "reason": "deregistered", "home": desk}) {
		t.Errorf("notices %s", object.EncodeJSONText(notice))
	}
	awaited("smith")
	h.as("").get("/agents/" + at(desk, "smith")).ok(200).has(obj{"status": "dead"})
	h.as("").get("/agents/" + at(desk, "idle")).ok(200).has(obj{"status": "active"}) // nobody asked
	if err := h.e.StoreAgentStates(t.Context(), desk, []string{"odd"}, said); err == nil {
		t.Error("an odd status is stored")
	}
	// One that has come leaves like the others.
	h.learned(laptop, "worker", obj{"status": "active"})
	h.learned(laptop, "worker", obj{"status": "deregistered"})
	p.get(ch).has(obj{"members": []string{"planner"}})
}

// A home tells of the agents that it is asked about, and of no others.
func TestStatesOfNamedAgents(t *testing.T) {
	h := start(t)
	for _, id := range []string{"here", "gone"} {
		h.as(id).register(obj{"role_id": "tester"}).ok(201)
	}
	h.as("gone").do("DELETE", "/agents/gone", nil).ok(200)
	h.from(desk, object.Daemon).post("/departed", obj{"agents": []string{"here", "gone", "never"}}).ok(200).has(obj{"agents": obj{"here": obj{"status": "active", "role_id": "tester"}, "gone": obj{"status": "deregistered", "role_id": "tester"}}})
	h.from(desk, object.Daemon).post("/departed", obj{"agents": longMembers(object.MaxEntries + 1)}).refused(422, "invalid")
	h.as("planner").post("/departed", obj{"agents": []string{}}).refused(403, "not_an_agent")
	h.from(desk, "worker").post("/departed", obj{"agents": []string{}}).refused(403, "not_an_agent")
}
