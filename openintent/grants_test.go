package openintent

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/acpd/acpd/integration/statedb"
	"github.com/acpd/acpd/openintent/object"
)

// Access lists are made and encoded before the write, also those that many agents use,
// and one more agent is one more row.
func TestAccessIsMadeOutsideOfTheWrite(t *testing.T) {
	h := startInside(t)
	in := h.intent("planner")
	h.grant(in, obj{"principal_id": "boss", "home": desk, "permission": "admin"}).ok(201)
	for i := range object.MaxEntries - 1 {
		h.from(desk, fmt.Sprint("worker", i)).get("/intents/" + in).ok(200)
	}
	h.most("agents that come", 64<<10)
	boss := h.from(desk, "boss")
	boss.get("/intents/" + in).ok(200)
	h.most("the last that may come", 64<<10)
	var entries []any
	for i := range object.MaxEntries - 1 {
		entries = append(entries, obj{"principal_id": fmt.Sprint("p", i), "permission": "read", "home": laptop})
	}
	entries = append(entries, obj{"principal_id": "boss", "permission": "admin", "home": desk})
	list := boss.do("PUT", "/intents/"+in+"/acl", obj{"default_policy": "open", "entries": entries}).ok(200).at("entries").([]any)
	h.most("a long access list", 5<<20/2)
	boss.do("DELETE", "/intents/"+in+"/acl/entries/"+list[0].(obj)["id"].(string), nil).ok(204)
	h.most("one entry of it", 5<<20/2)
	h.restart()
	if n := len(h.as("planner").get("/intents/" + in + "/homes").ok(200).body.([]any)); n != object.MaxEntries+1 {
		t.Errorf("%d agents have used the intent", n)
	}
}

// What entries say is bounded in all.
func TestAccessIsBounded(t *testing.T) {
	h := start(t)
	in := h.intent("planner")
	taken, long := 0, strings.Repeat("x", 4096)
	for range maxAccess/4096 - 20 { // most of them without the way there
		h.e.intents[in].Entries = append(h.e.intents[in].Entries, object.Entry{ID: "e", PrincipalID: "p", PrincipalType: "agent", Permission: "read", GrantedBy: "planner", Home: laptop, Reason: &long})
	}
	for range 20 {
		a := h.grant(in, obj{"principal_id": "p", "home": laptop, "reason": long})
		if a.status != 201 {
			a.refused(413, "too_large")
			break
		}
		taken++
	}
	if size := len(object.EncodeJSONText(h.e.intents[in].access)); size > maxAccess || size < maxAccess-8192 {
		t.Errorf("%d entries of %d bytes are taken", taken, size)
	}
}

// A change of the access that others get before is made anew.
func TestAccessIsChangedByAllAtOnce(t *testing.T) {
	h := start(t)
	in := h.intent("planner")
	const n = 40
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { h.grant(in, obj{"principal_id": fmt.Sprint("p", i)}).ok(201) })
	}
	all.Wait()
	if got := len(h.as("planner").get("/intents/" + in + "/acl").at("entries").([]any)); got != n {
		t.Errorf("%d of %d entries are there", got, n)
	}
}

// Who has used an intent stood in its access once.
func TestUsesAreMigrated(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	db := statedb.Open(t, path)
	if err := db.Migrate(t.Context(), "openintent", schema[:len(schema)-2]); err != nil {
		t.Fatal(err)
	}
	statedb.Exec(t, db, `INSERT INTO openintent_intent (row, id, doc, access) VALUES (1, 'intent_1', '{"created_by":"planner","status":"draft","version":1,"updated_at":"2026-01-02T03:04:05+00:00"}',
			'{"policy":"open","entries":null,"assignments":null,"used":{"":{"planner":7,"a.b":8},"`+desk+`":{"worker":9}}}')`)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	h := start(t)
	h.db.Close()
	h.path = path
	h.open()
	for range 2 {
		h.as("planner").get("/intents/intent_1/homes").is("agent_id", "a.b", "planner", "worker").is("home", "", "", desk)
		if at := h.e.intents["intent_1"].used[desk]["worker"]; at != 9 {
			t.Errorf("used since %d", at)
		}
		h.restart()
	}
}

// enrol has agents of a daemon, agent0 and so on, be there with a role.
func (h *host) enrol(role, home string, n int) {
	h.e.mu.Lock()
	defer h.e.mu.Unlock()
	for i := range n {
		a := &agentRecord{}
		a.seen.Store(int64(now()))
		(&tx{e: h.e, loading: true}).addAgentToWorld(a, object.Agent{AgentID: fmt.Sprint("agent", i), Host: home, Status: object.AgentActive, RoleID: &role, Heartbeat: object.Heartbeats{Interval: 30, Unhealthy: 90, Dead: 300}})
	}
}

// A message to a role goes to a bounded number of agents, and who only says it has the
// role costs the others nothing.
func TestRoleMessagesAreBounded(t *testing.T) {
	h, _, ch := team(t)
	h.enrol("welder", "", object.MaxEntries)
	p := h.as("planner")
	id := p.request(ch, "role:welder")
	if n := len(h.e.channels[strings.TrimPrefix(ch, "/channels/")].findRecentMessage(1).recipients); n != object.MaxEntries {
		t.Errorf("%d agents get the message", n)
	}
	h.as("agent999").get(ch + "/messages/" + id).ok(200)
	h.as("one-more").register(obj{"role_id": "welder"}).ok(201)
	p.send(ch, obj{"to": "role:welder", "payload": obj{}}).refused(429, "too_many")
}

// A store of which something cannot be read is not served, whatever builds on it.
func TestWhatCannotBeReadIsNotServed(t *testing.T) {
	h := start(t)
	in := h.intent("planner")
	h.channel("planner", in, "talk")
	statedb.Exec(t, h.db, "UPDATE openintent_intent SET access = 'no'")
	if e, err := NewEngine(t.Context(), Config{Store: h.db, Self: h.e.cfg.Self}); err == nil {
		t.Errorf("it is served: %v", e.intents)
	}
}
