package openintent

import (
	"crypto/ed25519"
	"encoding/base64"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/integration/statedb"
	"github.com/acpd/acpd/openintent/chain"
	"github.com/acpd/acpd/openintent/object"
)

const trace = "0af7651916cd43dd8448eb211c80319c"

func TestAuditedMessagesAreEvents(t *testing.T) {
	h := start(t)
	in, p := h.intent("planner"), h.as("planner")
	ch := h.channel("planner", in, "talk", obj{"options": obj{"audit": true}, "members": []string{"reviewer"}})
	h.as("reviewer").register(obj{}).ok(201)
	p.say(h.channel("planner", in, "other"), obj{}) // which is no event
	request := p.request(ch, "reviewer", obj{"payload": obj{"question": "which?"}})
	reply := h.as("reviewer").respond(ch, request).ok(201).id()
	h.as("reviewer").do("DELETE", "/agents/reviewer", nil).ok(200)
	a := p.get("/intents/"+in+"/events?event_type=channel_message").ok(200).is("actor", "system", "reviewer", "planner")
	payloads := a.list("payload")
	first := payloads[2].(obj)
	want := obj{"channel_id": strings.TrimPrefix(ch, "/channels/"), "channel_name": "talk", "message_id": request, "message_type": "request", "to": "reviewer", "payload": obj{"question": "which?"}}
	if object.EncodeJSONText(first) != object.EncodeJSONText(want) {
		t.Errorf("got %s, want %s", object.EncodeJSONText(first), object.EncodeJSONText(want))
	}
	if second := payloads[1].(obj); second["message_id"] != reply || second["correlation_id"] != request {
		t.Errorf("got %s", object.EncodeJSONText(second))
	}
	// A refused message leaves no event.
	p.send(ch, obj{"message_type": "request", "to": nil}).refused(422, "invalid")
	p.get("/intents/"+in+"/events?event_type=channel_message").is("actor", "system", "reviewer", "planner")
	// since and limit.
	at := a.list("created_at")[1].(string)
	p.get("/intents/"+in+"/events?since="+strings.ReplaceAll(at, "+", "%2B")).is("actor", "system")
	p.get("/intents/"+in+"/events?limit=1&offset=1").is("actor", "reviewer")
	p.get("/intents/"+in+"/events?since=garbage").refused(400, "bad_cursor")
}

func TestTracesArePassedOn(t *testing.T) {
	h := start(t)
	in, p := h.intent("planner"), h.as("planner")
	ch := h.channel("planner", in, "talk", obj{"options": obj{"audit": true}})
	p.say(ch, obj{"metadata": obj{"trace_id": trace, "parent_event_id": "evt_1"}})
	p.say(ch, obj{"metadata": obj{"trace_id": "no trace", "parent_event_id": 7}})
	p.get("/intents/"+in+"/events?event_type=channel_message").is("trace_id", nil, trace).is("parent_event_id", nil, "evt_1")
	p.get("/intents/"+in+"/events?trace_id="+trace).is("trace_id", trace)
	p.post("/intents/"+in+"/events", obj{"event_type": "comment", "payload": obj{}, "trace_id": trace, "parent_event_id": "evt_2"}).ok(201).has(obj{"trace_id": trace, "parent_event_id": "evt_2", "actor": "planner"})
	p.post("/intents/"+in+"/events", obj{"event_type": "comment", "trace_id": "short"}).refused(422, "invalid")
}

