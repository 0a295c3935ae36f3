package openintent

import (
	"strings"
	"testing"
)

// An agent here that looks for what it may use has used nothing yet: the lists of an
// intent's channels and homes take its id from no agent elsewhere.
func TestListsAreNoUse(t *testing.T) {
	h := start(t, openTo(desk, laptop))
	in := h.intent("planner")
	ch := h.channel("planner", in, "talk")
	h.as("reviewer").get("/intents/"+in+"/channels").ok(200).is("name", "talk")
	h.as("reviewer").get("/intents/" + in + "/homes").ok(200)
	h.as("planner").get("/intents/"+in+"/homes").is("agent_id", "planner")
	// One elsewhere can be sent to once it has found the channel.
	far := h.from(desk, "reviewer")
	far.get("/intents/"+in+"/channels").is("name", "talk")
	h.as("planner").say(ch, obj{"to": "reviewer"})
	far.messages(ch).is("to", "reviewer")
	h.from(laptop, "reviewer").get("/intents/"+in+"/channels").refused(409, "agent_homed_elsewhere")
	// Reading what was said is use.
	h.as("reviewer").messages(ch).ok(200)
	far.messages(ch).refused(409, "agent_homed_elsewhere")
}

// Who cannot be sent to is let in by somebody: the refusal says by whom, and how.
func TestRefusedRecipientsHaveARemedy(t *testing.T) {
	h := start(t, openTo(desk))
	open, closed := h.intent("planner"), h.closedIntent("planner")
	talk, shut := h.channel("planner", open, "talk"), h.channel("planner", closed, "shut")
	few := h.channel("planner", open, "few", obj{"member_policy": "explicit", "members": []string{"planner"}})
	h.as("reviewer").messages(talk).ok(200)
	for _, c := range []struct{ channel, to, remedy string }{
		{talk, at(laptop, "reviewer"), "channels.open_to"},
		{talk, at(desk, "reviewer"), "acpctl channel homes"},
		{shut, at(laptop, "reviewer"), "to grant it some, with its home"},
		{shut, "reviewer", "to grant it some"},
		{few, "reviewer", "the channel's creator to add it"},
	} {
		a := h.as("planner").send(c.channel, obj{"to": c.to}).refused(403, "recipient_not_member")
		if said := a.str("message"); !strings.HasPrefix(said, "to: ") || !strings.Contains(said, c.remedy) {
			t.Errorf("to %s: %s, want the remedy %q", c.to, said, c.remedy)
		}
	}
}
