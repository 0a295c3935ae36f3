//go:build faults

package faults

import (
	"context"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/integration/live"
	"github.com/acpd/acpd/kinds"
)

// slack is the time that a loaded machine may add to a promised one.
const slack = 10 * time.Second

// check is two daemons that trust each other, desk and laptop, and what they have
// promised while faults were about: agents of both make calls of all kinds all the
// time. settle says whether the promises were kept.
type check struct {
	t            *testing.T
	desk, laptop *side

	end     context.CancelFunc
	talking sync.WaitGroup

	mu    sync.Mutex
	ended ends
}

// ends counts calls, by kind and by how they ended.
type ends map[string]map[string]int

// of returns how many calls of any kind ended so.
func (e ends) of(end string) (n int) {
	for _, kind := range e {
		n += kind[end]
	}
	return n
}

// begin runs the daemons; prepare, if any, changes desk before its first start.
func begin(t *testing.T, prepare func(desk *live.Machine)) *check {
	t.Helper()
	c := newCheck(t, prepare)
	c.befriend(c.desk.Addr, c.laptop.Addr)
	c.ready()
	return c
}

// befriend has the daemons trust each other at these addresses.
func (c *check) befriend(desk, laptop string) {
	c.t.Helper()
	c.desk.Trust(c.laptop.Machine, laptop)
	c.laptop.Trust(c.desk.Machine, desk)
	c.connected()
}

func newCheck(t *testing.T, prepare func(desk *live.Machine)) *check {
	t.Helper()
	c := &check{t: t, desk: newSide(t, "desk"), laptop: newSide(t, "laptop"), ended: make(ends)}
	c.desk.other, c.laptop.other = c.laptop, c.desk
	if prepare != nil {
		prepare(c.desk.Machine)
	}
	c.desk.Start()
	c.laptop.Start()
	return c
}

// ready attaches the agents, lets every kind of call happen once, and takes down what
// is open when that is over.
func (c *check) ready() {
	c.t.Helper()
	for _, s := range c.sides() {
		s.attach()
	}
	for _, s := range c.sides() {
		for _, talk := range c.talks(s) {
			talk.call(c.t.Context())
		}
	}
	calm(c.desk.machine, c.laptop.machine)
	c.ended = make(ends)
}

func (c *check) sides() []*side { return []*side{c.desk, c.laptop} }

func (c *check) connected() {
	c.t.Helper()
	live.AwaitConnection(c.desk.Machine, c.laptop.Machine)
}

// forgive forgets what was promised until now.
func (c *check) forgive() {
	for _, s := range c.sides() {
		s.mu.Lock()
		clear(s.held)
		clear(s.handed)
		s.mu.Unlock()
	}
}

// held20 waits until there is something to lose: 20 messages more on either side.
func (c *check) held20() {
	c.t.Helper()
	for _, s := range c.sides() {
		n := func() int { s.mu.Lock(); defer s.mu.Unlock(); return len(s.held) }
		before := n()
		await.Until(c.t, "something is held", func() bool { return n() >= before+20 })
	}
}

// met waits until a call has ended so.
func (c *check) met(end string) {
	c.t.Helper()
	await.Until(c.t, "a call ends as "+end, func() bool { c.mu.Lock(); defer c.mu.Unlock(); return c.ended.of(end) > 0 })
}

// settle says what must hold when a fault is over: what was promised is there, once;
// the daemons talk; every delegation has ended; and what they held open for it is
// closed.
func (c *check) settle() {
	c.t.Helper()
	c.connected()
	for _, s := range c.sides() {
		s.MustOutput("ping", s.other.Name, "-c", "1")
		s.checkTasks()
		if err := s.read(await.NewContext(c.t)); err != nil {
			c.t.Fatal(err)
		}
	}
	for _, s := range c.sides() {
		s.checkDelivered()
	}
	for _, s := range c.sides() {
		s.closes()
	}
}

// checkTasks waits for the end of every delegation; their deadlines have passed, or
// are near.
func (s *side) checkTasks() {
	s.T.Helper()
	await.Until(s.T, "all delegations of "+s.Name+" are final", func() bool {
		tasks, err := s.Client.Tasks(await.NewContext(s.T))
		return err == nil && !slices.ContainsFunc(tasks, func(t client.Task) bool { return !t.State.IsFinal() })
	})
}

// checkDelivered compares what the other side has promised to this side's agent and
// operator with what has come, and looks for what came twice.
func (s *side) checkDelivered() {
	s.T.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.other.mu.Lock()
	defer s.other.mu.Unlock()
	for id := range s.other.held {
		if len(s.found[id]) == 0 {
			s.T.Errorf("message %s was held by %s, and is gone", id, s.Name)
		}
	}
	for id := range s.other.handed {
		if s.got[handing{kinds.KindNotify, id}] == 0 {
			s.T.Errorf("message %s was handed to an agent of %s, which knows nothing of it", id, s.Name)
		}
	}
	for message, n := range s.got {
		most := 1
		if message.kind == kinds.KindResult {
			most = s.starts // results are repeated, and a daemon forgets what its agents have confirmed
		}
		if n > most {
			s.T.Errorf("%s %s came to the agent of %s %d times", message.kind, message.id, s.Name, n)
		}
	}
	for id, places := range s.found {
		if len(places) > 1 {
			s.T.Errorf("message %s is %d times in the inbox of %s: %v", id, len(places), s.Name, maps.Values(places))
		}
	}
}

// quiet ends talk, and returns how many calls ended how.
func (c *check) quiet() ends {
	c.t.Helper()
	c.end()
	c.talking.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t.Logf("calls: %v", c.ended)
	return maps.Clone(c.ended)
}

// allWell is quiet for a fault that no call may notice.
func (c *check) allWell() {
	c.t.Helper()
	for kind, how := range c.quiet() {
		for end, n := range how {
			if !slices.Contains([]string{string(client.Held), string(client.Handed), "pong", "capabilities", "response", "accepted", "ack", string(client.TaskCompleted), string(client.TaskCancelled), "201", "504"}, end) {
				c.t.Errorf("%d of %s ended as %s", n, kind, end)
			}
		}
	}
}

// count counts a call.
func (c *check) count(kind, end string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended[kind] == nil {
		c.ended[kind] = make(map[string]int)
	}
	c.ended[kind][end]++
}

// failed counts a call that failed, or did so by its client's deadline alone: that may
// be if its daemon stood still meanwhile.
func (c *check) failed(s *side, kind string, begun time.Time, within context.Context, err error) {
	if within.Err() == nil {
		c.count(kind, string(kinds.AsError(err).Code))
		return
	}
	c.count(kind, "nothing said")
	if !s.silentSince(begun) {
		c.t.Errorf("%s of %s: no answer after %s: %v", kind, s.Name, time.Since(begun), err)
	}
}
