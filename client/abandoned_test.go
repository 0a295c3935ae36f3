package client

import "testing"

// TestIsAbandoned: only what was given is abandoned, and only if its outcome begins with that word.
func TestIsAbandoned(t *testing.T) {
	for outcome, want := range map[string]bool{"abandoned": true, "abandoned: no longer needed": true, "": false, "abandonedness": false, "cancelled": false} {
		task := Task{Direction: Given, State: TaskCancelled, Outcome: outcome}
		if got := task.IsAbandoned(); got != want {
			t.Errorf("%q: %v", outcome, got)
		}
		if task.Direction = Taken; task.IsAbandoned() {
			t.Errorf("%q: a peer's word has abandoned it", outcome)
		}
		if task.Direction, task.State = Given, TaskFailed; task.IsAbandoned() {
			t.Errorf("%q: it has failed", outcome)
		}
	}
}
