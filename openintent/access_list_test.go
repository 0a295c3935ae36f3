package openintent

import (
	"testing"
	"time"
)

// What does not say who is let in, or says it in words that are not known, lets nobody in.
func TestAccessIsNeverWhatNobodySaid(t *testing.T) {
	h := start(t)
	in, p := h.closedIntent("planner"), h.as("planner")
	acl := "/intents/" + in + "/acl"
	reviewer := obj{"principal_id": "reviewer", "permission": "read"}
	p.do("PUT", acl, obj{"policy": "private", "entries": []any{reviewer}}).ok(200).has(obj{"policy": "private", "default_policy": "closed"})
	for _, body := range []obj{
		{}, {"entries": []any{}}, {"default_policy": nil}, {"default_policy": ""}, {"policy": "privat"}, {"default_polcy": "closed"},
		{"default_policy": "open", "policy": "private"}, {"default_policy": "private", "policy": "open"}, {"default_policy": "open", "policy": "secret"},
		{"default_policy": "closed", "entires": []any{}}, {"default_policy": "closed", "entries": []any{obj{"principal_id": "tester", "permision": "read"}}},
	} {
		p.do("PUT", acl, body).refused(422, "invalid")
	}
	p.post(acl+"/entries", obj{"principal_id": "tester", "expires": time.Now().UTC().Format(time.RFC3339)}).refused(422, "invalid")
	list := p.get(acl).ok(200).has(obj{"policy": "private", "default_policy": "closed"})
	if entries := list.at("entries").([]any); len(entries) != 1 {
		t.Errorf("entries: %v", entries)
	}
	h.as("tester").get("/intents/"+in).refused(404, "not_found")
	// What was answered can be sent again.
	p.do("PUT", acl, list.body).ok(200).has(obj{"policy": "private"})
	h.as("reviewer").get("/intents/" + in).ok(200)
}
