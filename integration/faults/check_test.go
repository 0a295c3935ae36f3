//go:build faults

package faults

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/integration/live"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// slack is what a loaded machine may add to a promised time.
const slack = 2 * time.Second

// check is two daemons that trust each other, desk and laptop, and what they have
// promised while faults were about: laptop tells desk things all the time. settle says
// whether the promises were kept.
type check struct {
	t            *testing.T
	desk, laptop *live.Machine
	before       int // descriptors that desk had open

	stop    context.CancelFunc
	talking sync.WaitGroup

	mu    sync.Mutex
	held  map[wire.MessageID]bool // what desk said it holds
	ended map[string]int          // calls, by how they ended
}

// begin runs the daemons; prepare, if any, changes desk before its first start.
func begin(t *testing.T, prepare func(desk *live.Machine)) *check {
	t.Helper()
	c := &check{t: t, desk: live.New(t, "desk"), laptop: live.New(t, "laptop"), held: make(map[wire.MessageID]bool), ended: make(map[string]int)}
	if prepare != nil {
		prepare(c.desk)
	}
	c.desk.Start()
	c.laptop.Start()
	c.desk.Trust(c.laptop, c.laptop.Addr)
	c.laptop.Trust(c.desk, c.desk.Addr)
	c.connected()
	c.before = c.descriptors()
	return c
}

func (c *check) connected() {
	c.t.Helper()
	for m, other := range map[*live.Machine]*live.Machine{c.desk: c.laptop, c.laptop: c.desk} {
		await.Until(c.t, m.Name+" is connected", func() bool { return m.Peer(other.ID).State == client.PeerConnected })
	}
}

func (c *check) descriptors() int {
	c.t.Helper()
	open, err := os.ReadDir(filepath.Join("/proc", strconv.Itoa(c.desk.Acpd.Cmd.Process.Pid), "fd"))
	if err != nil {
		c.t.Fatal(err)
	}
	return len(open)
}

// talk has laptop tell desk things until quiet is called: 4 at a time, each with a
// deadline. A call that ends later is an error at once.
func (c *check) talk() {
	const limit = 10 * time.Second
	ctx, stop := context.WithCancel(c.t.Context())
	c.stop = stop
	for range 4 {
		c.talking.Go(func() {
			for ctx.Err() == nil {
				id, begun := wire.NewMessageID(), time.Now()
				within, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
				r, err := c.laptop.Client.Notify(within, client.NotifyParams{
					Head: client.Head{ID: id}, To: client.To("desk"), Payload: kinds.Encode(&kinds.Notify{Topic: "build"}),
				})
				cancel()
				if took := time.Since(begun); took > limit+slack {
					c.t.Errorf("a call with a deadline of %s took %s", limit, took)
				}
				c.mu.Lock()
				if err != nil {
					c.ended[string(kinds.AsError(err).Code)]++
				} else if c.ended[r.State]++; r.State == "held" {
					c.held[id] = true
				}
				c.mu.Unlock()
				time.Sleep(20 * time.Millisecond) // as a program would, so that the inbox has room
			}
		})
	}
}

// quiet ends talk, and returns how many calls ended how.
func (c *check) quiet() map[string]int {
	c.t.Helper()
	c.stop()
	c.talking.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t.Logf("calls: %v", c.ended)
	return maps.Clone(c.ended)
}

// settle says what must hold when a fault is over: what was promised is there, once;
// the daemons talk; and what they held open for it is closed.
func (c *check) settle() {
	c.t.Helper()
	c.connected()
	c.desk.Must("ping", "laptop", "-c", "1")
	found := make(map[wire.MessageID]int)
	for after := uint64(0); ; {
		page, err := c.desk.Client.Inbox(await.Context(c.t), client.InboxParams{After: after, Limit: 1000})
		if err != nil {
			c.t.Fatal(err)
		}
		for _, m := range page.Messages {
			found[m.Envelope.ID]++
		}
		if after = page.Next; after == 0 {
			break
		}
	}
	for id := range c.held {
		if found[id] == 0 {
			c.t.Errorf("message %s was held, and is gone", id)
		}
	}
	if twice := slices.Collect(maps.Values(found)); slices.ContainsFunc(twice, func(n int) bool { return n > 1 }) {
		c.t.Error("a message is there twice")
	}
	// The readers of the store close after 10 s without use.
	await.Until(c.t, fmt.Sprintf("desk has %d descriptors open again", c.before+2), func() bool { return c.descriptors() <= c.before+2 })
}
