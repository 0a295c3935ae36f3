package openintent

import (
	"fmt"
	"strings"
	"testing"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/integration/statedb"
	"github.com/acpd/acpd/openintent/object"
)

// What other daemons' agents make is a share for each of them, whatever those before have
// made, and takes nothing from the agents here.
// holds: security.md#the-budget
func TestWhatOthersMakeIsShared(t *testing.T) {
	h := start(t, toOthers)
	for _, r := range []struct {
		account *budget.Account
		row     budget.Row
	}{
		{h.e.guestbook.agents, budget.Row{Name: "channel_agents", Peer: 1000, All: 10_000}},
		{h.e.guestbook.channels, budget.Row{Name: "channels", Peer: 2000, All: 50_000}},
		{h.e.guestbook.tasks, budget.Row{Name: "tasks", Peer: 2000, All: 25_000}},
	} {
		if boundsOf(r.account) != r.row {
			t.Errorf("the row is %+v, want %+v", r.account.Row(), r.row)
		}
	}
	book := &budget.Book{Peers: func() int { return 3 }}
	small := func(name string) *budget.Account { return book.OpenAccount(budget.Row{Name: name, Peer: 6, All: 12}) }
	h.e.guestbook = guestAccounts{small("channel_agents"), book.OpenAccount(budget.ChannelAgentBytes), small("channels"), small("tasks")}
	in := h.intent("planner")
	kinds := map[string]func(c *client, i int) *answer{
		"channel_agents": func(c *client, i int) *answer {
			return h.from(c.header.Get("Of"), fmt.Sprint("agent", i)).register(obj{})
		},
		"channels": func(c *client, i int) *answer {
			return c.post("/intents/"+in+"/channels", obj{"name": fmt.Sprint(c.header.Get("Of"), i)})
		},
		"tasks": func(c *client, i int) *answer { return c.post("/tasks", obj{"intent_id": in, "name": fmt.Sprint(i)}) },
	}
	for row, one := range kinds {
		var got []int
		for n, home := range []string{desk, laptop, strings.Repeat("ab", 32)} {
			c, taken := h.from(home, fmt.Sprint("worker", n)).with("Of", home), 0
			for i := range 60 {
				if a := one(c, i); a.status < 300 {
					taken++
				} else {
					a.refused(429, "too_many").has(obj{"row": row})
				}
			}
			got = append(got, taken)
		}
		if got[0] != 6 || got[1] < 2 || got[2] < 2 || got[0]+got[1]+got[2] > 12 {
			t.Errorf("%s: %v were taken", row, got)
		}
	}
	h.as("planner").post("/intents/"+in+"/channels", obj{"name": "own"}).ok(201)
	h.as("planner").post("/tasks", obj{"intent_id": in, "name": "own"}).ok(201)
	h.as("planner").register(obj{}).ok(201)
	// What is gone makes room.
	worker := h.from(desk, "worker0")
	worker.do("DELETE", "/channels/"+h.e.intents[in].findOpenChannel(desk+"0", now()).id, nil).ok(200)
	worker.post("/intents/"+in+"/channels", obj{"name": "again"}).ok(201)
	worker.post("/intents/"+in+"/channels", obj{"name": "more"}).refused(429, "too_many")
	h.restart()
	if n := held(h.e.guestbook.channels, desk); n != 6 {
		t.Errorf("%d channels are counted after a restart", n)
	}
	if a, k := held(h.e.guestbook.agents, desk), held(h.e.guestbook.tasks, desk); a != 6 || k != 6 {
		t.Errorf("%d agents and %d tasks are counted after a restart", a, k)
	}
}

// Records of agents elsewhere are charged to their daemon in bytes, also after a restart,
// and the operator may remove one.
// holds: security.md#the-budget
func TestRecordsOfOthersAreCharged(t *testing.T) {
	h := start(t, toOthers)
	restrict := func() {
		h.e.guestbook.records = new(budget.Book).OpenAccount(budget.Row{Name: "channel_agent_bytes", Unit: budget.Bytes, Peer: 128 << 10, All: 1 << 20})
		for home := range h.e.homes {
			h.e.syncGuestAccounts(home)
		}
	}
	restrict()
	long := obj{"metadata": obj{"text": strings.Repeat("x", 30<<10)}}
	stored := func() (n int64) {
		t.Helper()
		statedb.Query(t, h.db, &n, "SELECT coalesce(sum(octet_length(doc)), 0) FROM openintent_agent WHERE home = ?", desk)
		return n
	}
	taken := 0
	for i := range 40 {
		if a := h.from(desk, fmt.Sprint("worker", i)).register(long); a.status < 300 {
			taken++
		} else {
			a.refused(429, "too_many").has(obj{"row": "channel_agent_bytes"})
		}
	}
	check := func() {
		t.Helper()
		if n, want := held(h.e.guestbook.records, desk), stored(); n > want+100 || n < want-100 || n > 128<<10 {
			t.Errorf("%d bytes are charged, %d are there", n, want)
		}
	}
	if check(); taken != 4 {
		t.Errorf("%d records were taken", taken)
	}
	h.from(laptop, "tester").register(long).ok(201)
	h.as("planner").register(long).ok(201)
	h.from(desk, "worker0").register(long).ok(200) // which is no longer than it was
	h.restart()
	restrict()
	check()
	in := h.intent("planner")
	ch := h.channel("planner", in, "talk", obj{"members": []any{"planner", obj{"agent_id": "worker0", "home": desk}}})
	h.as("planner").do("DELETE", "/agents/"+at(desk, "worker0"), nil).refused(404, "not_found")
	h.as("").do("DELETE", "/agents/"+at(desk, "worker0"), nil).ok(200).has(obj{"status": "deregistered"})
	h.as("planner").get("/agents/"+at(desk, "worker0")).refused(404, "not_found")
	h.as("planner").get(ch).has(obj{"members": []string{"planner"}})
	check()
	h.from(desk, "other").register(long).ok(201)
	h.restart()
	h.as("planner").get("/agents/"+at(desk, "worker0")).refused(404, "not_found")
}

// Of as many coordinators as an intent may have, one that was silent for too long makes room
// for the next.
func TestSilentCoordinatorsMakeRoom(t *testing.T) {
	h := start(t)
	id := h.intent("planner")
	appoint := func() *answer {
		return h.as("planner").post("/coordinators", obj{"agent_id": "leader", "intent_id": id})
	}
	first := appoint().ok(201).id()
	for range object.MaxEntries - 1 {
		appoint().ok(201)
	}
	appoint().refused(429, "too_many")
	in := h.e.intents[id]
	in.coords[7].doc.ExpiresAt = 1
	silent := in.coords[7].doc.ID
	last := appoint().ok(201).id()
	appoint().refused(429, "too_many")
	for range 2 {
		h.as("planner").get("/coordinators/"+silent).refused(404, "not_found")
		h.as("planner").get("/coordinators/" + first).ok(200)
		h.as("planner").get("/coordinators/" + last).ok(200)
		if in := h.e.intents[id]; len(in.coords) != object.MaxEntries || in.reserved["leader"] != object.MaxEntries {
			t.Errorf("%d coordinators, the id is reserved %d times", len(in.coords), in.reserved["leader"])
		}
		h.restart()
	}
}
