//go:build netns

package netns

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// A relay that dies under load and comes back: every call over it ends, in one outcome that is true, and
// soon; calls pass again soon after it is back; a peer that is reached directly notices nothing.
func TestRelayDiesUnderLoad(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		away    time.Duration
		callers int
		pace    time.Duration
	}{{2 * time.Second, 4, 5 * time.Millisecond}, {10 * time.Second, 4, 5 * time.Millisecond}, {time.Minute, 2, 20 * time.Millisecond}} {
		t.Run(c.away.String(), func(t *testing.T) {
			t.Parallel()
			n := newInternet(t, symmetric, symmetric)
			s := n.hub.nats(hubAddr)
			desk, laptop := n.desk.relayed("desk", s, ""), n.laptop.relayed("laptop", s, "")
			joinOverRelay(desk, laptop, s, s.tls)
			tablet := n.besideDesk("tablet").relayed("tablet", s, "")
			desk.Trust(tablet.Machine, tablet.Addr)
			tablet.Trust(desk.Machine)
			desk.connects(tablet, time.Now(), await.Patience)

			relayed, direct := newLoad(laptop), newLoad(tablet)
			relayed.begin(desk, c.callers, c.pace)
			direct.begin(desk, c.callers, c.pace)
			await.Until(t, "calls pass", func() bool { return relayed.countOK() > 20 && direct.countOK() > 20 })
			isLong := c.away >= time.Minute
			begun := time.Now()
			if isLong {
				<-time.After(5 * p99Window) // is what the outage is compared with
			}
			died := time.Now()
			s.kill()
			<-time.After(c.away) // is what is tested
			restarted := time.Now()
			s.start()
			back := time.Now()
			answered := relayed.awaitOKSince(back)
			t.Logf("an answer %s after the server is back", answered.Round(time.Millisecond))
			if answered > 2*time.Second+callSlack {
				t.Errorf("an answer only %s after the server is back", answered)
			}
			relayed.end()
			direct.end()
			relayed.check(t)
			relayed.checkOutage(t, died, restarted)
			if longest := direct.check(t); longest > slack {
				t.Errorf("a call of a direct peer has taken %s", longest)
			}
			if failed := direct.failures(); failed != nil {
				t.Errorf("calls of a direct peer have failed: %v", failed)
			}
			if isLong { // in a shorter one there are too few calls for that
				before, during := direct.findP99(t, begun, died), direct.findP99(t, died, restarted)
				await.CheckDuration(t, fmt.Sprintf("p99 of a direct peer in the outage, %s before it", before), during, 2*before+20*time.Millisecond)
			}
			if path := desk.findPath(tablet); path != client.PathDirect {
				t.Errorf("the direct peer is reached by %q", path)
			}
		})
	}
}

// besideDesk makes another host behind the NAT of the desk.
func (n *internet) besideDesk(name string) *host {
	n.t.Helper()
	h := n.ipv4Host(name)
	h.wire("eth0", "lana", "10.1.0.3/24")
	h.ip("route add default via " + innerAAddr)
	return h
}

// load is calls to one daemon, whose agent counts what it hears.
type load struct {
	to   *daemon
	stop chan struct{}
	all  sync.WaitGroup

	mu    sync.Mutex // guards the rest
	heard map[wire.MessageID]int
	calls []call
}

// call is a call that has ended.
type call struct {
	id    wire.MessageID
	err   error
	begun time.Time
	took  time.Duration
}

// newLoad attaches an agent that counts the questions that it hears.
func newLoad(to *daemon) *load {
	t := to.T
	t.Helper()
	l := &load{to: to, stop: make(chan struct{}), heard: make(map[wire.MessageID]int)}
	ctx, cancel := context.WithCancel(context.Background())
	var attached sync.WaitGroup
	agent := &client.Client{Socket: to.SocketPath()}
	attached.Go(func() {
		agent.Attach(ctx, client.AttachParams{Name: "counter"}, client.Handler{Query: func(_ context.Context, in *client.Inbound) (any, error) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.heard[in.ID]++
			return &kinds.Response{Summary: "heard"}, nil
		}})
	})
	t.Cleanup(func() { cancel(); attached.Wait(); agent.Close() })
	await.Until(t, "the counter is attached", func() bool {
		status, err := to.Client.Status(t.Context())
		return err == nil && len(status.Agents) == 1
	})
	return l
}

// begin lets so many callers call, each one call after another with a pause between, until end.
func (l *load) begin(from *daemon, callers int, pause time.Duration) {
	for range callers {
		l.all.Go(func() {
			for {
				select {
				case <-l.stop:
					return
				case <-time.After(pause): // the pace of the load
				}
				c := call{id: wire.NewMessageID(), begun: time.Now()}
				p := client.QueryParams{Head: client.Head{ID: c.id}, To: l.to.ID.String(), Payload: kinds.EncodePayload(&kinds.Query{Question: "Ready?"})}
				_, c.err = from.Client.Query(context.Background(), p)
				c.took = time.Since(c.begun)
				l.mu.Lock()
				l.calls = append(l.calls, c)
				l.mu.Unlock()
			}
		})
	}
}

