package openintent

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/acpd/acpd/openintent/object"
	"github.com/acpd/acpd/store"
)

// told is everything that the engine's memory says, a line a thing.
func (e *Engine) told() (all []string) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	line := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	for id, in := range e.intents {
		reserved, shares := maps.Clone(in.reserved), maps.Clone(in.shares)
		maps.DeleteFunc(shares, func(_ string, s diskShare) bool { return s == diskShare{} })
		line("intent %s %s %d %s %v %v %v %d %s", id, in.status, in.version, object.EncodeJSONText(in.access), in.used, reserved, shares, in.sequence, in.hash)
		for i, ch := range in.channels {
			line("intent %s channel %d %s", id, i, ch.id)
		}
		for i, k := range in.tasks {
			line("intent %s task %d %s", id, i, k.doc.ID)
		}
		for i, co := range in.coords {
			line("intent %s coordinator %d %s", id, i, co.doc.ID)
		}
	}
	for id, ch := range e.channels {
		line("channel %s %s %+v over %d count %d last %d used %d open %v", id, object.EncodeJSONText(ch.doc), ch.opt, ch.over, ch.count, ch.last, ch.used, slices.Sorted(maps.Keys(ch.open)))
	}
	for home, n := range e.guests {
		if n != (guestCounts{}) {
			line("guest %s %+v", home, n)
		}
	}
	for home, ids := range e.listed {
		if len(ids) > 0 {
			line("listed %s %v", home, ids)
		}
	}
	for home, n := range e.onDisk {
		if line("disk %s %d %d", home, n, held(e.disk, home)); n == 0 {
			all = all[:len(all)-1]
		}
	}
	for key, a := range e.agents {
		doc := a.doc
		doc.LastSeen = 0
		line("agent %v %s", key, object.EncodeJSONText(doc))
	}
	for id, k := range e.tasks {
		line("task %s %s", id, object.EncodeJSONText(k.doc))
	}
	for id, co := range e.coords {
		line("coordinator %s %s", id, object.EncodeJSONText(co.doc))
	}
	for name, l := range e.leavers {
		line("leaver %s %s", name, object.EncodeJSONText(l))
	}
	line("graves %v", slices.SortedFunc(slices.Values(e.graves), func(a, b grave) int { return int(a.row - b.row) }))
	slices.Sort(all)
	return all
}

// differ tells of lines that are in one of the lists alone.
func differ(t *testing.T, what string, got, want []string) {
	t.Helper()
	for _, line := range got {
		if !slices.Contains(want, line) {
			t.Errorf("%s: too much: %s", what, line)
		}
	}
	for _, line := range want {
		if !slices.Contains(got, line) {
			t.Errorf("%s: gone: %s", what, line)
		}
	}
}

// written is a request, or what goes on without one, that writes.
type written struct {
	what string
	make func() *answer
}

