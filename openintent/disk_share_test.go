package openintent

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/integration/statedb"
	"github.com/acpd/acpd/openintent/object"
	"github.com/acpd/acpd/store"
)

// written is what is in the store of messages and events of another daemon's agents.
func (h *host) written(home string) (bytes, events int64) {
	h.t.Helper()
	if err := h.db.Read(h.t.Context(), func(stx *store.Tx) error {
		return stx.QueryRow(`SELECT (SELECT coalesce(sum(octet_length(head)), 0) FROM openintent_message WHERE sender LIKE '%@' || ?1)
			+ (SELECT coalesce(sum(octet_length(doc)), 0) FROM openintent_event WHERE doc ->> 'actor' LIKE '%@' || ?1),
			(SELECT count(*) FROM openintent_event WHERE doc ->> 'actor' LIKE '%@' || ?1)`, home).Scan(&bytes, &events)
	}); err != nil {
		h.t.Fatal(err)
	}
	return bytes, events
}

// commit waits until what the world knows is committed.
func (h *host) commit() {
	h.t.Helper()
	if err := h.db.Write(h.t.Context(), false, func(*store.Tx) error { return nil }); err != nil {
		h.t.Fatal(err)
	}
}

// accounted fails the test unless what a daemon is charged for is what there is.
func (h *host) accounted(home string) int64 {
	h.t.Helper()
	bytes, events := h.written(home)
	var counted int64
	for _, in := range h.e.intents {
		counted += in.shares[home].events
	}
	made := h.objects(home)
	if n := held(h.e.disk, home); n != bytes+made || counted != events {
		h.t.Fatalf("%d bytes and %d events are charged, %d and %d are there", n, counted, bytes+made, events)
	}
	return bytes + made
}

// objects are the bytes of the channels and tasks in the store that a daemon's agents have
// created.
func (h *host) objects(home string) (bytes int64) {
	h.t.Helper()
	if err := h.db.Read(h.t.Context(), func(stx *store.Tx) error {
		return errors.Join(stx.EachRow("SELECT doc FROM openintent_channel WHERE doc ->> '$.home' = ? AND row NOT IN (SELECT channel FROM openintent_grave)", func(scan func(...any) error) error {
			var doc object.Channel
			err := scanDoc(scan, &doc)
			bytes += int64(doc.Size())
			return err
		}, home), stx.EachRow("SELECT doc FROM openintent_task WHERE coalesce(doc ->> '$.charged_to', doc ->> '$.home') = ?", func(scan func(...any) error) error {
			var doc object.Task
			err := scanDoc(scan, &doc)
			bytes += int64(doc.Size())
			return err
		}, home))
	}); err != nil {
		h.t.Fatal(err)
	}
	return bytes
}

