package openintent

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/acpd/acpd/integration/statedb"
	"github.com/acpd/acpd/openintent/object"
)

func TestNameIsUniqueAmongOpenChannels(t *testing.T) {
	h := start(t)
	in, p := h.intent("planner"), h.as("planner")
	ch := h.channel("planner", in, "release") // the SDK takes "lease" in a 409 for something else
	p.post("/intents/"+in+"/channels", obj{"name": "release"}).refused(409, "channel_name_conflict").has(obj{"channel_id": strings.TrimPrefix(ch, "/channels/")})
	h.channel("planner", h.intent("planner"), "release")
	p.patch(ch, obj{"status": "closed"}).ok(200)
	h.channel("planner", in, "release")
	p.post("/intents/"+in+"/channels", obj{"name": ""}).refused(422, "invalid")
	p.post("/intents/"+in+"/channels", obj{"name": strings.Repeat("n", 129)}).refused(422, "invalid")
	p.post("/intents/"+in+"/channels", obj{"name": strings.Repeat("n", 128)}).ok(201)
}

func TestCreatedByIsTheAgentNeverTheKey(t *testing.T) {
	h := start(t)
	const key = "secret-key"
	keyed := h.bare(h.handler(front.keys(map[string]string{key: "planner"})), headerAPIKey, key)
	in := keyed.post("/intents", obj{"title": "t"}).ok(201)
	in.has(obj{"created_by": "planner"})
	ch := keyed.post("/intents/"+in.id()+"/channels", obj{"name": "a", "options": obj{"audit": true}}).ok(201)
	ch.has(obj{"created_by": "planner"})
	keyed.post("/channels/"+ch.id()+"/messages", obj{"payload": obj{}}).ok(201).has(obj{"sender": "planner"})
	keyed.post("/intents/"+in.id()+"/acl/entries", obj{"principal_id": "reviewer"}).ok(201).has(obj{"granted_by": "planner"})
	events := keyed.get("/intents/" + in.id() + "/events").ok(200)
	events.is("actor", "planner", "planner", "planner")
	for _, a := range []*answer{in, ch, events} {
		if strings.Contains(string(a.raw), key) {
			t.Errorf("the key is in %s", a.raw)
		}
	}
}

func TestMembersAreAListWithoutRepetitions(t *testing.T) {
	h := start(t)
	in, p := h.intent("planner"), h.as("planner")
	create := func(body obj) *answer { return p.post("/intents/"+in+"/channels", body) }
	create(obj{"name": "a"}).ok(201).has(obj{"members": []any{}})
	create(obj{"name": "b", "member_policy": "explicit"}).ok(201).has(obj{"members": []any{"planner"}})
	create(obj{"name": "c", "member_policy": "explicit", "members": []string{"desk", "planner", "desk"}}).ok(201).has(obj{"members": []any{"desk", "planner"}})
	create(obj{"name": "d", "members": []string{"a b"}}).refused(422, "invalid")
	create(obj{"name": "d", "members": "planner"}).refused(422, "invalid")
}

func TestOptionsAreMergedWithTheDefaults(t *testing.T) {
	h := start(t)
	in, p := h.intent("planner"), h.as("planner")
	create := func(name string, options any) *answer {
		return p.post("/intents/"+in+"/channels", obj{"name": name, "options": options})
	}
	create("a", nil).ok(201).has(obj{"options": obj{"audit": false, "ttl_seconds": nil, "max_messages": 1000}})
	a := create("b", obj{"ttl_seconds": 3600, "color": "red"}).ok(201)
	a.has(obj{"options": obj{"audit": false, "ttl_seconds": 3600, "max_messages": 1000, "color": "red"}})
	p.get("/channels/" + a.id()).ok(200).has(obj{"options": a.at("options")})

	lenient := start(t, func(c *Config) { c.Lenient = true })
	in = lenient.intent("planner")
	lenient.as("planner").post("/intents/"+in+"/channels", obj{"name": "a", "options": obj{"audit": true}}).ok(201).has(obj{"options": obj{"audit": true}})
}

