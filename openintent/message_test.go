package openintent

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/acpd/acpd/openintent/object"
)

// team is an open intent of planner's with a channel.
func team(t *testing.T, change ...func(*Config)) (h *host, in, ch string) {
	h = start(t, change...)
	in = h.intent("planner")
	return h, in, h.channel("planner", in, "talk")
}

func TestMessageHasAllTwelveFields(t *testing.T) {
	h, _, ch := team(t)
	p := h.as("planner")
	a := p.send(ch, obj{"payload": obj{"text": "a  b\u2028", "big": int64(12345678901234567)}}).ok(201)
	for _, name := range []string{"id", "channel_id", "sender", "to", "message_type", "correlation_id", "payload", "metadata", "status", "created_at", "expires_at", "read_at"} {
		if _, ok := a.body.(obj)[name]; !ok {
			t.Errorf("no %s in %s", name, a.raw)
		}
	}
	a.has(obj{"metadata": obj{}, "to": nil, "read_at": nil, "correlation_id": nil})
	if !timeForm.MatchString(a.str("created_at")) || !strings.Contains(string(a.raw), `"big":12345678901234567`) {
		t.Errorf("%s", a.raw)
	}
	want := obj{"priority": "high", "nested": obj{"a": []any{1, "é"}}}
	h.as("reviewer").get(ch + "/messages/" + p.say(ch, obj{"metadata": want})).ok(200).has(obj{"metadata": want})
	h.as("").send(ch, obj{"sender": "reviewer"}).ok(201).has(obj{"sender": "reviewer"}) // an operator may act as anybody
	p.post(ch+"/messages", obj{}).ok(201).has(obj{"payload": obj{}, "message_type": "notify", "sender": "planner"})
	p.post(ch+"/messages", `{"payload": { "a" : [ 1,
		2 ] }}`).ok(201)
	p.post(ch+"/messages", `{"payload": {"a":1,"a":2}}`).refused(400, "bad_json").has(obj{"message": "the body is not valid JSON, from byte 19 on (counted from 0): names must not repeat, and text must be UTF-8"})
	p.post(ch+"/messages", `{"payload": `).refused(400, "bad_json")
}

func TestResponseReferencesARequestOfTheChannel(t *testing.T) {
	h, in, ch := team(t)
	p, r := h.as("planner"), h.as("reviewer")
	respond := func(id any) *answer {
		return r.send(ch, obj{"message_type": "response", "correlation_id": id, "to": "desk"})
	}
	request := p.request(ch, "reviewer")
	respond(request).ok(201).has(obj{"correlation_id": request, "to": "planner"})
	r.respond(ch, request).ok(201).has(obj{"message_type": "response", "correlation_id": request, "to": "planner"})
	p.get(ch+"/messages?types=response").is("correlation_id", request, request)
	respond(nil).refused(422, "invalid")
	respond("msg_unknown").refused(422, "invalid")
	respond(strings.Replace(request, hostID, "9999999999", 1)).refused(422, "invalid")
	notify := p.say(ch, obj{})
	respond(notify).refused(422, "invalid")
	r.respond(ch, notify).refused(422, "invalid")
	r.respond(ch, "msg_unknown").refused(404, "not_found")
	for _, in := range []string{in, h.intent("planner")} { // no message goes from intent to intent
		other := h.channel("planner", in, "other")
		elsewhere := p.request(other, "reviewer")
		respond(elsewhere).refused(422, "invalid")
		r.respond(ch, elsewhere).refused(404, "not_found")
	}
	h.as("desk").respond(ch, request).refused(404, "not_found") // it is not for desk, who does not see it
	p.respond(ch, request).refused(403, "not_recipient")
	h.as("").respond(ch, request).refused(403, "not_recipient") // the operator sees it, and replies as an agent alone

	h, _, ch = team(t, func(c *Config) { c.Lenient = true })
	h.as("reviewer").respond(ch, h.as("planner").say(ch, obj{})).ok(201)
	h.as("reviewer").respond(ch, h.as("planner").say(ch, obj{"message_type": "request"})).ok(201)
}