// writes makes an intent of the host, and returns writes of all kinds on it, in their order.
func (h *host) writes() []written {
	in := h.intent("planner")
	planner, far := h.as("planner"), h.from(desk, "worker")
	h.as("reviewer").register(obj{}).ok(201)
	ch := h.channel("planner", in, "talk", obj{"options": obj{"audit": true, "max_messages": 4}})
	doomed := h.channel("planner", in, "doomed", obj{"members": []any{"planner", "reviewer", obj{"agent_id": "worker", "home": desk}}})
	over := planner.post("/tasks", obj{"intent_id": in, "name": "n"}).ok(201).id()
	h.channel("planner", in, "of-task", obj{"task_id": over})
	lead := planner.post("/coordinators", obj{"intent_id": in, "agent_id": "planner"}).ok(201).id()
	for i := range 40 {
		planner.say(ch, obj{"payload": obj{"n": i}})
	}
	asked := planner.request(ch, "worker", obj{"home": desk})
	planner.request(doomed, "reviewer")
	said := planner.say(ch, obj{"to": "worker", "home": desk})
	entry := planner.post("/intents/"+in+"/acl/entries", obj{"principal_id": "worker", "home": desk, "permission": "admin"}).ok(201).id()

	sweep := func() *answer {
		for more := true; more; {
			var err error
			if more, err = h.e.sweepOnce(h.t.Context()); err != nil {
				return &answer{t: h.t, status: 500}
			}
		}
		return &answer{t: h.t, status: 200}
	}
	return []written{
		{"intent", func() *answer { return planner.post("/intents", obj{"title": "new"}) }},
		{"bind", func() *answer { return h.from(laptop, "reader").get("/intents/" + in) }},
		{"message", func() *answer { return far.send(ch, obj{"payload": obj{"x": strings.Repeat("x", 1000)}}) }},
		{"keyed message", func() *answer { return far.with("Idempotency-Key", "k").send(ch, obj{}) }},
		{"named channel", func() *answer { return far.post("/intents/"+in+"/channels/new/messages", obj{"payload": obj{}}) }},
		{"request", func() *answer {
			return planner.send(ch, obj{"message_type": "request", "to": "reviewer", "payload": obj{}})
		}},
		{"receipt", func() *answer { return far.patch(ch+"/messages/"+said, obj{"status": "read"}) }},
		{"response", func() *answer { return far.respond(ch, asked) }},
		{"channel", func() *answer {
			return far.post("/intents/"+in+"/channels", obj{"name": "more", "members": []any{"worker", "planner"}})
		}},
		{"patched channel", func() *answer {
			return planner.patch(doomed, obj{"add_members": []any{"welder"}, "options": obj{"ttl": "3600s"}})
		}},
		{"state", func() *answer {
			return planner.with("If-Match", "1").post("/intents/"+in+"/state", obj{"state": obj{"a": 1}})
		}},
		{"event", func() *answer {
			return far.post("/intents/"+in+"/events", obj{"event_type": "comment", "payload": obj{}})
		}},
		{"entry", func() *answer {
			return far.post("/intents/"+in+"/acl/entries", obj{"principal_id": "welder", "permission": "read"})
		}},
		{"dropped entry", func() *answer { return planner.do("DELETE", "/intents/"+in+"/acl/entries/"+entry, nil) }},
		{"assignment", func() *answer { return planner.post("/intents/"+in+"/agents", obj{"agent_id": "welder"}) }},
		{"coordinator", func() *answer {
			return planner.post("/coordinators", obj{"intent_id": in, "agent_id": "reviewer"})
		}},
		{"heartbeat", func() *answer { return planner.post("/coordinators/"+lead+"/heartbeat", nil) }},
		{"task", func() *answer { return far.post("/tasks", obj{"intent_id": in, "name": "n"}) }},
		{"end of a task", func() *answer {
			return planner.with("If-Match", "1").patch("/tasks/"+over, obj{"status": "completed"})
		}},
		{"agent", func() *answer { return h.as("welder").register(obj{"role_id": "welders"}) }},
		{"agent again", func() *answer { return h.as("welder").register(obj{"role_id": "bosses"}) }},
		{"record", func() *answer {
			if err := h.learn(desk, "worker", obj{"status": "active", "role_id": "welders"}); err != nil {
				return &answer{t: h.t, status: 500}
			}
			return &answer{t: h.t, status: 200}
		}},
		{"departure", func() *answer { return h.as("reviewer").do("DELETE", "/agents/reviewer", nil) }},
		{"leaving", sweep},
		{"closed channel", func() *answer { return planner.patch(doomed, obj{"status": "closed"}) }},
		{"deleted channel", func() *answer { return planner.do("DELETE", doomed, nil) }},
		{"deleted open channel", func() *answer { return planner.do("DELETE", ch, nil) }},
		{"swept channels", sweep},
		{"end of the intent", func() *answer {
			return planner.with("If-Match", "2").post("/intents/"+in+"/status", obj{"status": "completed"})
		}},
	}
}

// inTheStore is what the engine's memory would say if it were read from the store.
func (h *host) inTheStore() []string {
	h.t.Helper()
	other := *h
	other.cfg.Budget, other.cfg.Inside = nil, nil
	var err error
	if other.e, err = NewEngine(h.t.Context(), other.cfg); err != nil {
		h.t.Fatal(err)
	}
	return other.e.told()
}