// Channels and tasks of another daemon's agents are in its share of the disk as they are:
// the largest fill it before there are as many as it may have. It is known after a restart,
// and free again when they are smaller or gone.
// holds: security.md#the-budget
func TestObjectsAreInAShare(t *testing.T) {
	h := start(t, toOthers)
	small := budget.Row{Name: "channel_bytes", Unit: budget.Bytes, Peer: 256 << 10, All: 1 << 20}
	restrict := func() {
		h.e.disk = new(budget.Book).OpenAccount(small)
		for home := range h.e.onDisk {
			h.e.syncGuestAccounts(home)
		}
	}
	restrict()
	worker, in := h.from(desk, "worker"), h.intent("planner")
	options := obj{"note": strings.Repeat("x", longOptions-20)}
	var channels, tasks []string
	for i := range 10 * small.Peer / longOptions {
		if a := worker.post("/intents/"+in+"/channels", obj{"name": fmt.Sprint("c", i), "options": options}); a.status == 201 {
			channels = append(channels, "/channels/"+a.id())
		} else {
			a.refused(429, "disk_share").has(obj{"row": "channel_bytes"})
			if i%100 != 0 {
				continue
			}
		}
		if n := h.accounted(desk); n > small.Peer {
			t.Fatalf("%d bytes are there", n)
		}
	}
	if n := len(channels); n < 50 || n >= int(small.Peer/longOptions) {
		t.Errorf("%d channels with the largest options were made", n)
	}
	for _, ch := range channels[:len(channels)/2] {
		worker.do("DELETE", ch, nil).ok(200)
		h.accounted(desk)
	}
	long := obj{"text": strings.Repeat("x", object.MaxTask/2)}
	for range 10 * small.Peer / object.MaxTask {
		if a := worker.post("/tasks", obj{"intent_id": in, "name": "t", "input": long}); a.status == 201 {
			tasks = append(tasks, "/tasks/"+a.id())
		} else {
			a.refused(429, "disk_share").has(obj{"row": "channel_bytes"})
		}
		if n := h.accounted(desk); n > small.Peer {
			t.Fatalf("%d bytes are there", n)
		}
	}
	if n := len(tasks); n < 2 || n > 4 {
		t.Errorf("%d long tasks were made", n)
	}
	for worker.post("/intents/"+in+"/events", obj{"event_type": "comment", "payload": obj{}}).status == 201 {
	}
	worker.with("If-Match", "1").patch(tasks[0], obj{"output": strings.Repeat("x", object.MaxTask/2-2048)}).refused(429, "disk_share")
	worker.do("DELETE", channels[len(channels)/2], nil).ok(200)
	worker.with("If-Match", "1").patch(tasks[0], obj{"input": obj{}}).ok(200)
	h.accounted(desk)
	last := channels[len(channels)-1]
	worker.patch(last, obj{"options": obj{"note": nil}}).ok(200)
	h.accounted(desk)
	h.restart()
	restrict()
	h.accounted(desk)
	h.as("planner").post("/intents/"+in+"/channels", obj{"name": "here", "options": options}).ok(201)
	h.from(laptop, "tester").post("/intents/"+in+"/channels", obj{"name": "there", "options": options}).ok(201)
	h.accounted(laptop)
}

// Who makes a task longer pays for it, whoever has created it.
// holds: security.md#between-trusted-peers
func TestWhoMakesATaskLongerPays(t *testing.T) {
	h := start(t, toOthers)
	small := budget.Row{Name: "channel_bytes", Unit: budget.Bytes, Peer: 256 << 10, All: 1 << 20}
	restrict := func() {
		h.e.disk = new(budget.Book).OpenAccount(small)
		for home := range h.e.onDisk {
			h.e.syncGuestAccounts(home)
		}
	}
	restrict()
	worker, tester, in := h.from(desk, "worker"), h.from(laptop, "tester"), h.intent("planner")
	create := func(a *client) string {
		return "/tasks/" + a.post("/tasks", obj{"intent_id": in, "name": "t", "charged_to": laptop}).ok(201).id()
	}
	long := obj{"output": strings.Repeat("x", object.MaxTask/2)}
	theirs, ours := create(worker), create(h.as("planner"))
	before, none := h.accounted(desk), h.accounted(laptop)
	if none != 0 {
		t.Errorf("%d bytes are charged to who has done nothing", none)
	}
	for _, task := range []string{theirs, ours} {
		tester.with("If-Match", "1").patch(task, long).ok(200)
	}
	if now := h.accounted(desk); now >= before {
		t.Errorf("%d bytes are charged for what another has made longer, %d before", now, before)
	}
	if now := h.accounted(laptop); now < object.MaxTask {
		t.Errorf("%d bytes are charged to who has made two tasks longer", now)
	}
	h.restart()
	restrict()
	worker, tester = h.from(desk, "worker"), h.from(laptop, "tester")
	h.accounted(desk)
	h.accounted(laptop)
	refused := 0
	for range 10 * small.Peer / object.MaxTask * 2 { // ten times its share
		if a := tester.with("If-Match", "1").patch(create(h.as("planner")), long); a.status != 200 {
			a.refused(429, "disk_share").has(obj{"row": "channel_bytes"})
			refused++
		}
		if n := h.accounted(laptop); n > small.Peer {
			t.Fatalf("%d bytes are there", n)
		}
	}
	if refused == 0 {
		t.Error("none was refused")
	}
	tester.with("If-Match", "2").patch(theirs, obj{"output": nil}).ok(200) // shorter is free
	worker.with("If-Match", "3").patch(theirs, obj{"output": "done"}).ok(200)
	if now := h.accounted(desk); now < before-2*headRoom {
		t.Errorf("%d bytes are charged to who has made it longer again", now)
	}
	h.accounted(laptop)
}

