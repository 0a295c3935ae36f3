package openintent

import (
	"crypto/ed25519"
	"encoding/base64"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/acpd/acpd/openintent/chain"
	"github.com/acpd/acpd/openintent/object"
)

// A message without a home goes to who is here, else to the one that a daemon in
// open_to has, else to one here in future; and stays with whom it went to.
// holds: security.md#in-channels
func TestRecipientsAreResolvedWhenSent(t *testing.T) {
	h := start(t, openTo(desk, laptop))
	in := h.intent("planner")
	ch := h.channel("planner", in, "talk")
	p, far := h.as("planner"), h.from(desk, "reviewer")
	future := p.request(ch, "reviewer") // of one here, in future
	p.get(ch + "/messages/" + future).has(obj{"to": "reviewer"})
	far.messages(ch).is("id")
	first := p.request(ch, "reviewer")
	p.get(ch + "/messages/" + first).has(obj{"to": at(desk, "reviewer")})
	far.get(ch + "/messages/" + first).has(obj{"to": "reviewer", "sender": "planner"})
	far.messages(ch).is("id", first).is("to", "reviewer")
	far.get(ch+"/messages?wait=0&to=reviewer").is("id", first)
	p.get(ch+"/messages?wait=0&to=reviewer").is("id", first)
	far.patch(ch+"/messages/"+first, obj{"status": "read"}).ok(200).has(obj{"status": "read"})
	if by := p.get(ch + "/messages/" + first).at("read_by").(obj); by[at(desk, "reviewer")] == nil || len(by) != 1 {
		t.Errorf("read by %v", by)
	}
	far.respond(ch, first).ok(201).has(obj{"sender": "reviewer", "to": "planner"})
	back := far.request(ch, "planner")
	p.get(ch + "/messages/" + back).has(obj{"sender": at(desk, "reviewer"), "to": "planner"})
	p.respond(ch, back).ok(201).has(obj{"to": at(desk, "reviewer")})
	// Both forms of a home mean the same, and this daemon's own means here.
	for _, body := range []obj{{"to": at(desk, "reviewer")}, {"to": "reviewer", "home": desk}} {
		p.send(ch, body).ok(201).has(obj{"to": at(desk, "reviewer")})
	}
	for _, body := range []obj{{"to": at(hostID+idRest, "reviewer")}, {"to": "reviewer", "home": hostID + idRest}} {
		p.send(ch, body).ok(201).has(obj{"to": "reviewer"})
	}
	p.post(ch+"/ask", obj{"to": "reviewer", "home": desk, "timeout": 0.001}).refused(504, "ask_timeout")
	// Somebody here uses the id: from now on it is meant; what was sent stays where it is.
	h.as("reviewer").messages(ch).is("to", "reviewer", "reviewer", "reviewer")
	now := p.request(ch, "reviewer")
	p.get(ch + "/messages/" + now).has(obj{"to": "reviewer"})
	h.as("reviewer").get(ch+"/messages/"+first).refused(404, "not_found")
	h.restart()
	h.as("reviewer").get(ch+"/messages/"+first).refused(404, "not_found")
	p = h.as("planner")
	// Named with their homes, two of such daemons may have it; which is meant must be said.
	for _, home := range []string{desk, laptop} {
		h.grant(in, obj{"principal_id": "twin", "home": home}).ok(201)
	}
	p.send(ch, obj{"to": "twin"}).refused(409, "ambiguous")
	p.send(ch, obj{"to": at(laptop, "twin")}).ok(201)
	h.from(laptop, "twin").messages(ch).is("to", "twin")
	h.from(desk, "twin").messages(ch).is("to")
	// Who has no access gets nothing.
	p.send(ch, obj{"to": at("0000000000"+idRest, "reviewer")}).refused(403, "recipient_not_member")
	for _, body := range []obj{{"home": desk}, {"to": "*", "home": desk}, {"to": "role:tester", "home": desk}} {
		p.send(ch, body).refused(422, "invalid")
	}
}

// What an agent of another daemon says of itself needs no home.
func TestOneOwnNameNeedsNoHome(t *testing.T) {
	h := start(t, openTo(desk))
	in := h.intent("planner")
	far := h.from(desk, "reviewer")
	ch := "/channels/" + far.post("/intents/"+in+"/channels", obj{"name": "mine", "member_policy": "explicit", "members": []string{"planner", "reviewer"}}).ok(201).
		has(obj{"members": []string{"planner", at(desk, "reviewer")}}).id()
	far.post("/intents/"+in+"/agents", obj{"agent_id": "reviewer"}).ok(201).has(obj{"agent_id": "reviewer", "home": desk})
	far.do("DELETE", "/intents/"+in+"/agents/reviewer", nil).ok(204)
	far.send(ch, obj{"sender": at(desk, "reviewer")}).ok(201).has(obj{"sender": "reviewer"})
	far.send(ch, obj{"sender": "planner"}).refused(403, "sender_mismatch")
	far.patch(ch, obj{"remove_members": []string{"reviewer"}}).ok(200).has(obj{"members": []string{"planner"}})
	if entries := h.as("planner").get("/intents/" + in + "/events").list("actor"); !slices.Contains(entries, any(at(desk, "reviewer"))) {
		t.Errorf("actors %v", entries)
	}
}

