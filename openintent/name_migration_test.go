package openintent

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/acpd/acpd/store"
)

// Of the bindings of an earlier version those stay that a grant with that home names;
// the others are dropped, each with a line in the log.
func TestBindingsAreRenamed(t *testing.T) {
	h := start(t, openTo(desk, laptop))
	in := h.intent("planner")
	ch := h.channel("planner", in, "talk", obj{"members": []string{"planner", "reviewer", "welder"}})
	p := h.as("planner")
	h.as("reviewer").register(obj{}).ok(201)
	h.as("welder").register(obj{}).ok(201)
	ids := map[string]string{"by reviewer": h.as("reviewer").say(ch, obj{}), "by welder": h.as("welder").say(ch, obj{"to": "planner"}),
		"to reviewer": p.say(ch, obj{"to": "reviewer"}), "to welder": p.request(ch, "welder")}
	h.as("reviewer").patch(ch+"/messages/"+ids["to reviewer"], obj{"status": "read"}).ok(200)
	h.grant(in, obj{"principal_id": "reviewer", "home": desk}).ok(201)
	p.post("/coordinators", obj{"agent_id": "reviewer", "intent_id": in}).ok(201)
	if err := h.db.Write(t.Context(), true, func(tx *store.Tx) error {
		_, err := tx.Exec(`DELETE FROM openintent_agent`)
		if err == nil {
			_, err = tx.Exec(`DELETE FROM openintent_used`)
		}
		if err == nil {
			_, err = tx.Exec(`UPDATE openintent_intent SET access = json_set(access, '$.homes', json(?))`, encodeJSONText(map[string]string{"planner": "", "reviewer": desk, "welder": laptop}))
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	h.cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
	for range 2 {
		h.restart()
		if n := strings.Count(log.String(), "an agent id is no other daemon's any more"); n != 1 || !strings.Contains(log.String(), "agent=welder home="+laptop) {
			t.Errorf("the log says %s", log.String())
		}
		h.as("planner").get("/intents/"+in+"/homes").is("agent_id", "planner", "reviewer").is("home", "", desk)
	}
	p, far := h.as("planner"), h.from(desk, "reviewer")
	p.get(ch).has(obj{"members": []string{"planner", at(desk, "reviewer"), "welder"}})
	p.get("/intents/"+in+"/coordinators").is("home", desk)
	p.get(ch + "/messages/" + ids["by reviewer"]).has(obj{"sender": at(desk, "reviewer"), "to": nil, "payload": obj{"n": 1}})
	p.get(ch + "/messages/" + ids["by welder"]).has(obj{"sender": at(laptop, "welder"), "to": "planner"})
	if by := far.get(ch + "/messages/" + ids["to reviewer"]).has(obj{"to": "reviewer"}).at("read_by").(obj); by["reviewer"] == nil {
		t.Errorf("read by %v", by)
	}
	h.as("reviewer").get(ch+"/messages/"+ids["to reviewer"]).refused(404, "not_found")
	// What waits for an id that was bound to nobody rightly is for the one here.
	h.as("welder").respond(ch, ids["to welder"]).ok(201)
	h.from(laptop, "welder").get(ch).refused(409, "agent_homed_elsewhere")
}
