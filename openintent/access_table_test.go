package openintent

import (
	"fmt"
	"strings"
	"testing"
)

// TestWhoMayDoWhat is the table of access: each caller, on intents and channels of each kind, with each verb.
// A caller without any access learns nothing, not even that there is something.
// holds: security.md#in-channels
func TestWhoMayDoWhat(t *testing.T) {
	h := start(t, openTo(desk))
	p := h.as("planner")
	open, shut := h.intent("planner"), h.closedIntent("planner", "writer")
	for _, entry := range []obj{{"principal_id": "reader", "permission": "read"}, {"principal_id": "guest", "home": laptop, "permission": "read"}} {
		h.grant(shut, entry).ok(201)
	}
	talk, room := h.channel("planner", open, "talk"), h.channel("planner", shut, "room")
	club := h.channel("builder", open, "club", obj{"member_policy": "explicit", "members": []string{"planner", "reader"}})
	dark := h.channel("planner", open, "dark", obj{"member_policy": "explicit", "members": []string{"planner", "reader"}, "options": obj{"discoverable": false}})
	inRoom, inClub, inDark := p.say(room, obj{}), p.say(club, obj{}), p.say(dark, obj{})
	direct := p.request(room, "reader")
	callers := []*client{
		h.as(""), p, h.as("writer"), h.as("reader"), h.as("stranger"),
		h.from(desk, "other"), h.from(desk, "reader"), // in open_to; the second has the id of an agent here
		h.from(laptop, "guest"), h.from(laptop, "far"), // trusted alone; the first is granted access
	}
	codes := map[string]string{"not_found": "-", "agent_homed_elsewhere": "id", "no_permission": "no", "not_member": "out", "not_manager": "man", "not_recipient": "rcp", "ask_timeout": "ok"}
	get := func(path string) func(*client) *answer {
		return func(c *client) *answer { return c.get(path) }
	}
	post := func(path string, body obj) func(*client) *answer {
		return func(c *client) *answer { return c.post(path, body) }
	}
	patch := func(path string, body obj) func(*client) *answer {
		return func(c *client) *answer { return c.patch(path, body) }
	}
	create := func(in string) func(*client) *answer {
		n := 0
		return func(c *client) *answer {
			n++
			return c.post("/intents/"+in+"/channels", obj{"name": fmt.Sprint("n", n)})
		}
	}
	ask := obj{"to": "planner", "timeout": 0.001}
	read := obj{"status": "read"}
	for _, row := range []struct {
		what string
		do   func(*client) *answer
		want string // by caller: op planner writer reader stranger | desk's other, reader | laptop's guest, far
	}{
		{"read an open intent", get("/intents/" + open), "ok ok ok ok ok ok id - -"},
		{"read its log", get("/intents/" + open + "/events"), "ok ok ok ok ok ok id - -"},
		{"create a channel there", create(open), "ok ok ok ok ok ok id - -"},
		{"change its access", post("/intents/"+open+"/acl/entries", obj{"principal_id": "x"}), "ok ok no no no no id - -"},
		{"read a channel of it", get(talk), "ok ok ok ok ok ok id - -"},
		{"list its messages", get(talk + "/messages?wait=0"), "ok ok ok ok ok ok id - -"},
		{"send there", post(talk+"/messages", obj{}), "ok ok ok ok ok ok id - -"},
		{"change that channel", patch(talk, obj{"options": obj{"x": 1}}), "ok ok man man man man id - -"},

		{"read a closed intent", get("/intents/" + shut), "ok ok ok ok - - - ok -"},
		{"read its log", get("/intents/" + shut + "/events"), "ok ok ok ok - - - ok -"},
		{"read its access", get("/intents/" + shut + "/acl"), "ok ok ok ok - - - ok -"},
		{"create a channel there", create(shut), "ok ok ok no - - - no -"},
		{"create a task there", post("/tasks", obj{"intent_id": shut, "name": "n"}), "ok ok ok no - - - no -"},
		{"change its access", post("/intents/"+shut+"/acl/entries", obj{"principal_id": "x"}), "ok ok no no - - - no -"},
		{"list its channels", get("/intents/" + shut + "/channels"), "ok ok ok ok - - - ok -"},
		{"read a channel of it", get(room), "ok ok ok ok - - - ok -"},
		{"list its messages", get(room + "/messages?wait=0"), "ok ok ok ok - - - ok -"},
		{"read a message", get(room + "/messages/" + inRoom), "ok ok ok ok - - - ok -"},
		{"read a message to one agent", get(room + "/messages/" + direct), "ok ok - ok - - - - -"},
		{"mark it as read", patch(room+"/messages/"+direct, read), "rcp rcp - ok - - - - -"},
		{"respond to it", post(room+"/messages/"+direct+"/reply", obj{}), "rcp rcp - ok - - - - -"},
		{"send there", post(room+"/messages", obj{}), "ok ok ok ok - - - ok -"},
		{"ask there", post(room+"/ask", ask), "ok ok ok ok - - - ok -"},
		{"change that channel", patch(room, obj{"options": obj{"x": 1}}), "ok ok man man - - - man -"},

		{"read a channel of members", get(club), "ok ok out ok out out id - -"},
		{"list its messages", get(club + "/messages?wait=0"), "ok ok out ok out out id - -"},
		{"read a message", get(club + "/messages/" + inClub), "ok ok out ok out out id - -"},
		{"send there", post(club+"/messages", obj{}), "out ok out ok out out id - -"},
		{"ask there", post(club+"/ask", ask), "out ok out ok out out id - -"},
		{"mark as read", patch(club+"/messages/"+inClub, read), "rcp rcp out ok out out id - -"},
		{"add a member", patch(club, obj{"add_members": []string{"x"}}), "ok man man man man man id - -"},
		{"read a hidden channel", get(dark), "ok ok - ok - - id - -"},
		{"read a message there", get(dark + "/messages/" + inDark), "ok ok - ok - - id - -"},
		{"send there", post(dark+"/messages", obj{}), "- ok - ok - - id - -"},
		{"delete a channel", func(c *client) *answer {
			if c == callers[0] || c == p {
				return c.get(room)
			}
			return c.do("DELETE", room, nil)
		}, "ok ok man man - - - man -"},
	} {
		var got []string
		for _, c := range callers {
			a := row.do(c)
			code := "ok"
			if a.status >= 300 {
				code, _ = a.body.(obj)["error"].(string)
				if codes[code] != "" {
					code = codes[code]
				}
			}
			got = append(got, code)
		}
		if got := strings.Join(got, " "); got != row.want {
			t.Errorf("%s: %s, want %s", row.what, got, row.want)
		}
	}
	// In the list a channel of members is a stub to others, and a hidden one is not there.
	d := h.as("stranger")
	d.get("/intents/"+open+"/channels?limit=2").is("name", "talk", "club").is("restricted", nil, true)
	for _, c := range callers {
		if strings.Contains(string(c.get("/intents/"+open+"/channels").raw), `"dark"`) != (c == callers[0] || c == p || c == callers[3]) {
			t.Errorf("the hidden channel in the list of %s", c.agent)
		}
	}
	// A creator that is no member has only the management.
	b := h.as("builder")
	b.get(club).ok(200)
	b.send(club, obj{}).refused(403, "not_member")
	b.patch(club, obj{"status": "closed"}).ok(200)
	// Access ends when it is revoked.
	entry := p.get("/intents/" + shut + "/acl").ok(200).at("entries").([]any)[1].(obj)["id"].(string)
	p.do("DELETE", "/intents/"+shut+"/acl/entries/"+entry, nil).ok(204)
	h.as("reader").messages(room).refused(404, "not_found")
}
