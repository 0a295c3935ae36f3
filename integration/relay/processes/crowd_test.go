package processes

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/integration/live"
	"github.com/acpd/acpd/relay"
)

var (
	crowdSize = flag.Int("crowd", 120, "daemons of TestCrowd")
	outage    = flag.Duration("outage", 4*time.Second, "how long the server of TestCrowd is away")
)

const (
	crowdAtOnce   = 64              // calls: many more at a time would wait for each other until they time out
	crowdPatience = 2 * time.Minute // for all of a crowd together
	crowdDaemons  = 3               // of them are acpd

	// What a daemon that rests may cost.
	mostNodeKiB = 1_500_000 >> 10  // RSS
	mostPackets = 2.0              // to the relay, in a second: half of them are those that a busy machine sends again
	restTime    = 12 * time.Second // in which that is measured: two signs of life on each connection
)

// TestCrowd: many daemons are on one relay, all with one hub and each with the next; the server goes, and
// comes back. All are back then, by the word of whom they ask, and the server sees no storm of connections.
// Before and after, those that rest send few packets, and have little memory.
// holds: security.md#against-a-relay-and-those-who-share-it
func TestCrowd(t *testing.T) {
	const token = "a-token"
	s := newServer(t, []string{"of a person"}, "TOKEN", token)
	s.start()
	before := readKiB(t, os.Getpid(), "VmRSS")
	c := newCrowd(t, s, token)
	began := time.Now()
	c.askAll(t, "first")
	first := time.Since(began)
	nodes := len(c.nodes)
	rss := (readKiB(t, os.Getpid(), "VmRSS") - before) / nodes
	t.Logf("%d nodes and %d acpd on one relay: all have asked after %v; a node takes %d KiB of RSS", nodes, len(c.machines), first.Round(time.Millisecond), rss)
	if rss > mostNodeKiB && !live.IsRaceEnabled() {
		t.Errorf("a node takes %d KiB of RSS, want at most %d", rss, mostNodeKiB)
	}
	c.rest(t, "at first")

	s.process.Stop()
	door := newDoor(t, s.addr)
	door.stayFor(*outage)
	s.start()
	began = time.Now()
	c.awaitRelay(t)
	linked := time.Since(began)
	c.askAll(t, "back")
	back := time.Since(began)
	all := nodes + len(c.machines)
	t.Logf("the server was away for %v, in which it was called on %d times; back on the relay after %v, all have asked after %v",
		door.open.Round(time.Millisecond), door.calls, linked.Round(time.Millisecond), back.Round(time.Millisecond))

	// A link pauses for 1.1 s on average, and for 0.25 s at least: so there are two attempts each in the first
	// second, at most, and no more than one a second and each from then on. A machine that is slow makes fewer.
	if most := int(float64(all) * (2 + door.open.Seconds()*1.2)); door.calls > most {
		t.Errorf("%d connections in %v: a storm; expected are %d at most", door.calls, door.open, most)
	}
	for i, n := range c.nodes {
		if state := n.link.State(); state.Reconnects == 0 || state.Reconnects > 2 {
			t.Errorf("node %d has connected again %d times", i, state.Reconnects)
		}
	}
	c.rest(t, "after the restart")
}

// crowd is a hub, nodes in this process, and daemons.
type crowd struct {
	nodes    []*node // the first is the hub
	machines []*live.Machine
}

