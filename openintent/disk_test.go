package openintent

import (
	"errors"
	"strings"
	"testing"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/integration/await"
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
	if n := held(h.e.disk, home); n != bytes || counted != events {
		h.t.Fatalf("%d bytes and %d events are charged, %d and %d are there", n, counted, bytes, events)
	}
	return bytes
}

// What agents of another daemon write is a share of the disk, on one intent and on all;
// nobody else's is smaller for it. It is known after a restart, and free again when it
// is gone.
func TestDiskIsShared(t *testing.T) {
	h := start(t, toOthers)
	if row := h.e.disk.Row(); row != (budget.Row{Name: "channel_bytes", Unit: budget.Bytes, Peer: 256 << 20, All: 2 << 30}) || h.e.perIntent != (share{64 << 20, 100_000}) {
		t.Errorf("the row is %+v, of an intent %+v", row, h.e.perIntent)
	}
	small := budget.Row{Name: "channel_bytes", Unit: budget.Bytes, Peer: 256 << 10, All: 1 << 20}
	restrict := func() {
		h.e.disk = new(budget.Book).Open(small)
		h.e.perIntent = share{192_000, 50}
		h.e.holdShares()
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

// Messages from before shares were counted are counted once.
func TestSharesOfOldMessages(t *testing.T) {
	h := start(t, toOthers)
	ch := h.channel("planner", h.intent("planner"), "talk")
	for range 3 {
		h.from(desk, "worker").say(ch, obj{"payload": quarter})
	}
	if err := h.db.Write(t.Context(), false, func(stx *store.Tx) error {
		_, err := stx.Exec("DELETE FROM openintent_share")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		h.restart()
		if n := held(h.e.disk, desk); n < 750_000 || n > 760_000 {
			t.Errorf("%d bytes are charged", n)
		}
	}
}

// stored is how many bytes of messages, receipts and events are in the store.
func (h *host) stored() (bytes int64) {
	h.t.Helper()
	if err := h.db.Read(h.t.Context(), func(stx *store.Tx) error {
		return stx.QueryRow(`SELECT (SELECT coalesce(sum(octet_length(head)), 0) FROM openintent_message) + (SELECT coalesce(sum(octet_length(doc)), 0) FROM openintent_event)
			+ (SELECT coalesce(sum(octet_length(agent) + ?), 0) FROM openintent_receipt)`, receiptBytes).Scan(&bytes)
	}); err != nil {
		h.t.Fatal(err)
	}
	return bytes
}

// What the daemon writes because another one's agents come and go, and that they have
// read something, is of that one's share.
func TestNoticesAndReceiptsAreOfAShare(t *testing.T) {
	h := start(t, toOthers)
	row := budget.Row{Name: "channel_bytes", Unit: budget.Bytes, Peer: 256 << 10, All: 1 << 20}
	h.e.disk = new(budget.Book).Open(row)
	id := h.intent("planner")
	far, home := h.from(desk, "reviewer"), h.from(desk, Daemon)
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
	before := h.stored() - held(h.e.disk, desk) // what the agents here have written
	check := func(when string) {
		t.Helper()
		if n := h.stored() - held(h.e.disk, desk); n != before {
			t.Fatalf("%s: %d bytes are in the store that nobody is charged for", when, n-before)
		}
	}
	for range 20 {
		for _, a := range agents {
			home.do("PUT", "/agents/"+a+"/record", obj{"status": "deregistered"}).ok(204)
			home.do("PUT", "/agents/"+a+"/record", obj{"status": "active"}).ok(204)
		}
		if n := len(h.e.channels[strings.TrimPrefix(all[0], "/channels/")].doc.Members); n != 1 {
			t.Fatalf("%d members are left", n)
		}
		check("notices")
		for _, ch := range all {
			far.patch(ch, obj{"add_members": names}).ok(200)
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
		if more, err = h.e.sweepSome(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	check("after the channels")
	if n := held(h.e.disk, desk); n >= full {
		t.Errorf("%d bytes are charged after all channels are gone, of %d", n, full)
	}
	// What there was before shares were is counted once, but for events.
	ch := "/channels/" + far.post("/intents/"+id+"/channels", obj{"name": "e", "member_policy": "explicit", "members": names}).ok(201).id()
	read = far.say(ch, obj{})
	h.from(desk, agents[0]).patch(ch+"/messages/"+read, obj{"status": "read"}).ok(200)
	home.do("PUT", "/agents/"+agents[0]+"/record", obj{"status": "deregistered"}).ok(204)
	if err := h.db.Write(t.Context(), false, func(stx *store.Tx) error {
		_, err := stx.Exec("DELETE FROM openintent_share")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	h.restart()
	if err := h.db.Write(t.Context(), false, func(stx *store.Tx) error {
		_, err := stx.Exec("DELETE FROM openintent_event")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if n, want := held(h.e.disk, desk), h.stored(); n != want || n < 1000 {
		t.Errorf("%d bytes are counted of %d", n, want)
	}
}

// Agents of another daemon that only read write nothing where there is no room for them,
// and read all the same.
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
		if err := h.db.Read(t.Context(), func(stx *store.Tx) error {
			return stx.QueryRow("SELECT (SELECT count(*) FROM openintent_used WHERE home <> '') + (SELECT count(*) FROM openintent_event)").Scan(&n)
		}); err != nil {
			t.Fatal(err)
		}
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
	low, h.e.perIntent = false, share{} // on the disk there is room, in its share there is none
	read("c", "d")
	if n := used(); n != before {
		t.Errorf("%d rows were written for who has only read", n-before)
	}
	h.e.perIntent = share{budget.IntentBytes, budget.IntentEvents}
	read("a")
	if n := used(); n == before {
		t.Error("an agent that comes while there is room is not known")
	}
}