// Petnames are for people at one machine: elsewhere daemons have their digits.
func TestHomesHaveTheirDigits(t *testing.T) {
	h := start(t, openTo(desk), func(c *Config) { c.Petname = func(name string) bool { return name == "laptop" } })
	in := h.intent("planner")
	ch := h.channel("planner", in, "talk")
	p := h.as("planner")
	name := "reviewer@laptop"
	tries := func(id string, home string) []*answer {
		with := func(o obj, member string) obj {
			if o[member] = id; home != "" {
				o["home"] = home
			}
			return o
		}
		all := []*answer{p.send(ch, with(obj{}, "to")), p.post(ch+"/ask", with(obj{"timeout": 0.001}, "to")), h.grant(in, with(obj{}, "principal_id")),
			h.grant(in, with(obj{"principal_type": "role"}, "principal_id")), p.do("PUT", "/intents/"+in+"/acl", obj{"default_policy": "open", "entries": []obj{with(obj{}, "principal_id")}}),
			p.post("/intents/"+in+"/agents", with(obj{}, "agent_id")), p.post("/coordinators", with(obj{"intent_id": in}, "agent_id"))}
		member := any(id)
		if home != "" {
			member = obj{"agent_id": id, "home": home}
		}
		return append(all, p.post("/intents/"+in+"/channels", obj{"name": "n", "members": []any{member}}), p.patch(ch, obj{"add_members": []any{member}}))
	}
	for _, a := range append(tries(name, ""), tries("reviewer", "laptop")...) {
		a.refused(422, "home_by_name")
	}
	for _, a := range append(tries("reviewer@nowhere", ""), tries("reviewer", strings.ToUpper(desk))...) {
		a.refused(422, "home_by_name")
	}
	p.post("/tasks", obj{"intent_id": in, "name": "n", "assigned_agent": name}).refused(422, "home_by_name")
	p.get(ch+"/messages?to="+name).refused(422, "home_by_name")
	p.send(ch, obj{"to": "reviewer@laptop.example"}).ok(201) // an id like any other
	// Where an agent here is called so, it is not clear who is meant.
	for _, whole := range []string{name, at(laptop, "reviewer")} {
		h.as(whole).register(obj{}).ok(201)
		for i, a := range tries(whole, "") {
			if i != 3 || whole != name { // a role is no agent
				a.refused(409, "ambiguous")
			}
		}
		id := p.say(ch, obj{"to": whole, "home": hostID + idRest})
		h.as(whole).get(ch + "/messages/" + id).has(obj{"to": whole})
		h.as(whole).send(ch, obj{}).ok(201).has(obj{"sender": whole})
	}
	if ids := h.from(laptop, "reviewer").intents(); ids != nil {
		t.Errorf("its namesake lists %v", ids)
	}
	p.send(ch, obj{"to": "reviewer", "home": laptop}).refused(403, "recipient_not_member")
	// One here whose id has a sign is who it is.
	h.as("worker@build").register(obj{}).ok(201)
	p.send(ch, obj{"to": "worker@build"}).ok(201).has(obj{"to": "worker@build"})
}

// Proofs are over what the sender says.
func TestProofsAcrossDaemons(t *testing.T) {
	h := start(t, openTo(desk))
	in := h.intent("planner")
	ch := h.channel("planner", in, "talk")
	far := h.from(desk, "reviewer")
	far.get(ch).ok(200)
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	key := base64.StdEncoding.EncodeToString(public)
	h.learned(desk, "reviewer", obj{"status": "active", "public_key": key})
	h.as("planner").register(obj{"public_key": key}).ok(201)
	proven := func(sender, to string) obj {
		v := object.EncodeJSONObject("channel_id", strings.TrimPrefix(ch, "/channels/"), "sender", sender, "to", to, "message_type", "notify", "correlation_id", nil,
			"payload", obj{"n": 1}, "expires_at", nil, "metadata", obj{})
		if err := v.Canonicalize(); err != nil {
			t.Fatal(err)
		}
		return obj{"to": to, "metadata": obj{"proof": obj{"type": chain.ProofType, "signature": base64.StdEncoding.EncodeToString(ed25519.Sign(private, v))}}}
	}
	far.send(ch, proven("reviewer", "planner")).ok(201)
	far.send(ch, proven(at(desk, "reviewer"), "planner")).refused(403, "bad_proof")
	for _, to := range []string{"reviewer", at(desk, "reviewer")} {
		h.as("planner").send(ch, proven("planner", to)).ok(201).has(obj{"to": at(desk, "reviewer")})
	}
}

// An agent of a home hears on its streams of what is for it under its name alone.
func TestStreamsShowOnesOwnName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		in := p.far.intent("planner")
		ch := p.far.channel("planner", in, "talk")
		planner := p.far.as("planner")
		p.near.as("reviewer").get(ch).ok(200)
		synctest.Wait()
		own := p.near.follow(p.near.as("reviewer"), "/agents/reviewer/subscribe")
		other := p.near.follow(p.near.as("desk"), "/agents/desk/subscribe")
		// One that is named and has never come is found, too; its namesake at the host is told of
		// itself.
		for agent, s := range map[string]*stream{"reviewer": own, "desk": other} {
			planner.post("/intents/"+in+"/agents", obj{"agent_id": agent, "home": nearHome}).ok(201)
			if f := s.next(); f.name != "AGENT_ASSIGNED" || f.data["agent_id"] != agent || f.data["home"] != nearHome {
				t.Errorf("%+v", f)
			}
		}
		planner.post("/intents/"+in+"/agents", obj{"agent_id": "reviewer"}).ok(201)
		for agent, s := range map[string]*stream{"reviewer": own, "desk": other} {
			planner.say(ch, obj{"to": at(nearHome, agent)})
			if f := s.next(); f.name != object.KindMessage || f.data["to"] != agent || f.data["sender"] != "planner" {
				t.Errorf("%+v", f)
			}
		}
		planner.say(ch, obj{"to": "reviewer"})
		synctest.Wait()
		if own.pending()+other.pending() > 0 {
			t.Error("told of what is for somebody else")
		}
		own.stop()
		other.stop()
		p.disconnect()
	})
}