// What a write that is lost at its end has changed is as it was, whatever it has changed;
// and what memory says, also of the same write made again, is what the store says.
// holds: security.md#on-this-machine
func TestLostWritesChangeNothing(t *testing.T) {
	lost := errors.New("lost")
	fail := false
	h := start(t, toOthers, func(c *Config) {
		c.Inside = func(run func() error) error {
			if err := run(); err != nil || !fail {
				return err
			}
			return lost
		}
	})
	for _, step := range h.writes() {
		before := h.e.told()
		fail = true
		if a := step.make(); a.status < 500 && step.what != "leaving" && step.what != "departure" {
			t.Errorf("%s: %d: nothing was lost", step.what, a.status)
		}
		fail = false
		differ(t, step.what+", lost", h.e.told(), before)
		if a := step.make(); a.status >= 300 {
			t.Errorf("%s: %d %s", step.what, a.status, a.raw)
		}
		kept := h.e.told()
		if slices.Equal(kept, before) && step.what != "leaving" {
			t.Errorf("%s: nothing has changed", step.what)
		}
		differ(t, step.what+", in the store", h.inTheStore(), kept)
	}
}

// Where a write panics, between any two steps of what it changes, memory says what the
// store says; who has asked for it hears of a failure, and it can be made again.
// holds: security.md#agents-on-this-machine
func TestAPanicBetweenChangesUndoesThem(t *testing.T) {
	h := start(t, toOthers)
	for _, step := range h.writes() {
		made := func() (a *answer, broken any) {
			defer func() { broken = recover() }() // of what goes on without a request
			return step.make(), nil
		}
		points := 0
		for panicked := true; panicked; points++ {
			panicked = false
			n := points
			h.e.stepped = func() {
				if n--; n == -1 {
					panicked = true
					panic("a bug")
				}
			}
			a, broken := made()
			h.e.stepped = nil
			h.unlocked(step.what)
			what := fmt.Sprintf("%s, after %d steps", step.what, points+1)
			switch {
			case !panicked && (broken != nil || a.status >= 300):
				t.Errorf("%s: no panic, and %v %v", what, broken, a)
			case panicked && broken == nil && a.status != 500 && step.what != "departure": // which goes on by itself
				t.Errorf("%s: %d %s", what, a.status, a.raw)
			}
			differ(t, what, h.e.told(), h.inTheStore())
		}
		if points < 2 && step.what != "leaving" {
			t.Errorf("%s: nothing has panicked", step.what)
		}
	}
}

// What a change that panics half-way has changed is as it was: here because a table is not
// there.
// holds: security.md#agents-on-this-machine
func TestAPanicInAChangeUndoesIt(t *testing.T) {
	h := start(t, toOthers)
	in := h.intent("planner")
	planner := h.as("planner")
	for what, c := range map[string]struct {
		lose func() (giveBack func())
		ask  func() *answer
	}{
		"coordinator": {
			func() func() { all := h.e.coords; h.e.coords = nil; return func() { h.e.coords = all } },
			func() *answer {
				return planner.post("/coordinators", obj{"intent_id": in, "agent_id": "reviewer"})
			}},
		"task": {
			func() func() { all := h.e.tasks; h.e.tasks = nil; return func() { h.e.tasks = all } },
			func() *answer { return planner.post("/tasks", obj{"intent_id": in, "name": "n"}) }},
		"channel": {
			func() func() { all := h.e.listed; h.e.listed = nil; return func() { h.e.listed = all } },
			func() *answer {
				return planner.post("/intents/"+in+"/channels", obj{"name": "talk", "members": []any{"planner", obj{"agent_id": "worker", "home": desk}}})
			}},
	} {
		before := h.e.told()
		giveBack := c.lose()
		c.ask().refused(500, "internal")
		giveBack()
		h.unlocked(what)
		differ(t, what, h.e.told(), before)
		c.ask().ok(201)
		differ(t, what+", in the store", h.e.told(), h.inTheStore())
	}
}

// limitPages stops the store from growing, as a full disk does, until lift.
func (h *host) limitPages() (lift func()) {
	limit := func(pages int) {
		h.t.Helper()
		if err := h.db.Write(h.t.Context(), false, func(stx *store.Tx) error {
			return stx.EachRow(fmt.Sprintf("PRAGMA max_page_count = %d", pages), func(func(...any) error) error { return nil })
		}); err != nil {
			h.t.Fatal(err)
		}
	}
	limit(1)
	return func() { limit(1 << 30) }
}

