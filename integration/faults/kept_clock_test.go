//go:build faults

package faults

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// TestClockIsSetWhileAMessageIsKept: a clock that is set a day forward ends what has been kept for long enough by it, which
// its sender hears once. One that is set a day back loses nothing, and nothing is sent twice.
func TestClockIsSetWhileAMessageIsKept(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	c := begin(t, nil)
	c.desk.StopDaemon()
	clock := c.desk.startAhead(0)
	var mu sync.Mutex
	told := make(map[wire.MessageID]int)
	hear := func(_ context.Context, in *client.Inbound) error {
		mu.Lock()
		defer mu.Unlock()
		told[*in.Ref]++
		return nil
	}
	clerk := c.desk.Attach(client.AttachParams{Name: "clerk", Kinds: []string{"result", "error"}}, client.Handler{Result: hear, Error: hear})
	c.connected()
	c.laptop.KillDaemon()
	await.Until(t, "laptop is away", func() bool {
		s, err := c.desk.Client.Status(await.NewContext(t))
		return err == nil && s.PeersConnected == 0
	})
	keep := func(during time.Duration) wire.MessageID {
		t.Helper()
		_, err := clerk.Query(await.NewContext(t), client.QueryParams{To: "laptop/worker", KeepMS: uint64(during.Milliseconds()), Payload: kinds.EncodePayload(&kinds.Query{Question: "?"})})
		kept := client.FindKept(err)
		if kept == nil {
			t.Fatalf("it is not kept: %v", err)
		}
		return kept.ID
	}
	becomes := func(id wire.MessageID, state client.TaskState, times int) {
		t.Helper()
		var task *client.Task
		var n int
		for end := time.Now().Add(await.Patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
			task, _ = c.desk.Client.Task(await.NewContext(t), id)
			mu.Lock()
			n = told[id]
			mu.Unlock()
			if task != nil && task.State == state && n == times {
				return
			}
		}
		t.Fatalf("it is not %s, told %d times: %+v, told %d times", state, times, task, n)
	}
	short, long := keep(day), keep(3*day)
	if err := clock.set(day + time.Hour); err != nil {
		t.Fatal(err)
	}
	last := keep(3 * day) // so that the daemon looks at once, and not within a minute
	becomes(short, client.TaskExpired, 1)
	becomes(long, client.TaskKept, 0)
	if err := clock.set(-day); err != nil {
		t.Fatal(err)
	}
	becomes(long, client.TaskKept, 0)
	c.desk.KillDaemon()
	c.desk.startAhead(-day)
	becomes(long, client.TaskKept, 0)
	c.laptop.Start()
	c.connected()
	for _, id := range []wire.MessageID{long, last} {
		becomes(id, client.TaskCompleted, 1)
	}
	becomes(short, client.TaskExpired, 1)
	c.laptop.mu.Lock()
	defer c.laptop.mu.Unlock()
	for id, times := range map[wire.MessageID]int{short: 0, long: 1, last: 1} {
		if n := c.laptop.got[handing{kinds.KindQuery, id}]; n != times {
			t.Errorf("%s came %d times, want %d", id, n, times)
		}
	}
}
