package integration

import (
	"context"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
)

// TestDeadlineOnAFullDisk: a deadline that cannot be recorded is kept all the same,
// on both sides; the daemons go on, and the record is made when there is space.
// holds: security.md#on-this-machine
func TestDeadlineOnAFullDisk(t *testing.T) {
	t.Parallel()
	desk, laptop := friends(t)
	desk.attach(client.AttachParams{Name: "reviewer"}, client.Handler{
		Delegate: func(context.Context, *client.Inbound) (*kinds.Ack, error) { return &kinds.Ack{Accepted: true}, nil },
	})
	given := work("desk", "Review the parser.")
	given.Payload = kinds.EncodePayload(&kinds.Delegate{Task: "Review the parser.", DeadlineMS: 1000})
	begun := time.Now()
	if _, err := laptop.Client.Delegate(await.NewContext(t), given); err != nil {
		t.Fatal(err)
	}
	desk.limitFiles(0)
	laptop.limitFiles(0)
	task, err := laptop.Client.Wait(await.NewContext(t), client.WaitParams{ID: given.ID})
	if err != nil || task.State != client.TaskExpired {
		t.Fatalf("who delegated is told %+v, %v", task, err)
	}
	await.CheckDuration(t, "the end of the delegation", time.Since(begun), time.Second+slack)
	for _, m := range []*machine{desk, laptop} {
		state := func() client.TaskState {
			task, err := m.Client.Task(await.NewContext(t), given.ID)
			if err != nil {
				t.Fatalf("%s: %v", m.Name, err)
			}
			return task.State
		}
		await.Until(t, "the deadline passes on "+m.Name, func() bool { return state() == client.TaskExpired })
		await.Until(t, "the log of "+m.Name+" says what is missing", func() bool {
			return strings.Contains(m.Acpd.Stderr.String(), "the ends of delegations are not on disk")
		})
		m.limitFiles(unix.RLIM_INFINITY)
		await.Until(t, "it is on disk", func() bool { return strings.Contains(m.Acpd.Stderr.String(), "are on disk again") })
		m.KillDaemon()
		m.StartDaemon()
		if got := state(); got != client.TaskExpired {
			t.Errorf("after a restart of %s the delegation is %s", m.Name, got)
		}
	}
}