func TestTheLogIsAChain(t *testing.T) {
	h := start(t)
	in, p := h.intent("planner"), h.as("planner")
	ch := h.channel("planner", in, "talk", obj{"options": obj{"audit": true}})
	for n := range 5 {
		p.say(ch, obj{"payload": obj{"n": n, "é": 1e21, "text": "\u2028<&>"}})
	}
	for range 2 {
		a := h.as("planner").get("/intents/" + in + "/events").ok(200)
		seqs, hashes, previous := a.list("sequence"), a.list("event_hash"), a.list("previous_event_hash")
		for i := range seqs {
			if seqs[i] != float64(len(seqs)-i) {
				t.Errorf("sequence %v", seqs)
			}
			if i+1 < len(seqs) && previous[i] != hashes[i+1] {
				t.Errorf("event %v does not follow", seqs[i])
			}
		}
		if previous[len(previous)-1] != nil {
			t.Error("the first event follows from something")
		}
		h.as("planner").get("/intents/" + in + "/events/verify").ok(200).has(obj{"intent_id": in, "valid": true, "chain_valid": true, "event_count": 6, "first_sequence": 1, "last_sequence": 6, "breaks": []any{}})
		h.restart()
		p = h.as("planner")
		p.say(ch, obj{}) // the chain goes on
		statedb.Exec(t, h.db, "DELETE FROM openintent_event WHERE sequence > 6")
		h.restart()
	}
	verify := func(query string) *answer {
		t.Helper()
		statedb.Exec(t, h.db, query)
		return h.as("planner").get("/intents/" + in + "/events/verify").ok(200)
	}
	verify(`UPDATE openintent_event SET doc = replace(doc, '"n":2', '"n":7') WHERE sequence = 4`).has(obj{"valid": false, "chain_valid": false})
	verify(`UPDATE openintent_event SET doc = replace(doc, '"n":7', '"n":2') WHERE sequence = 4`).has(obj{"valid": true})
	verify(`UPDATE openintent_event SET doc = json_set(doc, '$.approved', 'yes') WHERE sequence = 4`).has(obj{"valid": false}) // no hash is of that
	verify(`UPDATE openintent_event SET doc = json_remove(doc, '$.approved') WHERE sequence = 4`).has(obj{"valid": true})
	for _, column := range []string{"type = type || 'x'", "at = at + 1", "trace = 'a'"} { // by which lists find it
		verify(`UPDATE openintent_event SET ` + column + ` WHERE sequence = 4`).has(obj{"valid": false})
	}
	verify(`UPDATE openintent_event SET type = rtrim(type, 'x'), at = at - 1, trace = '' WHERE sequence = 4`).has(obj{"valid": true})
	verify(`DELETE FROM openintent_event WHERE sequence = 6`).has(obj{"valid": false})
	h.restart()
	verify(`DELETE FROM openintent_event WHERE sequence = 3`).has(obj{"valid": false, "event_count": 4})
}

func TestProofsAreChecked(t *testing.T) {
	h, in, _ := team(t)
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	p := h.as("planner")
	ch := h.channel("planner", in, "signed", obj{"options": obj{"audit": true}})
	sign := func(signed obj) obj {
		b, err := json.Marshal(signed)
		if err != nil {
			t.Fatal(err)
		}
		v := jsontext.Value(b)
		if err := v.Canonicalize(); err != nil {
			t.Fatal(err)
		}
		return obj{"type": chain.ProofType, "signature": base64.StdEncoding.EncodeToString(ed25519.Sign(private, v))}
	}
	form := obj{"channel_id": strings.TrimPrefix(ch, "/channels/"), "sender": "planner", "to": "reviewer", "message_type": "notify", "correlation_id": nil,
		"payload": obj{"n": 1}, "expires_at": nil, "metadata": obj{"trace_id": trace}}
	proof := sign(form)
	body := obj{"to": "reviewer", "metadata": obj{"trace_id": trace, "proof": proof}}
	p.send(ch, body).refused(403, "bad_proof") // no key yet
	p.register(obj{"public_key": "not a key"}).refused(422, "invalid")
	p.register(obj{"public_key": "ed25519:" + base64.RawURLEncoding.EncodeToString(public)}).ok(201)
	p.send(ch, body).ok(201).has(obj{"metadata": obj{"trace_id": trace, "proof": proof}})
	for _, change := range []obj{{"to": "desk"}, {"payload": obj{"n": 2}}, {"metadata": obj{"proof": proof}}, {"expires_at": "2100-01-01T00:00:00Z"}, {"message_type": "request"}} {
		other := obj{}
		for _, m := range []obj{body, change} {
			for k, v := range m {
				other[k] = v
			}
		}
		p.send(ch, other).refused(403, "bad_proof")
	}
	p.send(ch, obj{"metadata": obj{"proof": "yes"}}).refused(403, "bad_proof")
	p.send(ch, obj{"metadata": obj{"proof": obj{"type": "None"}}}).refused(403, "bad_proof")
	p.get(ch).has(obj{"message_count": 1})
}

