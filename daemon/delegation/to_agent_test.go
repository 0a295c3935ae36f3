package delegation

import (
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/daemon/registry"
	"github.com/acpd/acpd/daemon/schema"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/store"
	"github.com/acpd/acpd/wire"
)

// A given delegation keeps the agent that it is for, its size and what it follows from, after a restart too. Of
// one that a daemon of before has entered they are not known, and all else is.
func TestGivenDelegationKeepsItsAgent(t *testing.T) {
	ts := table(t)
	env := wire.NewEnvelope(identity.ID{1}, identity.ID{2}, kinds.KindDelegate, wire.Payload(`{"task":"mend it"}`))
	env.Agent, env.FromAgent = "reviewer", "planner"
	parent := wire.NewMessageID()
	enter := func(direction client.TaskDirection) *Delegation {
		e := NewDelegation(direction, identity.ID{2}, env, [32]byte{1}, &kinds.Delegate{Task: "mend it"}, registry.Credential{Name: "tester"})
		e.Parent, e.Guessed = parent, true
		if _, _, err := ts.AddDelegation(t.Context(), e, "mend it"); err != nil {
			t.Fatal(err)
		}
		return e
	}
	given, taken := enter(client.Given), enter(client.Taken)
	check := func(ts *Table, d *Delegation, agent string, bytes int, parent wire.MessageID) {
		t.Helper()
		d = ts.Find(d.Direction, d.Peer, d.ID)
		task, err := ts.DescribeTask(t.Context(), d, false)
		if err != nil || task.ToAgent != agent || d.ToAgent != agent || d.Bytes != bytes || d.Parent != parent || d.Guessed == parent.IsZero() || task.Task != "mend it" {
			t.Errorf("%+v for %q with %d bytes from %s, want %q, %d and %s; %v", task, d.ToAgent, d.Bytes, d.Parent, agent, bytes, parent, err)
		}
	}
	check(ts, given, "reviewer", len(env.Payload), parent)
	check(ts, taken, "", len(env.Payload), parent) // the agent that was asked for may be no other than the one that has it
	check(ts.reopen(t), given, "reviewer", len(env.Payload), parent)

	if err := ts.db.Write(t.Context(), true, func(tx *store.Tx) error {
		for _, statement := range []string{
			"ALTER TABLE daemon_task DROP COLUMN to_agent", "ALTER TABLE daemon_task DROP COLUMN bytes",
			"ALTER TABLE daemon_task DROP COLUMN parent", "ALTER TABLE daemon_task DROP COLUMN guessed",
			"ALTER TABLE daemon_inbox DROP COLUMN origin", "DROP TABLE daemon_file", "DROP TABLE daemon_file_always", "DROP TABLE daemon_kept",
			"UPDATE store_steps SET done = done - 4 WHERE user = 'daemon'",
		} {
			if _, err := tx.Exec(statement); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := schema.Migrate(t.Context(), ts.db); err != nil {
		t.Fatal(err)
	}
	old := ts.reopen(t)
	check(old, given, "", 0, wire.MessageID{})
	if kept := old.Find(client.Given, given.Peer, given.ID); kept.Agent != "tester" || time.Since(kept.Created) > time.Minute {
		t.Errorf("%+v", kept)
	}
}
