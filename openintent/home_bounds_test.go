package openintent

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/openintent/object"
)

// A channel has as many open requests as it may, and one more when one has expired.
func TestOpenRequestsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _, ch := team(t)
		p := h.as("planner")
		until := func(d time.Duration) obj {
			return obj{"expires_at": time.Now().Add(d).UTC().Format(time.RFC3339)}
		}
		first, soon := p.request(ch, "reviewer", until(time.Hour)), until(time.Minute)
		p.request(ch, "reviewer", soon)
		for range h.fewRequests() - 2 {
			p.request(ch, "reviewer", until(time.Hour))
		}
		for range 3 {
			p.send(ch, obj{"message_type": "request", "to": "reviewer"}).refused(429, "too_many")
		}
		p.say(ch, obj{}) // what asks nothing needs no room
		time.Sleep(time.Minute)
		p.request(ch, "reviewer")
		p.send(ch, obj{"message_type": "request", "to": "reviewer"}).refused(429, "too_many")
		h.as("reviewer").respond(ch, first).ok(201)
		p.request(ch, "reviewer")
		p.send(ch, obj{"message_type": "request", "to": "reviewer"}).refused(429, "too_many")
	})
}

// However much the agents of other daemons ask in a channel, and for how long, those
// here have room to ask.
func TestRequestsOfOthersLeaveRoom(t *testing.T) {
	h := start(t, toOthers)
	in := h.intent("planner")
	ch := h.channel("planner", in, "talk")
	most := h.fewRequests()
	fill := func(c *client) (n int) {
		for range most {
			if c.send(ch, obj{"message_type": "request", "to": "reviewer", "expires_at": "2060-01-01T00:00:00Z"}).status != 201 {
				return n
			}
			n++
		}
		return n
	}
	for home, want := range map[string]int{desk: most / 4, laptop: most / 4} {
		if n := fill(h.from(home, "worker-"+home[:1])); n != want {
			t.Errorf("one daemon's agents asked %d, of %d", n, want)
		}
	}
	h.from(strings.Repeat("ab", 32), "tester").send(ch, obj{"message_type": "request", "to": "reviewer"}).refused(429, "too_many")
	h.as("planner").request(ch, "reviewer")
}

// However much the agents of other daemons make of a thing, those here have room: all others have a half of it,
// and those of one daemon a quarter.
func TestRoomOfOthers(t *testing.T) {
	for _, c := range []struct {
		has          roomTally
		here, theirs bool // may make one more
	}{
		{roomTally{}, true, true}, {roomTally{24, 24, 24}, true, true}, {roomTally{25, 25, 25}, true, false}, {roomTally{49, 49, 0}, true, true},
		{roomTally{50, 50, 0}, true, false}, {roomTally{99, 0, 0}, true, true}, {roomTally{100, 0, 0}, false, false},
	} {
		for home, may := range map[string]bool{"": c.here, desk: c.theirs} {
			if err := c.has.checkRoom(home, "things", 100, "wait"); (err == nil) != may {
				t.Errorf("%+v, for %q: %v", c.has, home, err)
			}
		}
	}
}

func TestChannelsAreBounded(t *testing.T) {
	h := start(t, toOthers)
	in := h.intent("planner")
	p, far := h.as("planner"), h.from(desk, "reviewer")
	for _, c := range []*client{p, far} {
		for _, a := range []*answer{
			c.post("/intents/"+in+"/channels", obj{"name": "a", "options": obj{"x": strings.Repeat("x", object.MaxChannel)}}),
			c.post("/intents/"+in+"/channels", obj{"name": "a", "member_policy": "explicit", "members": longMembers(320)}),
		} {
			a.refused(413, "too_large")
		}
	}
	ch := h.channel("planner", in, "talk", obj{"options": obj{"x": strings.Repeat("x", object.MaxChannel/2)}})
	p.patch(ch, obj{"options": obj{"y": strings.Repeat("y", object.MaxChannel/2)}}).refused(413, "too_large")
	p.patch(ch, obj{"options": obj{"y": 1}}).ok(200)
	last := "/channels/" + far.post("/intents/"+in+"/channels/another/messages", obj{}).ok(201).str("channel_id")
	// Of the agents of one other daemon there are so many, closed ones too.
	for range 2 {
		if n := h.e.guests[desk].channels; n != 1 {
			t.Fatalf("%d channels are counted", n)
		}
		h.restart()
	}
	(&tx{e: h.e, loading: true}).adjustCreatedCounts(desk, int(budget.Channels.Peer)-1, int(budget.Tasks.Peer), 0)
	other := h.intent("planner")
	far = h.from(desk, "reviewer")
	far.post("/intents/"+other+"/channels", obj{"name": "a"}).refused(429, "too_many")
	far.post("/intents/"+other+"/channels/a/messages", obj{}).refused(429, "too_many")
	h.from(laptop, "worker").post("/intents/"+other+"/channels", obj{"name": "b"}).ok(201)
	far.post("/tasks", obj{"intent_id": other, "name": "n"}).refused(429, "too_many")
	h.as("planner").post("/tasks", obj{"intent_id": other, "name": "n", "home": desk}).ok(201).has(obj{"home": nil})
	task := h.from(laptop, "worker").post("/tasks", obj{"intent_id": other, "name": "n"}).ok(201).has(obj{"home": laptop}).id()
	h.from(laptop, "worker").with("If-Match", "1").patch("/tasks/"+task, obj{"home": desk}).ok(200).has(obj{"home": laptop})
	if n := h.e.guests[laptop]; n != (guestCounts{channels: 1, tasks: 1}) {
		t.Errorf("counted %+v", n)
	}
	far.post("/intents/"+other+"/events", obj{"event_type": "comment", "payload": obj{"x": strings.Repeat("x", object.MaxEvent)}}).refused(413, "too_large")
	h.as("planner").post("/intents/"+other+"/channels", obj{"name": "c"}).ok(201)
	far.do("DELETE", last, nil).ok(200)
	far.post("/intents/"+other+"/channels", obj{"name": "a"}).ok(201)
}