// What agents of another daemon write is a share of the disk, on one intent and on all;
// nobody else's is smaller for it. It is known after a restart, and free again when it
// is gone.
// holds: security.md#the-budget
func TestDiskIsShared(t *testing.T) {
	h := start(t, toOthers)
	if row := boundsOf(h.e.disk); row != (budget.Row{Name: "channel_bytes", Unit: budget.Bytes, Peer: 256 << 20, All: 2 << 30}) || h.e.perIntent != (diskShare{64 << 20, 100_000}) {
		t.Errorf("the row is %+v, of an intent %+v", row, h.e.perIntent)
	}
	small := budget.Row{Name: "channel_bytes", Unit: budget.Bytes, Peer: 256 << 10, All: 1 << 20}
	restrict := func() {
		h.e.disk = new(budget.Book).OpenAccount(small)
		h.e.perIntent = diskShare{192_000, 50}
		for home := range h.e.onDisk {
			h.e.syncGuestAccounts(home)
		}
	}
	restrict()
	worker := h.from(desk, "worker")
	one, two := h.intent("planner"), h.intent("planner")
	first, second := h.channel("planner", one, "talk"), h.channel("planner", two, "talk")
	fill := func(send func() *answer) (taken int) {
		t.Helper()
		for range 10 * small.Peer / 31_250 {
			if a := send(); a.status < 300 {
				taken++
			} else {
				a.refused(429, "disk_share").has(obj{"row": "channel_bytes"})
			}
			if n := held(h.e.disk, desk); n > small.Peer {
				t.Fatalf("%d bytes are written", n)
			}
		}
		return taken
	}
	text := obj{"text": strings.Repeat("x", 31_250)}
	large := obj{"message_type": "broadcast", "payload": text}
	if n := fill(func() *answer { return worker.send(first, large) }); n != 6 {
		t.Errorf("%d messages were taken on one intent", n)
	}
	if n := fill(func() *answer {
		return worker.post("/intents/"+two+"/events", obj{"event_type": "comment", "payload": text})
	}); n != 2 {
		t.Errorf("%d events were taken on another", n)
	}
	h.accounted(desk)
	// Others, and agents here, go on.
	h.from(laptop, "tester").send(first, large).ok(201)
	h.as("planner").send(first, large).ok(201)
	h.accounted(laptop)
	// What frees is taken, also now; and what little fits.
	worker.get(first + "/messages?limit=1").ok(200)
	before := h.accounted(desk)
	h.restart()
	worker = h.from(desk, "worker")
	restrict()
	if h.accounted(desk) != before {
		t.Error("another share after a restart")
	}
	worker.send(second, large).refused(429, "disk_share")
	h.as("planner").do("DELETE", first, nil).ok(200)
	defer h.run()()
	await.Until(t, "the sweep", func() bool { return held(h.e.disk, desk) < before })
	await.Until(t, "all of it", func() bool {
		h.e.mu.RLock()
		defer h.e.mu.RUnlock()
		return len(h.e.graves) == 0
	})
	h.commit()
	if n := h.accounted(desk); n > before-6*31_250 {
		t.Errorf("%d bytes are charged after all messages are gone", n)
	}
	worker.send(second, large).ok(201)
	// A channel that keeps few messages never fills up.
	few := h.channel("planner", one, "few", obj{"options": obj{"max_messages": 2}})
	for range 10 * small.Peer / 31_250 {
		worker.send(few, large).ok(201)
	}
	h.accounted(desk)
	// Events are bounded in number too.
	refused := 0
	for range 10 * 50 {
		if worker.post("/intents/"+one+"/events", obj{"event_type": "comment", "payload": obj{}}).status == 429 {
			refused++
		}
	}
	if s := h.e.intents[one].shares[desk]; s.events != 50 || refused < 450 {
		t.Errorf("%d events, %d refused", s.events, refused)
	}
	h.accounted(desk)
	if text := string(worker.send(few, large).raw); !strings.Contains(text, "50 events") || strings.Contains(text, "delete") {
		t.Errorf("the refusal does not say what there is too much of, or what does not help: %s", text)
	}
}

