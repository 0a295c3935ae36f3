package openintent

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/integration/statedb"
	"github.com/acpd/acpd/openintent/object"
	"github.com/acpd/acpd/store"
)

// inside counts what writes do while all others wait.
type inside struct {
	*host
	writes int
	bytes  uint64 // allocated by one of them, at most: what is decoded or encoded there
}

// startInside starts a host whose writes are counted. One goroutine may use it.
func startInside(t *testing.T) *inside {
	i := new(inside)
	i.host = start(t, toOthers, func(c *Config) { c.Inside = i.run })
	return i
}

func (i *inside) run(write func() error) error {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := write()
	runtime.ReadMemStats(&after)
	i.writes++
	i.bytes = max(i.bytes, after.TotalAlloc-before.TotalAlloc)
	return err
}

// most fails the test where a write since the last call has allocated more than
// that, or where there was none.
func (i *inside) most(what string, bytes uint64) {
	i.t.Helper()
	if i.writes == 0 || i.bytes > bytes {
		i.t.Errorf("%s: in %d writes, up to %d bytes were allocated while all others waited, want %d at most", what, i.writes, i.bytes, bytes)
	}
	i.writes, i.bytes = 0, 0
}

// A peer's patches are made before the write begins: a small request must not make the
// writer decode and encode a large state over and over.
func TestStatePatchesAreMadeOutsideOfTheWrite(t *testing.T) {
	h := startInside(t)
	in := h.intent("planner")
	far := h.from(desk, "worker")
	many := obj{}
	for i := range 19_000 {
		many[fmt.Sprint(i)] = obj{}
	}
	bulk, err := json.Marshal(many, json.Deterministic(true))
	if err != nil {
		t.Fatal(err)
	}
	path := strings.Repeat("/a", object.MaxSteps-1)
	patch := func(version, n int, value string) *answer {
		patches := make([]string, n)
		for i := range patches {
			patches[i] = fmt.Sprintf(`{"op":"set","path":%q,"value":%s}`, path+value, bulk)
			if n > 1 {
				patches[i] = fmt.Sprintf(`{"op":"set","path":%q,"value":%d}`, path+"/x", i)
			}
		}
		return far.with("If-Match", fmt.Sprint(version)).post("/intents/"+in+"/state", `{"patches":[`+strings.Join(patches, ",")+`]}`)
	}
	patch(1, 1, "").ok(200)
	h.most("a large value", 3<<20)
	patch(2, 40, "").ok(200).has(obj{"version": 3})
	h.most("40 patches of 3.9 KB", 5<<20)
	patch(3, 1000, "").ok(200).has(obj{"version": 4})
	h.most("1,000 patches", 5<<20)
	// The last one counts, and the rest is as it was.
	at := far.get("/intents/" + in).ok(200).at("state")
	for range object.MaxSteps - 1 {
		at = at.(obj)["a"]
	}
	if got := at.(obj); len(got) != len(many)+1 || got["x"] != 999.0 {
		t.Errorf("%d members, x is %v", len(got), got["x"])
	}
}

// What patches may make the host decode is bounded too.
func TestStatePatchesAreBounded(t *testing.T) {
	h := start(t)
	in := h.intent("planner")
	p := h.as("planner")
	deep := func(size int) string {
		return strings.Repeat(`{"a":`, object.MaxSteps) + `"` + strings.Repeat("x", size) + `"` + strings.Repeat("}", object.MaxSteps)
	}
	raw := func(version string, patches ...string) *answer {
		return p.with("If-Match", version).post("/intents/"+in+"/state", `{"patches":[`+strings.Join(patches, ",")+`]}`)
	}
	through := fmt.Sprintf(`{"op":"set","path":%q,"value":1}`, strings.Repeat("/a", object.MaxSteps))
	again := `{"op":"set","path":"/a","value":` + deep(200<<10) + `}`
	raw("1", again).ok(200)
	raw("2", through, again, through).refused(413, "too_large")
	raw("2", through, through).ok(200)
	p.post("/intents", obj{"title": "t", "state": obj{"x": strings.Repeat("x", object.MaxState)}}).refused(413, "too_large")
}