// fewRequests lets few requests be open in a channel, and returns how many.
func (h *host) fewRequests() int {
	h.t.Helper()
	if h.e.openMost != 10_000 {
		h.t.Errorf("%d requests may be open", h.e.openMost)
	}
	h.e.openMost = 400
	return h.e.openMost
}

func longMembers(n int) (ids []string) {
	for i := range n {
		ids = append(ids, fmt.Sprintf("a%099d", i))
	}
	return ids
}

// Lists have pages, and end at so many bytes.
func TestListsOfChannelsAreBounded(t *testing.T) {
	h := start(t, toOthers)
	in := h.intent("planner")
	const n = 350
	for i := range n {
		ch := h.channel("planner", in, fmt.Sprint(i), obj{"members": longMembers(300)})
		if i == 0 {
			h.as("planner").patch(ch, obj{"status": "closed"}).ok(200)
		}
	}
	for _, c := range []*client{h.as(""), h.from(desk, "worker")} {
		var all []any
		for pages := 0; len(all) < n; pages++ {
			a := c.get(fmt.Sprintf("/intents/%s/channels?offset=%d", in, len(all))).ok(200)
			if len(a.raw) > object.MaxListBytes+object.MaxChannel || pages > 1 {
				t.Fatalf("%d bytes in page %d", len(a.raw), pages)
			}
			all = append(all, a.list("name")...)
		}
		if len(all) != n || all[0] != "1" || all[n-1] != "0" {
			t.Errorf("%d channels from %v to %v", len(all), all[0], all[len(all)-1])
		}
		c.get("/intents/"+in+"/channels?limit=2&offset=347").is("name", "348", "349")
		c.get("/intents/"+in+"/channels?limit=2&offset=348").is("name", "349", "0")
		c.get("/intents/" + in + "/channels?limit=2&offset=350").is("name")
		c.get("/intents/"+in+"/channels?limit=1001").refused(422, "invalid")
	}
}

// What guests say of themselves does not make the lists longer that other daemons get.
func TestOtherDaemonsAreToldOfTheAgentsHere(t *testing.T) {
	h := start(t, toOthers)
	h.as("planner").register(obj{}).ok(201)
	h.from(desk, "worker").register(obj{}).ok(201)
	h.as("planner").get("/agents").is("agent_id", "planner", "worker")
	h.as("planner").get("/agents?limit=1&offset=1").is("agent_id", "worker")
	h.from(laptop, "reviewer").get("/agents").is("agent_id", "planner")
	const n = 20
	for i := range n {
		in := h.intent("planner")
		h.from(desk, "worker").with("If-Match", "1").post("/intents/"+in+"/state", obj{"state": obj{"x": strings.Repeat("x", 200<<10)}}).ok(200)
		if i == 0 {
			continue
		}
		if a := h.from(laptop, "reviewer").get("/intents"); len(a.raw) > 2*maxGathered {
			t.Fatalf("a list of %d bytes", len(a.raw))
		}
	}
}

// An intent has so many agents of one other daemon, whatever ids it thinks of.
func TestAgentsOfOneDaemonAreBounded(t *testing.T) {
	h := start(t, toOthers)
	in := h.intent("planner")
	ch := h.channel("planner", in, "talk")
	for i := range object.MaxEntries {
		h.from(desk, fmt.Sprint("worker", i)).get(ch).ok(200)
	}
	h.from(desk, "another").get(ch).refused(429, "too_many")
	h.from(desk, "another").send(ch, obj{}).refused(429, "too_many")
	h.from(desk, "worker7").send(ch, obj{}).ok(201)
	h.from(laptop, "another").send(ch, obj{}).ok(201)
	h.as("planner").do("DELETE", "/intents/"+in+"/homes/worker7", nil).ok(204)
	h.from(desk, "one-more").send(ch, obj{}).ok(201)
}