func TestExpiredMessagesAreNotDelivered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _, ch := team(t)
		p, r := h.as("planner"), h.as("reviewer")
		in := func(d time.Duration) string { return time.Now().Add(d).UTC().Format(time.RFC3339Nano) }
		late := p.send(ch, obj{"to": "reviewer", "expires_at": in(-time.Second)}).ok(201).has(obj{"status": "expired"}).id()
		soon := p.say(ch, obj{"to": "reviewer", "expires_at": in(5 * time.Second)})
		seen := p.say(ch, obj{"to": "reviewer", "expires_at": in(5 * time.Second)})
		r.patch(ch+"/messages/"+seen, obj{"status": "read"}).ok(200)
		kept := p.say(ch, obj{"to": "reviewer"})
		r.messages(ch).is("id", soon, seen, kept)
		time.Sleep(5 * time.Second)
		r.messages(ch).is("id", seen, kept)
		r.get(ch+"/messages?status=expired").is("id", late, soon)
		r.get(ch+"/messages?status=read").is("id", seen)
		r.get(ch + "/messages/" + soon).ok(200).has(obj{"status": "expired", "read_at": nil})
		h.restart()
		h.as("reviewer").messages(ch).is("id", seen, kept)
		h.as("reviewer").get(ch+"/messages?status=expired").is("id", late, soon)
		h.as("reviewer").get(ch+"/messages?status=lost").refused(422, "invalid")
		p = h.as("planner")
		for _, bad := range []any{"tomorrow", 5, "0001-01-01T00:00:00Z"} {
			p.send(ch, obj{"expires_at": bad}).refused(422, "invalid").has(obj{"message": "expires_at: a time is text in the form of RFC 3339, like 2006-01-02T15:04:05Z, in the years 1970 to 9999; without an offset it is UTC"})
		}
	})
}

func TestOnlyARecipientMarksAsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _, ch := team(t)
		p, r, d := h.as("planner"), h.as("reviewer"), h.as("desk")
		id := p.say(ch, obj{"to": "reviewer"})
		path := ch + "/messages/" + id
		r.patch(path, obj{"status": "bogus"}).refused(422, "invalid")
		r.patch(path, obj{"status": "delivered"}).refused(422, "invalid")
		p.patch(path, obj{"status": "read"}).refused(403, "not_recipient")
		d.patch(path, obj{"status": "read"}).refused(404, "not_found")
		first := r.patch(path, obj{"status": "read"}).ok(200).has(obj{"status": "read"}).str("read_at")
		time.Sleep(time.Second)
		r.patch(path, obj{"status": "read"}).ok(200).has(obj{"read_at": first})
		p.get(path).has(obj{"status": "read", "read_at": first, "read_by": obj{"reviewer": first}})
		// Of a broadcast everybody sees the own state.
		all := ch + "/messages/" + p.say(ch, obj{"message_type": "broadcast"})
		at := d.patch(all, obj{"status": "read"}).ok(200).has(obj{"status": "read"}).str("read_at")
		for range 2 {
			h.as("reviewer").get(all).has(obj{"status": "delivered", "read_at": nil, "read_by": obj{"desk": at}})
			h.as("planner").get(all).has(obj{"status": "delivered", "read_by": obj{"desk": at}})
			h.as("desk").get(all).has(obj{"status": "read", "read_at": at})
			h.restart()
		}
		gone := h.as("planner").say(ch, obj{"to": "reviewer", "expires_at": "1999-01-01T00:00:00Z"})
		h.as("reviewer").patch(ch+"/messages/"+gone, obj{"status": "read"}).refused(409, "message_expired")
	})
}