// Two changes of one version: one is made, whatever the other was computed from.
func TestStatePatchesNameTheirVersion(t *testing.T) {
	h := start(t)
	in := h.intent("planner")
	patch := func(version int, agent string) *answer {
		return h.as(agent).with("If-Match", fmt.Sprint(version)).post("/intents/"+in+"/state", obj{"state": obj{agent: version}})
	}
	const n = 50
	for version := 1; version <= n; version++ {
		answers := make(chan *answer, 2)
		for _, agent := range []string{"planner", "reviewer"} {
			go func() { answers <- patch(version, agent) }()
		}
		made := 0
		for range cap(answers) {
			if a := <-answers; a.status == 200 {
				made++
			} else {
				a.refused(409, "version_conflict")
			}
		}
		if made != 1 {
			t.Fatalf("of two changes of version %d %d were made", version, made)
		}
	}
	h.as("planner").get("/intents/" + in).ok(200).has(obj{"version": n + 1})
	h.as("planner").get("/intents/" + in + "/events/verify").ok(200).has(obj{"valid": true, "event_count": n + 1})
}

// weighed is a host of which every write says how much it has removed: the next one sees it.
type weighed struct {
	*host
	rows, bytes  int // in the store
	most, mostOf int // that one write has removed
}

func startWeighed(t *testing.T) *weighed {
	w := new(weighed)
	w.host = start(t, toOthers, func(c *Config) {
		c.Inside = func(run func() error) error {
			w.weigh()
			return run()
		}
	})
	return w
}

func (w *weighed) weigh() {
	if w.host == nil {
		return
	}
	var rows, bytes int
	if err := w.db.Read(w.t.Context(), func(stx *store.Tx) error {
		return stx.QueryRow(`SELECT count(*) + (SELECT count(*) FROM openintent_receipt) + (SELECT count(*) FROM openintent_event) + (SELECT count(*) FROM openintent_channel), coalesce(sum(octet_length(head)), 0)
			FROM openintent_message`).Scan(&rows, &bytes)
	}); err != nil {
		w.t.Error(err)
	}
	w.most, w.mostOf = max(w.most, w.rows-rows), max(w.mostOf, w.bytes-bytes)
	w.rows, w.bytes = rows, bytes
}

// slices fails the test where a write since the last call has removed more than a slice.
func (w *weighed) slices(what string) {
	w.t.Helper()
	w.weigh()
	if w.most > 64 || w.mostOf > sliceBytes {
		w.t.Errorf("%s: one write has removed %d rows, or %d bytes of text, while all others waited", what, w.most, w.mostOf)
	}
	w.most, w.mostOf = 0, 0
}

// sweepAll removes what is gone.
func (w *weighed) sweepAll() {
	w.t.Helper()
	for more := true; more; {
		var err error
		if more, err = w.e.sweepOnce(w.t.Context()); err != nil {
			w.t.Fatal(err)
		}
	}
}