// An audited message is durable before it is answered, others are not fsynced;
// both are there after the process has died.
func TestAuditIsDurable(t *testing.T) {
	h := start(t)
	in := h.intent("planner")
	for _, audit := range []bool{true, false} {
		ch := h.channel("planner", in, "talk", obj{"options": obj{"audit": audit}})
		if got := h.e.channels[strings.TrimPrefix(ch, "/channels/")].needsDurableWrites(h.e); got != audit {
			t.Errorf("durable is %v", got)
		}
		h.as("planner").do("DELETE", ch, nil).ok(200)
	}
	// The store fails: nothing of the message is seen afterwards.
	ch := h.channel("planner", in, "talk", obj{"options": obj{"audit": true}})
	statedb.Exec(t, h.db, "CREATE TRIGGER openintent_fault BEFORE INSERT ON openintent_event BEGIN SELECT raise(ABORT, 'fault'); END")
	h.as("planner").send(ch, obj{}).refused(500, "internal")
	h.as("planner").get(ch).has(obj{"message_count": 0})
	h.as("planner").messages(ch).is("id")
	statedb.Exec(t, h.db, "DROP TRIGGER openintent_fault")
	id := h.as("planner").say(ch, obj{})
	h.as("planner").messages(ch).is("id", id)
	h.as("planner").get("/intents/" + in + "/events/verify").has(obj{"valid": true})
}

// The log has no more readers than the channel: who may not see an audited message
// gets the hash of what the log says of it, and the chain holds for everybody.
func TestAuditedMessagesAreSeenByWhoSeesThem(t *testing.T) {
	h := start(t, toOthers)
	in := h.intent("planner")
	audit := obj{"audit": true, "discoverable": false}
	secret := h.channel("planner", in, "secret", obj{"options": audit, "member_policy": "explicit", "members": []string{"planner", "reviewer"}})
	open := h.channel("planner", in, "open", obj{"options": audit})
	p, far := h.as("planner"), h.from(desk, "worker")
	h.as("tester").register(obj{"role_id": "tester"}).ok(201)
	h.as("tester").get(open).ok(200)
	p.say(secret, obj{"payload": obj{"is": "members"}})
	p.say(open, obj{"payload": obj{"is": "all"}})
	p.say(open, obj{"payload": obj{"is": "direct"}, "to": "reviewer"})
	p.say(open, obj{"payload": obj{"is": "role"}, "to": "role:tester"})
	far.get(secret).refused(404, "not_found")
	seen := func(c *client, want ...any) {
		t.Helper()
		a := c.get("/intents/" + in + "/events?event_type=channel_message").ok(200)
		var got []any
		for _, v := range a.list("payload") {
			v := v.(obj)
			hash, hidden := v["payload_hash"].(string)
			if !hidden {
				got = append(got, v["payload"].(obj)["is"])
				continue
			}
			if got = append(got, "-"); len(v) != 1 || !strings.HasPrefix(hash, "sha256:") || len(hash) != len("sha256:")+43 {
				t.Errorf("hidden is %s", object.EncodeJSONText(v))
			}
		}
		if object.EncodeJSONText(got) != object.EncodeJSONText(want) {
			t.Errorf("%s sees %v, want %v", c.agent, got, want)
		}
		c.get("/intents/" + in + "/events/verify").ok(200).has(obj{"valid": true})
		for _, word := range []string{"secret", secret} {
			if c == far && strings.Contains(string(a.raw), word) {
				t.Errorf("%s is in %s", word, a.raw)
			}
		}
	}
	for range 2 {
		seen(h.as("planner"), "role", "direct", "all", "members")
		seen(h.as(""), "role", "direct", "all", "members")
		seen(h.as("reviewer"), "-", "direct", "all", "members")
		seen(h.as("tester"), "role", "-", "all", "-")
		far = h.from(desk, "worker")
		seen(far, "-", "-", "all", "-")
		h.restart()
	}
	// The hash is that of the payload's RFC 8785 form.
	full := h.as("planner").get("/intents/" + in + "/events?event_type=channel_message").ok(200).list("payload")[3]
	form := jsontext.Value(object.EncodeJSONText(full))
	if err := form.Canonicalize(); err != nil {
		t.Fatal(err)
	}
	hidden := h.from(desk, "worker").get("/intents/" + in + "/events?event_type=channel_message").ok(200).list("payload")[3]
	if got, want := hidden.(obj)["payload_hash"], chain.HashCanonicalJSON(form); got != want {
		t.Errorf("hash %v, want %s", got, want)
	}
	// Who left the channel sees what it sent and what was for it; of a channel that is gone the
	// event decides.
	for _, ch := range []string{secret, open} {
		h.as("planner").do("DELETE", ch, nil).ok(200)
	}
	seen(h.as("planner"), "role", "direct", "all", "members")
	seen(h.as("reviewer"), "-", "direct", "all", "-")
	seen(h.from(desk, "worker"), "-", "-", "all", "-")
}