// Who holds a role is kept with the messages to it no longer than their text.
func TestRecipientsAreBounded(t *testing.T) {
	h, in, ch := team(t, toOthers)
	h.as("planner").post("/intents/"+in+"/acl/entries", obj{"principal_id": "tester", "principal_type": "role", "home": desk}).ok(201)
	const holders, n = object.MaxEntries, 600
	h.enrol("tester", desk, holders)
	for range n {
		h.as("planner").request(ch, "role:tester")
	}
	kept := 0
	for _, m := range h.e.memory {
		kept += len(m.recipients)
	}
	for _, m := range h.e.channels[strings.TrimPrefix(ch, "/channels/")].open {
		kept += len(m.recipients)
	}
	if kept < holders || kept > recentBytes/recipientBytes {
		t.Errorf("%d recipients of %d requests are in memory", kept, n)
	}
	h.from(desk, "agent7").messages(ch).ok(200)
}

// What another daemon's agents delete, or change again and again, leaves nothing in
// memory: neither channels nor alarms of theirs.
func TestChannelsThatAreGoneLeaveNoMemory(t *testing.T) {
	h := start(t, toOthers)
	in := h.intent("planner")
	far := h.from(desk, "reviewer")
	members := append(longMembers(100), "reviewer")
	long := obj{"ttl_seconds": object.MaxTTL}
	for range 4 * spareAlarms {
		ch := far.post("/intents/"+in+"/channels", obj{"name": "c", "member_policy": "explicit", "members": members, "options": long}).ok(201).id()
		far.say("/channels/"+ch, obj{})
		far.do("DELETE", "/channels/"+ch, nil).ok(200)
	}
	if n := len(h.e.alarms.heap); n > spareAlarms+2 {
		t.Errorf("%d alarms of channels that are gone", n)
	}
	for _, m := range h.e.memory {
		if n := len(m.ch.doc.Members); n > 0 {
			t.Fatalf("a message in memory holds a channel that is gone, with %d members", n)
		}
	}
	ch := "/channels/" + far.post("/intents/"+in+"/channels", obj{"name": "c"}).ok(201).id()
	for range 4 * spareAlarms {
		far.patch(ch, obj{"options": long}).ok(200)
	}
	if n := len(h.e.alarms.heap); n > spareAlarms+2 {
		t.Errorf("%d alarms of one channel", n)
	}
}

// A channel that gets a message after its alarm was taken has another alarm.
func TestChannelThatIsNotDueAnyMoreHasAnAlarm(t *testing.T) {
	h := start(t)
	id := strings.TrimPrefix(h.channel("planner", h.intent("planner"), "c", obj{"options": obj{"ttl_seconds": object.MaxTTL}}), "/channels/")
	var ch *channelRecord
	h.e.withLock(func() { ch, h.e.alarms.heap = h.e.channels[id], nil })
	if err := h.e.closeOrPurgeChannel(t.Context(), ch); err != nil {
		t.Fatal(err)
	}
	h.e.withReadLock(func() {
		if len(h.e.alarms.heap) != 1 {
			t.Errorf("%d alarms", len(h.e.alarms.heap))
		}
	})
}

// TestRefusalIsCountedOnce: what is refused for another reason is not counted as a refusal of
// a full account.
func TestRefusalIsCountedOnce(t *testing.T) {
	h := start(t, toOthers)
	in := h.intent("planner")
	book := new(budget.Book)
	h.e.guestbook.tasks = book.OpenAccount(budget.Tasks)
	h.e.guestbook.tasks.AddUnchecked(peerAccountKey(desk), budget.Tasks.Peer)
	refused := func() (n uint64) {
		for _, u := range book.ListUsage() {
			n += u.Refused
		}
		return n
	}
	far := h.from(desk, "reviewer")
	far.post("/tasks", obj{"intent_id": in, "name": "n", "assigned_agent": "nobody@laptop"}).refused(422, "home_by_name")
	if n := refused(); n != 0 {
		t.Errorf("a task for nobody counts as %d refusals of the account", n)
	}
	far.post("/tasks", obj{"intent_id": in, "name": "n"}).refused(429, "too_many")
	if n := refused(); n != 1 {
		t.Errorf("a task too many counts as %d refusals of the account", n)
	}
}

// TestFullChannelCountsNothing: a request to a channel that is full of open requests is refused
// by their number, without a look at each.
func TestFullChannelCountsNothing(t *testing.T) {
	e := &Engine{openMost: 8}
	full := &channelRecord{open: make(map[string]*message), swept: 1}
	for i := range e.openMost {
		full.open[fmt.Sprint(i)] = nil // a look at it panics
	}
	now := &tx{e: e, now: 1}
	if err := now.checkRoomForOpenRequest(full, desk); err == nil {
		t.Error("a full channel takes a request")
	}
}