func TestListsHaveCursors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t)
		in, p := h.intent("planner"), h.as("planner")
		ch := h.channel("planner", in, "talk", obj{"options": obj{"max_messages": 4}})
		var ids []any
		var times []string
		for n := range 6 {
			time.Sleep(time.Second)
			a := p.send(ch, obj{"payload": obj{"n": n}}).ok(201)
			ids, times = append(ids, a.id()), append(times, a.str("created_at"))
		}
		for range 2 {
			p = h.as("planner")
			list := func(query string) *answer { return p.get(ch + "/messages?wait=0&" + query).ok(200) }
			list("").is("id", ids[2:]...)
			list(fmt.Sprint("since=", ids[3])).is("id", ids[4:]...)
			list(fmt.Sprint("since=", ids[0])).is("id", ids[2:]...) // evicted, and yet a cursor
			list(fmt.Sprint("since=", ids[5])).is("id")
			list("since="+times[3]).is("id", ids[4:]...) // + of the offset means a space
			list("since="+strings.Replace(times[3], "+00:00", "Z", 1)).is("id", ids[4:]...)
			list("limit=2").is("id", ids[4:]...) // the newest
			list(fmt.Sprint("limit=2&since=", ids[2])).is("id", ids[3:5]...)
			list("types=request,response").is("id")
			list("types=notify").is("id", ids[2:]...)
			h.restart()
		}
	})
}

func TestToFiltersByEffectiveRecipient(t *testing.T) {
	h, _, ch := team(t)
	p, r := h.as("planner"), h.as("reviewer")
	r.register(obj{"role_id": "tester"}).ok(201)
	direct := p.say(ch, obj{"to": "reviewer"})
	role := p.say(ch, obj{"to": "role:tester"})
	all := p.say(ch, obj{"message_type": "broadcast"})
	none := p.say(ch, obj{})
	p.say(ch, obj{"to": "desk"})
	p.say(ch, obj{"to": "role:builder"})
	r.get(ch+"/messages?wait=0&to=reviewer").is("id", direct, role, all, none)
	p.get(ch+"/messages?wait=0&to=reviewer").is("id", direct, role, all, none)
	r.get(ch + "/messages?wait=0&to=planner").is("id")
}

func TestRepliesArePushedAndRefusedWhenLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _, ch := team(t)
		p, r := h.as("planner"), h.as("reviewer")
		s := h.follow(p, "/subscribe"+ch)
		id := p.request(ch, "reviewer")
		reply := r.respond(ch, id).ok(201).id()
		if got := s.next(); got.name != object.KindMessage || got.data["id"] != reply || got.data["correlation_id"] != id {
			t.Errorf("pushed %+v", got)
		}
		s.stop()
		late := p.request(ch, "reviewer", obj{"expires_at": time.Now().Add(time.Second).UTC().Format(time.RFC3339)})
		time.Sleep(2 * time.Second)
		r.respond(ch, late).refused(409, "request_expired")
		open := p.request(ch, "reviewer")
		p.patch(ch, obj{"status": "closed"}).ok(200)
		r.respond(ch, open).refused(409, "channel_closed")
	})
}

func TestAnAskThatTimesOutHasExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _, ch := team(t)
		began := time.Now()
		h.as("planner").post(ch+"/ask", obj{"to": "reviewer", "timeout": 2}).refused(504, "ask_timeout")
		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("took %v", took)
		}
		id := h.as("planner").get(ch + "/messages?status=expired").list("id")[0].(string)
		h.as("reviewer").messages(ch).is("id")
		h.as("reviewer").respond(ch, id).refused(409, "request_expired")
	})
}

// A request without expires_at is open for the default time.
func TestRequestsExpireByDefault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _, ch := team(t)
		id := h.as("planner").request(ch, "reviewer")
		time.Sleep(10*time.Minute - time.Second)
		h.as("reviewer").messages(ch).is("status", "delivered")
		h.restart()
		time.Sleep(time.Second)
		h.as("reviewer").messages(ch).is("id")
		h.as("reviewer").respond(ch, id).refused(409, "request_expired")
		h.as("planner").get(ch + "/messages/" + id).has(obj{"status": "expired", "expires_at": nil})
	})
}