var timeForm = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}\+00:00$`)

func TestChannelHasAllItsFields(t *testing.T) {
	h := start(t)
	in, p := h.intent("planner"), h.as("planner")
	ch := h.channel("planner", in, "a", obj{"task_id": "task_1"})
	if host, ok := object.HostOfID(strings.TrimPrefix(ch, "/channels/")); !ok || host != hostID {
		t.Errorf("%s is of the host %s", ch, host)
	}
	p.get(ch).ok(200).has(obj{"task_id": "task_1", "member_policy": "intent", "status": "open", "closed_at": nil, "message_count": 0, "last_message_at": nil, "intent_id": in, "name": "a"})
	p.say(ch, obj{})
	a := p.patch(ch, obj{"status": "closed"}).ok(200).has(obj{"status": "closed", "message_count": 1})
	for _, name := range []string{"created_at", "closed_at", "last_message_at"} {
		if !timeForm.MatchString(a.str(name)) {
			t.Errorf("%s is %s", name, a.str(name))
		}
	}
}

func TestSendingToANameCreatesTheChannel(t *testing.T) {
	h := start(t)
	in, p := h.intent("planner"), h.as("planner")
	m := p.post("/intents/"+in+"/channels/progress/messages", obj{"payload": obj{"n": 1}}).ok(201)
	ch := "/channels/" + m.str("channel_id")
	p.get(ch).ok(200).has(obj{"name": "progress", "member_policy": "intent", "created_by": "planner", "message_count": 1})
	h.as("reviewer").post("/intents/"+in+"/channels/progress/messages", obj{"payload": obj{}}).ok(201).has(obj{"channel_id": m.str("channel_id")})
	// Without a URL of its own: an unknown id with an intent is a name.
	p.post("/channels/progress/messages", obj{"payload": obj{}}).refused(404, "not_found")
	p.post("/channels/progress/messages", obj{"payload": obj{}, "intent_id": in}).ok(201).has(obj{"channel_id": m.str("channel_id")})
	p.post("/channels/other/messages", obj{"payload": obj{}, "intent_id": in}).ok(201)
	p.get("/intents/"+in+"/channels").is("name", "progress", "other")
	// The name of a closed channel is free again.
	p.patch(ch, obj{"status": "closed"}).ok(200)
	if again := p.post("/intents/"+in+"/channels/progress/messages", obj{"payload": obj{}}).ok(201).str("channel_id"); again == m.str("channel_id") {
		t.Error("sent to the closed channel")
	}
	// A refused message creates nothing.
	p.post("/intents/"+in+"/channels/new/messages", obj{"message_type": "response", "correlation_id": "msg_x"}).refused(422, "invalid")
	p.get("/intents/"+in+"/channels").is("name", "other", "progress", "progress")
	// Creating needs write access, sending does not.
	closed := h.closedIntent("planner")
	p.post("/intents/"+closed+"/acl/entries", obj{"principal_id": "reader", "permission": "read"}).ok(201)
	h.as("reader").post("/intents/"+closed+"/channels/x/messages", obj{"payload": obj{}}).refused(403, "no_permission")
	p.post("/intents/"+closed+"/channels/x/messages", obj{"payload": obj{}}).ok(201)
	h.as("reader").post("/intents/"+closed+"/channels/x/messages", obj{"payload": obj{}}).ok(201)
}

func TestPatchIsForWhoManagesTheChannel(t *testing.T) {
	h := start(t)
	in, p := h.intent("planner"), h.as("planner")
	ch := h.channel("builder", in, "a", obj{"members": []string{"desk"}, "options": obj{"ttl_seconds": 60, "color": "red"}})
	h.as("desk").patch(ch, obj{"members": []string{}}).refused(403, "not_manager")
	p.patch(ch, obj{"members": []string{}}).refused(403, "not_manager") // an admin of the intent may close only
	b := h.as("builder")
	b.patch(ch, obj{"options": obj{"max_messages": 5, "color": nil}}).ok(200).has(obj{"options": obj{"audit": false, "ttl_seconds": 60, "max_messages": 5}})
	b.patch(ch, obj{"members": []string{"desk", "laptop"}}).ok(200).has(obj{"members": []any{"desk", "laptop"}})
	b.patch(ch, obj{"add_members": []string{"lamp", "desk"}, "remove_members": []string{"laptop"}}).ok(200).has(obj{"members": []any{"desk", "lamp"}})
	b.patch(ch, obj{"member_policy": "explicit"}).ok(200).has(obj{"member_policy": "explicit"})
	b.patch(ch, obj{"options": obj{"max_messages": "many"}}).refused(422, "invalid")
	b.get(ch).has(obj{"options": obj{"audit": false, "ttl_seconds": 60, "max_messages": 5}})
	p.patch(ch, obj{"status": "closed"}).ok(200)
}

func TestDeleteWakesWhoAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t)
		ch := h.channel("builder", h.intent("planner"), "a")
		began := time.Now()
		asked := make(chan *answer)
		go func() { asked <- h.as("planner").post(ch+"/ask", obj{"to": "reviewer", "timeout": 20}) }()
		synctest.Wait()
		h.as("builder").do("DELETE", ch, nil).ok(200)
		(<-asked).refused(409, "channel_closed")
		if took := time.Since(began); took > time.Second {
			t.Errorf("woken after %v", took)
		}
	})
}

func TestTTLCountsFromTheLastMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t)
		in, p := h.intent("planner"), h.as("planner")
		ch := h.channel("planner", in, "a", obj{"options": obj{"ttl_seconds": 10}})
		quiet := h.channel("planner", in, "b", obj{"options": obj{"ttl_seconds": 10}})
		time.Sleep(8 * time.Second)
		p.say(ch, obj{})
		time.Sleep(3 * time.Second)
		// Lazily, without timers.
		p.get(quiet).has(obj{"status": "closed"})
		p.send(quiet, obj{}).refused(409, "channel_closed")
		p.get(ch).has(obj{"status": "open"})
		h.channel("planner", in, "b")
		end := p.get(quiet).str("closed_at")

		defer h.run()()
		time.Sleep(7*time.Second - time.Millisecond)
		p.get(ch).has(obj{"status": "open"})
		time.Sleep(2 * time.Millisecond)
		p.get(ch).has(obj{"status": "closed"})
		p.get(quiet).has(obj{"status": "closed", "closed_at": end})
		synctest.Wait()
		if h.e.channels[strings.TrimPrefix(ch, "/channels/")].doc.Status != object.StatusClosed {
			t.Error("the timer has not closed the channel")
		}
	})
}

func TestNoticesDoNotExtendTheTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t)
		p := h.as("planner")
		in := h.intent("planner")
		ch := h.channel("planner", in, "a", obj{"options": obj{"ttl_seconds": 10}, "members": []string{"reviewer"}})
		r := h.as("reviewer")
		r.register(obj{}).ok(201)
		p.say(ch, obj{})
		time.Sleep(8 * time.Second)
		r.do("DELETE", "/agents/reviewer", nil).ok(200)
		p.messages(ch).is("sender", "planner", "system")
		h.restart()
		time.Sleep(2 * time.Second)
		h.as("planner").get(ch).has(obj{"status": "closed"})
	})
}

func TestTheOldestMessagesAreEvicted(t *testing.T) {
	h := start(t)
	in, p := h.intent("planner"), h.as("planner")
	ch := h.channel("planner", in, "a", obj{"options": obj{"max_messages": 3}})
	request := p.request(ch, "reviewer", obj{"payload": obj{"n": 0}})
	evicted := p.say(ch, obj{})
	var want []any
	for n := range 200 {
		id := p.say(ch, obj{"payload": obj{"n": n}})
		if n >= 197 {
			want = append(want, id)
		}
	}
	p.messages(ch).ok(200).is("id", want...)
	p.get(ch).has(obj{"message_count": 202})
	p.get(ch+"/messages/"+evicted).refused(404, "not_found")
	var rows int
	statedb.Query(t, h.e.db, &rows, "SELECT count(*) FROM openintent_message")
	if rows > 3+3+1 {
		t.Errorf("%d rows are left", rows)
	}
	// An evicted request can still be answered, also after a restart.
	h.restart()
	h.as("planner").messages(ch).is("id", want...)
	h.as("reviewer").respond(ch, request).ok(201).has(obj{"correlation_id": request, "to": "planner"})
}

func TestChannelsAreABareArrayOpenOnesFirst(t *testing.T) {
	h := start(t)
	in, p := h.closedIntent("planner", "reviewer"), h.as("planner")
	for i := range 4 {
		h.channel("planner", in, fmt.Sprint("c", i))
	}
	first := p.get("/intents/" + in + "/channels").ok(200).list("id")[0].(string)
	p.patch("/channels/"+first, obj{"status": "closed"}).ok(200)
	p.get("/intents/"+in+"/channels").is("name", "c1", "c2", "c3", "c0")
	h.as("stranger").get("/intents/"+in+"/channels").refused(404, "not_found")
	h.as("stranger").get("/channels/"+first).refused(404, "not_found")
	h.as("reviewer").get("/channels/" + first).ok(200)
}

func TestObjectsAreBounded(t *testing.T) {
	h := start(t)
	in, p := h.intent("planner"), h.as("planner")
	large := strings.Repeat("x", 64<<10)
	p.post("/intents/"+in+"/channels", obj{"name": "a", "options": obj{"x": large}}).refused(413, "too_large")
	ch := h.channel("planner", in, "b")
	p.patch(ch, obj{"options": obj{"x": large}}).refused(413, "too_large")
	p.post("/tasks", obj{"intent_id": in, "name": "n", "input": obj{"x": large}}).refused(413, "too_large")
	p.register(obj{"metadata": obj{"x": large}}).refused(413, "too_large")
	// A channel at the bound can still be closed.
	full := p.post("/intents/"+in+"/channels", obj{"name": "c", "options": obj{"x": strings.Repeat("x", longOptions-8)}, "members": longMembers(270)}).ok(201).id()
	p.patch("/channels/"+full, obj{"status": "closed"}).ok(200).has(obj{"status": "closed"})
	h.restart()
	h.as("planner").get("/channels/" + full).ok(200)
}

// TestRefusedListOfChannels: a list of channels is made only as far as its caller has room for
// it. Not parallel: it counts allocations.
func TestRefusedListOfChannels(t *testing.T) {
	h := start(t, toOthers)
	in := h.intent("planner")
	worker := h.from(desk, "worker")
	options := obj{"x": strings.Repeat("x", 4000)}
	for i := range 100 {
		worker.post("/intents/"+in+"/channels", obj{"name": fmt.Sprint("c", i), "options": options}).ok(201)
	}
	row := h.e.unread.Row()
	h.e.unread.AddUnchecked(peerAccountKey(desk), row.Peer-1)
	allocs := testing.AllocsPerRun(5, func() {
		worker.get("/intents/"+in+"/channels?limit=1000").refused(429, "overloaded")
	})
	if allocs > 500 {
		t.Errorf("a list of 100 channels of which none is answered takes %v allocations", allocs)
	}
}