func newCrowd(t *testing.T, s *server, token string) *crowd {
	t.Helper()
	roots := s.roots()
	c := &crowd{nodes: make([]*node, *crowdSize-crowdDaemons)}
	for i := range c.nodes {
		c.nodes[i] = newNode(t, s, roots, token)
	}
	hub := c.nodes[0]
	for i, n := range c.nodes[1:] {
		next := c.nodes[1+(i+1)%(len(c.nodes)-1)]
		n.trusts(t, hub.ID(), "hub")
		hub.trusts(t, n.ID(), fmt.Sprint("laptop-", i))
		n.trusts(t, next.ID(), "next")
		if _, knows := next.trust.FindPeer(n.ID()); !knows {
			next.trusts(t, n.ID(), "before")
		}
	}
	for i := range crowdDaemons {
		m := newMachine(t, fmt.Sprint("desk-", i), s)
		config := fmt.Sprintf("reach: {relays: [{name: hub, url: %q, token: %s}], direct: off}\n", s.url(), token)
		if err := os.WriteFile(filepath.Join(m.Home, "config.yaml"), []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
		m.StartDaemon()
		m.MustOutput("trust", hub.ID().String(), "--name", "hub", "--yes")
		hub.trusts(t, m.ID, m.Name)
		c.machines = append(c.machines, m)
	}
	c.awaitRelay(t)
	return c
}

// rest has all rest, and judges how many packets they send meanwhile.
func (c *crowd) rest(t *testing.T, when string) {
	t.Helper()
	time.Sleep(restTime / 2) // until connections that others have replaced are gone
	began, sent := time.Now(), c.countPackets()
	time.Sleep(restTime / 2) // the traffic of this time is measured
	rate := float64(c.countPackets()-sent) / time.Since(began).Seconds() / float64(len(c.nodes))
	peers := 0
	for _, n := range c.nodes {
		peers += len(n.Peers())
	}
	t.Logf("%s, at rest: %d nodes have %d connections; each sends %.2f packets a second", when, len(c.nodes), peers, rate)
	if least := 3 * (len(c.nodes) - 1); peers < least {
		t.Errorf("%s: %d connections, want %d at least", when, peers, least)
	}
	if rate > mostPackets {
		t.Errorf("%s: a node that rests sends %.2f packets a second, want at most %v", when, rate, mostPackets)
	}
}

// countPackets returns how many packets the nodes have sent to the relay.
func (c *crowd) countPackets() (all uint64) {
	for _, n := range c.nodes {
		all += n.link.State().Out.Packets
	}
	return all
}

// awaitRelay waits until all are on the relay.
func (c *crowd) awaitRelay(t *testing.T) {
	t.Helper()
	for end := time.Now().Add(crowdPatience); ; time.Sleep(5 * time.Millisecond) { // between looks
		missing := 0
		for _, n := range c.nodes {
			if n.link.State().Standing != relay.Connected {
				missing++
			}
		}
		if missing == 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d of %d are not on the relay", missing, len(c.nodes))
		}
	}
}

// askAll has each node ask the hub and its neighbour, and the hub and each daemon ask each other. A call
// that fails is made again until it succeeds, as programs do: what counts is when all have succeeded.
func (c *crowd) askAll(t *testing.T, word string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), crowdPatience)
	defer cancel()
	hub, rest := c.nodes[0], c.nodes[1:]
	var again atomic.Int64
	insist := func(ask func(ctx context.Context) error) error {
		for {
			call, stop := context.WithTimeout(ctx, 5*time.Second)
			err := ask(call)
			stop()
			if err == nil {
				return nil
			}
			again.Add(1)
			select {
			case <-time.After(100 * time.Millisecond): // as an agent that tries again
			case <-ctx.Done():
				return err
			}
		}
	}
	var asking sync.WaitGroup
	atOnce := make(chan struct{}, crowdAtOnce)
	start := func(ask func(ctx context.Context) error) {
		atOnce <- struct{}{}
		asking.Go(func() {
			defer func() { <-atOnce }()
			if err := insist(ask); err != nil {
				t.Errorf("%s: %v", word, err)
			}
		})
	}
	for _, m := range c.machines {
		start(func(ctx context.Context) error { _, err := hub.ping(ctx, m.ID); return err })
	}
	for i, n := range rest {
		start(func(ctx context.Context) error { return n.ask(ctx, hub.ID(), fmt.Sprint(word, i)) })
		if len(rest) > 1 {
			start(func(ctx context.Context) error { return n.ask(ctx, rest[(i+1)%len(rest)].ID(), fmt.Sprint(word, -i)) })
		}
	}
	asking.Wait()
	for _, m := range c.machines {
		await.Until(t, m.Name+" is answered", func() bool {
			_, err := m.Client.Ping(await.NewContext(t), client.PingParams{To: "hub"})
			return err == nil
		})
	}
	t.Logf("%s: %d calls were made again", word, again.Load())
}

// door stands where the server was, and counts who calls on it.
type door struct {
	t        *testing.T
	listener net.Listener
	open     time.Duration
	calls    int
}

func newDoor(t *testing.T, addr string) *door {
	t.Helper()
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	return &door{t: t, listener: listener}
}

// stayFor hangs up on whoever calls, for so long.
func (d *door) stayFor(span time.Duration) {
	began := time.Now()
	var answering sync.WaitGroup
	answering.Go(func() {
		for {
			c, err := d.listener.Accept()
			if err != nil {
				return
			}
			c.Close()
			d.calls++
		}
	})
	time.Sleep(span) // the outage
	d.listener.Close()
	answering.Wait()
	d.open = time.Since(began)
}