// end waits until all calls have ended.
func (l *load) end() {
	close(l.stop)
	l.all.Wait()
}

func (l *load) countOK() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.calls {
		if c.err == nil {
			n++
		}
	}
	return n
}

// awaitOKSince waits for the first call that succeeds after a time, and returns how long after.
func (l *load) awaitOKSince(since time.Time) (after time.Duration) {
	l.to.T.Helper()
	await.Until(l.to.T, "a call succeeds", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		i := slices.IndexFunc(l.calls, func(c call) bool { return c.err == nil && c.begun.Add(c.took).After(since) })
		if i >= 0 {
			after = l.calls[i].begun.Add(l.calls[i].took).Sub(since)
		}
		return i >= 0
	})
	return after
}

// failures counts the calls that have failed, by their errors.
func (l *load) failures() (counts map[string]int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.calls {
		if c.err != nil {
			if counts == nil {
				counts = make(map[string]int)
			}
			e := kinds.AsError(c.err)
			counts[fmt.Sprintf("%s, delivered %s", e.Code, e.Delivered())]++
		}
	}
	return counts
}

// check fails the test unless each call has ended in an outcome that is true: an answer if the agent
// has heard the question once, an error with a code and delivered, and no question heard of which an
// error says that it was not delivered. It returns how long the longest call has taken.
func (l *load) check(t *testing.T) (longest time.Duration) {
	t.Helper()
	failed := l.failures()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.calls {
		longest = max(longest, c.took)
		heard, e := l.heard[c.id], kinds.AsError(c.err)
		switch {
		case heard > 1:
			t.Errorf("%s: the agent has heard it %d times", c.id, heard)
		case c.err == nil && heard == 0:
			t.Errorf("%s: answered, and the agent has not heard it", c.id)
		case c.err == nil:
		case e.Code != kinds.Unreachable && e.Code != kinds.Timeout:
			t.Errorf("%s: %v", c.id, c.err)
		case e.Delivered() != kinds.DeliveredNo && e.Delivered() != kinds.DeliveredUnknown:
			t.Errorf("%s: %v: delivered %q", c.id, c.err, e.Delivered())
		case e.Delivered() == kinds.DeliveredNo && heard > 0:
			t.Errorf("%s: %v, and the agent has heard it", c.id, c.err)
		}
	}
	t.Logf("%s: %d calls, the longest %s, failed: %v", l.to.Name, len(l.calls), longest.Round(time.Millisecond), failed)
	return longest
}

// checkOutage fails the test unless the calls that began while the server was away have failed as soon as is
// promised: those of the first seconds, in which the connection is found dead, and those after them, of
// which nothing was delivered.
func (l *load) checkOutage(t *testing.T, died, restarted time.Time) {
	t.Helper()
	const foundDead, dialled = 6 * time.Second, 3 * time.Second
	var first, later []time.Duration
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.calls {
		switch {
		case c.begun.Before(died) || c.begun.Add(c.took).After(restarted):
		case c.begun.Before(died.Add(foundDead + callSlack)):
			first = append(first, c.took)
		default:
			later = append(later, c.took)
			if e := kinds.AsError(c.err); c.err == nil || e.Code != kinds.Unreachable || e.Delivered() != kinds.DeliveredNo {
				t.Errorf("%s, %s after the server died: %v, want %s and delivered %s", c.id, c.begun.Sub(died), c.err, kinds.Unreachable, kinds.DeliveredNo)
			}
		}
	}
	if len(first) > 0 {
		await.CheckDuration(t, fmt.Sprintf("the longest of %d calls of the first seconds", len(first)), slices.Max(first), foundDead+callSlack)
	}
	if len(later) > 0 {
		await.CheckDuration(t, fmt.Sprintf("the longest of %d calls after those", len(later)), slices.Max(later), dialled+callSlack)
	}
	if restarted.Sub(died) >= time.Minute && len(later) < 20 {
		t.Errorf("%d calls in the outage", len(later))
	}
}

// p99Window is the time of which findP99 takes the calls together.
const p99Window = 3 * time.Second

// findP99 returns what 99 of 100 calls took at most that began between two times: of those of each
// window, and of that the median, so that a moment in which the machine did something else does not count.
func (l *load) findP99(t *testing.T, from, to time.Time) time.Duration {
	t.Helper()
	windows := make([][]time.Duration, int(to.Sub(from)/p99Window))
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.calls {
		if i := int(c.begun.Sub(from) / p99Window); !c.begun.Before(from) && i < len(windows) {
			windows[i] = append(windows[i], c.took)
		}
	}
	var p99s []time.Duration
	for i, took := range windows {
		if len(took) == 0 {
			t.Fatalf("no call in window %d of %d", i, len(windows))
		}
		p99s = append(p99s, percentile(took, 99))
	}
	return percentile(p99s, 50)
}
