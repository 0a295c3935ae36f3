package integration

import (
	"context"
	"sync"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/integration/live"
	"github.com/acpd/acpd/wire"
)

// TestHeldIsKeptThroughCrashes: the receiver is killed in the middle of a burst,
// several times. Whatever was said to be held is in its inbox, once.
func TestHeldIsKeptThroughCrashes(t *testing.T) {
	t.Parallel()
	desk, laptop := friends(t)
	c := laptop.Client
	held := make(map[wire.MessageID]bool)
	for round := range 3 {
		receipts := make(chan wire.MessageID, 100_000)
		ctx, crash := context.WithCancel(await.NewContext(t))
		var crowd sync.WaitGroup
		for range 16 {
			crowd.Go(func() {
				for ctx.Err() == nil {
					r, err := c.Notify(ctx, client.NotifyParams{To: client.To("desk"), Payload: wire.Payload(`{"topic":"x"}`)})
					if err == nil && r.State == client.Held {
						receipts <- r.ID
					}
				}
			})
		}
		await.Until(t, "some are held", func() bool { return len(receipts) > 100 })
		desk.KillDaemon()
		crash() // or those in flight would wait until the connection is found dead
		crowd.Wait()
		close(receipts)
		for id := range receipts {
			held[id] = true
		}
		t.Logf("round %d: %d held", round, len(held))
		desk.StartDaemon()
		live.AwaitConnection(desk.Machine, laptop.Machine)
	}
	inbox := desk.inbox()
	for id := range held {
		if inbox[id] != 1 {
			t.Errorf("%s was said to be held and is in the inbox %d times", id, inbox[id])
		}
	}
}

// inbox counts the held messages by their ids.
func (m *machine) inbox() map[wire.MessageID]int {
	m.T.Helper()
	all := make(map[wire.MessageID]int)
	for after, more := uint64(0), true; more; more = after != 0 {
		page, err := m.Client.Inbox(await.NewContext(m.T), client.InboxParams{Limit: 1000, After: after})
		if err != nil {
			m.T.Fatalf("inbox of %s: %v", m.Name, err)
		}
		for _, message := range page.Messages {
			all[message.Envelope.ID]++
		}
		after = page.Next
	}
	return all
}
