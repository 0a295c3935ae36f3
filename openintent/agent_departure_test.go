package openintent

import (
	"errors"
	"testing"
)

// Two may see to one departure, a request and the sweep. The later one neither ends a
// departure that came after it, nor brings back one that is over, also if its write is lost.
func TestADepartureEndsOnce(t *testing.T) {
	lost, fail := errors.New("lost"), false
	h := start(t, func(c *Config) {
		c.Inside = func(run func() error) error {
			if err := run(); err != nil || !fail {
				return err
			}
			return lost
		}
	})
	name := at(desk, "worker")
	named := obj{"agent_id": "worker", "home": desk}
	p, far := h.as("planner"), h.from(desk, "worker")
	far.register(obj{}).ok(201)
	in := h.intent("planner")
	ch := h.channel("planner", in, "talk", obj{"members": []any{"planner", named}})
	depart := func() departure {
		t.Helper()
		if err := h.e.runTransaction(t.Context(), true, func(t *tx) error { return t.beginDeparture(h.e.agents[agentKey{desk, "worker"}], "") }); err != nil {
			t.Fatal(err)
		}
		return h.e.leavers[name]
	}
	first := depart()
	if err := h.e.leaveAllChannels(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	p.get(ch).has(obj{"members": []string{"planner"}})
	p.patch(ch, obj{"add_members": []any{named}}).ok(200) // it is back
	fail = true
	if err := h.e.deleteDeparture(t.Context(), name, &first); err != nil && err != lost {
		t.Fatal(err)
	}
	fail = false
	if err := h.e.leaveAllChannels(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	p.get(ch).has(obj{"members": []string{"planner", name}})
	depart()
	if err := h.e.deleteDeparture(t.Context(), name, &first); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if len(h.e.leavers) != 1 {
			t.Fatal("a departure is forgotten with the one before it")
		}
		h.restart()
	}
	if err := h.e.leaveAllChannels(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	h.as("planner").get(ch).has(obj{"members": []string{"planner"}})
}