// What a peer has filled over a long time does not leave in one write.
func TestLargeRemovalsAreInSlices(t *testing.T) {
	h := startWeighed(t)
	in := h.intent("planner")
	far := h.from(desk, "worker")
	const n = 150
	fill := func(name string) string {
		t.Helper()
		ch := "/channels/" + far.post("/intents/"+in+"/channels", obj{"name": name, "options": obj{"max_messages": 10_000}}).ok(201).id()
		for i := range n {
			size := 10
			if i%5 == 0 {
				size = 200 << 10
			}
			id := far.say(ch, obj{"payload": obj{"x": strings.Repeat("x", size)}})
			if i == 7 {
				for i := range 150 {
					h.as(fmt.Sprint("reader", i)).patch(ch+"/messages/"+id, obj{"status": "read"}).ok(200)
				}
			}
		}
		return ch
	}
	ch := fill("talk")
	h.weigh()
	far.do("DELETE", ch, nil).ok(200)
	h.slices("the removal of a channel")
	far.get(ch).refused(404, "not_found")
	for range 3 {
		if _, err := h.e.sweepOnce(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	h.restart() // it goes on
	far = h.from(desk, "worker")
	far.get(ch).refused(404, "not_found")
	h.sweepAll()
	h.slices("what is left of a channel")
	if h.bytes != 0 {
		t.Errorf("%d bytes of messages are left", h.bytes)
	}
	// What max_messages evicts: that it is less than before comes all at once.
	ch = fill("another")
	far.patch(ch, obj{"options": obj{"max_messages": 1}}).ok(200)
	left := 0
	for range 100 {
		far.say(ch, obj{})
	}
	h.slices("what is evicted")
	statedb.Query(t, h.db, &left, "SELECT count(*) FROM openintent_message")
	if left > 1+evictStep {
		t.Errorf("%d messages are left", left)
	}
}

// The end of an intent or a task is written once, however many channels and requests end
// with it.
func TestEndsAreSmallWrites(t *testing.T) {
	var cost store.Cost
	h := start(t)
	h.db.ObserveWrites(func(c store.Cost) { cost.Rows, cost.Bytes = max(cost.Rows, c.Rows), max(cost.Bytes, c.Bytes) })
	in, p := h.intent("planner"), h.as("planner")
	task := p.post("/tasks", obj{"intent_id": in, "name": "n"}).ok(201).id()
	var channels, requests []string
	for i := range 200 {
		more := obj{}
		if i%2 == 0 {
			more["task_id"] = task
		}
		ch := h.channel("planner", in, fmt.Sprint(i), more)
		channels = append(channels, ch)
		for range 3 {
			requests = append(requests, ch+"/messages/"+p.request(ch, "reviewer"))
		}
	}
	small := func(what string) {
		t.Helper()
		if cost.Rows > 8 || cost.Bytes > 64<<10 {
			t.Errorf("%s: %d rows, %d bytes in one write", what, cost.Rows, cost.Bytes)
		}
		cost = store.Cost{}
	}
	status := func(i int, want string) {
		t.Helper()
		h.as("planner").get(channels[i]).ok(200).has(obj{"status": want})
		for _, r := range requests[3*i : 3*i+3] {
			h.as("planner").get(r).ok(200).has(obj{"status": map[string]string{"open": "delivered", "closed": "expired"}[want]})
		}
	}
	small("channels")
	p.with("If-Match", "1").patch("/tasks/"+task, obj{"status": "completed"}).ok(200)
	small("the end of a task")
	for range 2 {
		for i := range channels {
			status(i, []string{"closed", "open"}[i%2])
		}
		h.restart()
	}
	h.as("planner").with("If-Match", "1").post("/intents/"+in+"/status", obj{"status": "completed"}).ok(200)
	small("the end of an intent")
	closedAt := h.as("planner").get(channels[1]).at("closed_at")
	for range 2 {
		for i := range channels {
			status(i, "closed")
		}
		h.restart()
	}
	if again := h.as("planner").get(channels[1]).at("closed_at"); again != closedAt {
		t.Errorf("closed at %v, then %v", closedAt, again)
	}
	h.as("planner").patch(channels[3], obj{"status": "closed"}).ok(200)
}

// Keys that are too old are forgotten a few at a time, whoever has left so many of them.
func TestOldKeysAreForgottenInSlices(t *testing.T) {
	h, _, ch := team(t)
	const n = 300
	for _, home := range []string{"", laptop} {
		statedb.Exec(t, h.db, `INSERT INTO openintent_sent (key, home, sender, channel, hash, at, id, recipient) WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < ?2)
				SELECT 'key' || i, ?1, 'worker', 'chan', x'00', ?3 + i, 'msg', '' FROM n`, home, n, int64(now().Add(-keyTTL-time.Hour)))
	}
	h.restart()
	rows := 0
	h.db.ObserveWrites(func(c store.Cost) { rows = max(rows, c.Rows) })
	for i := range 2*n/keyStep + 1 {
		h.as("planner").with(headerKey, fmt.Sprint(i)).send(ch, obj{}).ok(201)
	}
	left := 0
	statedb.Query(t, h.db, &left, "SELECT count(*) FROM openintent_sent WHERE key LIKE 'key%'")
	if left > 0 || rows > 64 || h.e.guests[laptop].keys != 0 {
		t.Errorf("%d are left, %d are counted, one write has changed %d rows", left, h.e.guests[laptop].keys, rows)
	}
}

// What a message and a task say is read before the write: neither the log nor a proof
// makes all others wait for the largest of them.
func TestLargestInputsAreReadOutsideOfTheWrite(t *testing.T) {
	h := startInside(t)
	in := h.intent("planner")
	far := h.from(desk, "worker")
	ch := h.channel("planner", in, "talk", obj{"options": obj{"audit": true}})
	many := obj{}
	for i := range 17_000 {
		many[fmt.Sprint("k", i)] = i
	}
	far.send(ch, obj{"payload": obj{}}).ok(201)
	h.most("a small message", 64<<10)
	far.send(ch, obj{"payload": many}).ok(201)
	h.most("a large message that is logged", 3<<20)
	task := far.post("/tasks", obj{"intent_id": in, "name": "n"}).ok(201).id()
	far.with("If-Match", "1").patch("/tasks/"+task, obj{"input": obj{"x": strings.Repeat("x", object.MaxTask-2000)}, "ignored": many}).ok(200)
	h.most("a large task", 1<<20)
}

// An agent that was in many channels, and is asked much, leaves them one by one.
func TestLeavingIsInSlices(t *testing.T) {
	rows := 0
	h := start(t, toOthers)
	in, p := h.intent("planner"), h.as("planner")
	far := h.from(desk, "worker")
	far.register(obj{}).ok(201)
	far.get("/intents/" + in).ok(200)
	named := obj{"agent_id": "worker", "home": desk}
	var channels []string
	for i := range 100 {
		ch := "/channels/" + p.post("/intents/"+in+"/channels", obj{"name": fmt.Sprint(i), "member_policy": "explicit", "members": []any{"planner", named}}).ok(201).id()
		channels = append(channels, ch)
		for range map[bool]int{true: 150, false: 1}[i == 0] {
			p.send(ch, obj{"message_type": "request", "to": "worker", "home": desk}).ok(201)
		}
	}
	h.db.ObserveWrites(func(c store.Cost) { rows = max(rows, c.Rows) })
	far.do("DELETE", "/agents/worker", nil).ok(200)
	if rows > 64 {
		t.Errorf("one write has changed %d rows while all others waited", rows)
	}
	for i, ch := range channels {
		h.as("planner").get(ch).ok(200).has(obj{"members": []any{"planner"}})
		if i > 1 {
			continue
		}
		h.as("planner").get(ch + "/messages?status=expired").ok(200)
		if n := len(h.as("planner").get(ch + "/messages?status=expired").list("id")); n != map[bool]int{true: 150, false: 1}[i == 0] {
			t.Errorf("%d requests have expired", n)
		}
		h.as("planner").get(ch+"/messages?types=notify").is("sender", "system")
	}
	// One that is interrupted goes on, before the agent is back or by itself.
	far.register(obj{}).ok(200)
	p.patch(channels[0], obj{"add_members": []any{named}}).ok(200)
	for _, back := range []bool{false, true} {
		if err := h.e.runTransaction(t.Context(), true, func(t *tx) error { return t.beginDeparture(h.e.agents[agentKey{desk, "worker"}], "") }); err != nil {
			t.Fatal(err)
		}
		h.restart()
		if back {
			h.from(desk, "worker").register(obj{}).ok(200)
		} else {
			for more := true; more; {
				var err error
				if more, err = h.e.sweepOnce(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}
		h.as("planner").get(channels[0]).ok(200).has(obj{"members": []any{"planner"}})
		h.as("planner").patch(channels[0], obj{"add_members": []any{named}}).ok(200)
	}
}