// The first response to an ask stays for a while after its eviction.
func TestResponsesOutliveTheirEviction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t)
		p := h.as("planner")
		ch := h.channel("planner", h.intent("planner"), "talk", obj{"options": obj{"max_messages": 2}})
		first := h.as("reviewer").respond(ch, p.request(ch, "reviewer")).ok(201).id()
		var last []any
		for range 10 {
			last = append(last, p.say(ch, obj{}))
		}
		p.messages(ch).is("id", append([]any{first}, last[8:]...)...)
		h.restart()
		p = h.as("planner")
		p.messages(ch).is("id", append([]any{first}, last[8:]...)...)
		time.Sleep(pinTime)
		p.messages(ch).is("id", last[8:]...)
		p.say(ch, obj{})
		p.messages(ch).ok(200)
	})
}

// The same key sends once.
func TestIdempotencyKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _, ch := team(t)
		p := h.as("planner").with("Idempotency-Key", "k1")
		a := p.send(ch, obj{"to": "reviewer"}).ok(201)
		h.restart()
		p = h.as("planner").with("Idempotency-Key", "k1")
		b := p.send(ch, obj{"to": "reviewer"}).ok(201)
		if string(a.raw) != string(b.raw) || b.header.Get("Idempotency-Replayed") != "true" || a.header.Get("Idempotency-Replayed") != "" {
			t.Errorf("first %s, then %s", a.raw, b.raw)
		}
		p.send(ch, obj{"to": "desk"}).refused(422, "invalid")
		h.as("desk").with("Idempotency-Key", "k1").send(ch, obj{"to": "reviewer"}).ok(201)
		h.as("").get(ch).has(obj{"message_count": 2})
		// Replies too.
		id := h.as("planner").request(ch, "reviewer")
		r := h.as("reviewer").with("Idempotency-Key", "k2")
		if x, y := r.respond(ch, id).ok(201).id(), r.respond(ch, id).ok(201).id(); x != y {
			t.Errorf("replied with %s and %s", x, y)
		}
		time.Sleep(keyTTL + time.Second)
		if c := p.send(ch, obj{"to": "reviewer"}).ok(201); c.id() == a.id() {
			t.Error("a key is remembered for ever")
		}
		p.with("Idempotency-Key", strings.Repeat("k", 200)).send(ch, obj{}).refused(400, "bad_key")
	})
}

// A list is bounded in bytes too: the newest, or from the cursor on.
func TestListsAreBounded(t *testing.T) {
	h, _, ch := team(t)
	p := h.as("planner")
	large := obj{"payload": obj{"a": strings.Repeat("x", 255<<10)}}
	const n = 40
	var ids []any
	for range n {
		ids = append(ids, p.say(ch, large))
	}
	for range 2 { // partly from memory, then from the store
		p = h.as("planner")
		got := p.messages(ch).list("id")
		if len(got) >= n || len(got) < 30 || got[len(got)-1] != ids[n-1] || got[0] != ids[n-len(got)] {
			t.Errorf("%d messages from %v to %v", len(got), got[0], got[len(got)-1])
		}
		got = p.get(ch + "/messages?since=" + ids[0].(string)).list("id")
		if len(got) >= n-1 || got[0] != ids[1] {
			t.Errorf("%d messages from %v", len(got), got[0])
		}
		rest := p.get(ch + "/messages?since=" + got[len(got)-1].(string)).list("id")
		if len(got)+len(rest) != n-1 {
			t.Errorf("%d and then %d of %d", len(got), len(rest), n-1)
		}
		h.restart()
	}
	if h.e.bytes > recentBytes {
		t.Errorf("%d bytes are in memory", h.e.bytes)
	}
	// Requests that wait for an answer do not keep their text in memory.
	request := h.as("planner").request(ch, "reviewer", large)
	for range n {
		h.as("planner").say(ch, large)
	}
	for _, m := range h.e.channels[strings.TrimPrefix(ch, "/channels/")].open {
		if m.head != nil {
			t.Error("an open request keeps its text")
		}
	}
	h.as("reviewer").get(ch + "/messages/" + request).ok(200).has(large)
	h.as("reviewer").patch(ch+"/messages/"+request, obj{"status": "read"}).ok(200).has(large)
	h.as("reviewer").respond(ch, request).ok(201)
}
