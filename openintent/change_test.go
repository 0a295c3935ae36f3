package openintent

import "testing"

// A change that cannot be made costs no read of the object, however large that is.
func TestChangesAreRefusedBeforeTheObjectIsRead(t *testing.T) {
	h := start(t, toOthers)
	in := h.intent("planner")
	path, change := "/intents/"+in+"/state", obj{"state": obj{"a": 1}}
	far := h.from(desk, "worker")
	far.with("If-Match", "1").post(path, change).ok(200)
	seen := h.looks()
	for _, who := range []*client{h.as("planner"), far} {
		who.with("If-Match", "1").post(path, change).refused(409, "version_conflict").has(obj{"current_version": 2})
	}
	h.e.perIntent = diskShare{}
	far.with("If-Match", "2").post(path, change).refused(429, "disk_share")
	if sum := seen.bounded(t, "refused", 0); sum.rows != 0 {
		t.Errorf("for what was refused %d rows were looked at", sum.rows)
	}
	h.as("planner").with("If-Match", "2").post(path, change).ok(200)
	if sum := seen.bounded(t, "a change", 1); sum.rows != 1 {
		t.Errorf("a change has looked at %d rows", sum.rows)
	}
}