// stored is how many bytes of messages, receipts and events are in the store.
func (h *host) stored() (bytes int64) {
	h.t.Helper()
	statedb.Query(h.t, h.db, &bytes, `SELECT (SELECT coalesce(sum(octet_length(head)), 0) FROM openintent_message) + (SELECT coalesce(sum(octet_length(doc)), 0) FROM openintent_event)
			+ (SELECT coalesce(sum(octet_length(agent) + ?), 0) FROM openintent_receipt)`, receiptBytes)
	return bytes
}

// What the daemon writes because another one's agents come and go, and that they have
// read something, is of that one's share.
// holds: security.md#the-budget
func TestNoticesAndReceiptsAreOfAShare(t *testing.T) {
	h := start(t, toOthers)
	row := budget.Row{Name: "channel_bytes", Unit: budget.Bytes, Peer: 256 << 10, All: 1 << 20}
	h.e.disk = new(budget.Book).OpenAccount(row)
	id := h.intent("planner")
	far := h.from(desk, "reviewer")
	agents, names := longMembers(5), []string{"reviewer"}
	for _, a := range agents {
		names = append(names, a+"@"+desk)
	}
	var all []string
	for _, name := range []string{"a", "b", "c", "d"} {
		all = append(all, "/channels/"+far.post("/intents/"+id+"/channels", obj{"name": name, "member_policy": "explicit", "members": names, "options": obj{"audit": true}}).ok(201).id())
	}
	read := far.say(all[0], obj{})
	for _, a := range agents {
		h.from(desk, a).patch(all[0]+"/messages/"+read, obj{"status": "read"}).ok(200)
	}
	charged := func() int64 { return held(h.e.disk, desk) - h.objects(desk) } // for what agents have written
	before := h.stored() - charged()                                          // what the agents here have written
	check := func(when string) {
		t.Helper()
		if n := h.stored() - charged(); n != before {
			t.Fatalf("%s: %d bytes are in the store that nobody is charged for", when, n-before)
		}
	}
	for range 20 {
		for _, a := range agents {
			h.learned(desk, a, obj{"status": "deregistered"})
			h.learned(desk, a, obj{"status": "active"})
		}
		if n := len(h.e.channels[strings.TrimPrefix(all[0], "/channels/")].doc.Members); n != 1 {
			t.Fatalf("%d members are left", n)
		}
		check("notices")
		for _, ch := range all {
			if a := far.patch(ch, obj{"add_members": names}); a.status != 200 { // longer than there is room for
				a.refused(429, "disk_share")
			}
		}
	}
	if n := held(h.e.disk, desk); n > row.Peer || n < row.Peer-4*headRoom {
		t.Errorf("%d bytes are charged", n)
	}
	full := held(h.e.disk, desk)
	for _, ch := range all {
		far.do("DELETE", ch, nil).ok(200)
	}
	for more := true; more; {
		var err error
		if more, err = h.e.sweepOnce(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	check("after the channels")
	if n := held(h.e.disk, desk); n >= full {
		t.Errorf("%d bytes are charged after all channels are gone, of %d", n, full)
	}
}

// Agents of another daemon that only read write nothing where there is no room for them,
// and read all the same.
// holds: security.md#on-this-machine
func TestReadsWithoutRoomWriteNothing(t *testing.T) {
	low := false
	h := start(t, toOthers, func(c *Config) {
		c.Room = func(home string) error {
			if low {
				return errors.New("the disk is almost full")
			}
			return nil
		}
	})
	in := h.intent("planner")
	ch := h.channel("planner", in, "talk")
	used := func() (n int) {
		t.Helper()
		statedb.Query(t, h.db, &n, "SELECT (SELECT count(*) FROM openintent_used WHERE home <> '') + (SELECT count(*) FROM openintent_event)")
		return n
	}
	read := func(names ...string) {
		t.Helper()
		for _, name := range names {
			for _, path := range []string{"/intents/" + in, "/intents/" + in + "/channels", ch, ch + "/messages"} {
				h.from(desk, name).get(path).ok(200)
			}
		}
	}
	before := used()
	low = true
	read("a", "b")
	low, h.e.perIntent = false, diskShare{} // on the disk there is room, in its share there is none
	read("c", "d")
	if n := used(); n != before {
		t.Errorf("%d rows were written for who has only read", n-before)
	}
	h.e.perIntent = diskShare{budget.IntentBytes, budget.IntentEvents}
	read("a")
	if n := used(); n == before {
		t.Error("an agent that comes while there is room is not known")
	}
}