// A full disk, against which one agent writes, ends nobody's asks and streams; they get
// what comes once there is room, and nothing of what was lost.
// holds: security.md#on-this-machine
func TestFullDiskEndsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, in, ch := team(t, toOthers)
		stream := h.follow(h.as("planner"), ch+"/subscribe")
		defer stream.stop()
		asked := make(chan *answer, 1)
		go func() {
			asked <- h.as("planner").post(ch+"/ask", obj{"to": "reviewer", "payload": obj{}})
		}()
		synctest.Wait()
		lift := h.limitPages()
		large := obj{"x": strings.Repeat("x", 200_000)}
		for range 3 {
			h.from(desk, "worker").send(ch, obj{"payload": large}).refused(507, "disk_full")
			h.from(desk, "worker").post("/intents/"+in+"/events", obj{"event_type": "comment", "payload": large}).refused(507, "disk_full")
		}
		lift()
		if len(h.e.memory) == 0 {
			t.Error("the messages are not in memory any more")
		}
		list := h.as("reviewer").messages(ch).ok(200).is("message_type", "request")
		h.as("reviewer").respond(ch, list.list("id")[0].(string)).ok(201)
		(<-asked).ok(200).has(obj{"message_type": "response"})
		if f := stream.next(); f.data["message_type"] != "response" {
			t.Errorf("the stream tells of %v", f.data)
		}
		if n := h.accounted(desk); n != 0 {
			t.Errorf("%d bytes are accounted to who has nothing here", n)
		}
	})
}

// A number of the feed that a lost write got is given out again: a daemon that was told of
// it as the last one misses nothing when the host is started anew.
func TestALostNumberIsGivenOutAgain(t *testing.T) {
	fail := false
	h := start(t, toOthers, func(c *Config) {
		c.Inside = func(run func() error) error {
			if err := run(); err != nil || !fail {
				return err
			}
			return errors.New("lost")
		}
	})
	ch := h.channel("planner", h.intent("planner"), "talk")
	h.from(desk, "worker").get(ch).ok(200)
	fail = true
	for range 5 {
		h.as("planner").send(ch, obj{}).refused(500, "internal")
	}
	fail = false
	last := fmt.Sprint(h.e.settled) // with which the stream of a daemon begins
	h.restart()
	said := h.as("planner").say(ch, obj{})
	events := h.followFrom(h.from(desk, object.Daemon), "/subscribe/home", last)
	defer events.stop()
	if f := events.next(); f.data["data"].(obj)["id"] != said {
		t.Errorf("the stream tells of %v, not of %s", f.data, said)
	}
}

// A change of a task that was made of what a lost write had left is refused, though the task
// has that version by now.
func TestAChangeOfWhatWasLostIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var inside func(run func() error) error
		h := start(t, toOthers, func(c *Config) {
			c.Inside = func(run func() error) error {
				if f := inside; f != nil {
					inside = nil
					return f(run)
				}
				return run()
			}
		})
		in := h.intent("planner")
		p, far := h.as("planner"), h.from(desk, "worker")
		path := "/tasks/" + far.post("/tasks", obj{"intent_id": in, "name": "n"}).ok(201).id()
		change := func(c *client, version string, body obj) <-chan *answer {
			done := make(chan *answer, 1)
			go func() { done <- c.with("If-Match", version).patch(path, body) }()
			synctest.Wait() // until it waits for its turn to write
			return done
		}
		var kept, late <-chan *answer
		inside = func(run func() error) error {
			kept = change(p, "1", obj{"name": "kept"})
			if err := run(); err != nil {
				return err
			}
			late = change(p, "2", obj{"priority": "high"})
			return errors.New("lost")
		}
		far.with("If-Match", "1").patch(path, obj{"name": strings.Repeat("lost", 100)}).refused(500, "internal")
		(<-kept).ok(200)
		(<-late).refused(409, "version_conflict")
		p.get(path).ok(200).has(obj{"name": "kept", "version": 2, "priority": "normal"})
		differ(t, "in the store", h.e.told(), h.inTheStore())
	})
}
