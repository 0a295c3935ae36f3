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

// A relay that dies under load and comes back: every call over it ends, in one outcome that is true;
// calls pass again soon after it is back; a peer that is reached directly notices nothing.
func TestRelayDiesUnderLoad(t *testing.T) {
	t.Parallel()
	for _, away := range []time.Duration{2 * time.Second, 10 * time.Second} {
		t.Run(away.String(), func(t *testing.T) {
			t.Parallel()
			n := newInternet(t, symmetric, symmetric)
			s := n.hub.nats(hubAddr)
			desk, laptop := n.desk.relayed("desk", s, ""), n.laptop.relayed("laptop", s, "")
			joinOverRelay(desk, laptop, s, s.tls)
			tablet := n.besideDesk("tablet").relayed("tablet", s, "")
			desk.Trust(tablet.Machine, tablet.Addr)
			tablet.Trust(desk.Machine)
			desk.connects(tablet, time.Now(), await.Patience)

			loads := map[*daemon]*load{laptop: newLoad(laptop), tablet: newLoad(tablet)}
			for _, l := range loads {
				l.begin(desk, 4)
			}
			await.Until(t, "calls pass", func() bool { return loads[laptop].countOK() > 20 && loads[tablet].countOK() > 20 })
			s.kill()
			<-time.After(away) // is what is tested
			s.start()
			back := time.Now()
			answered := loads[laptop].awaitOKSince(back)
			t.Logf("an answer %s after the server is back", answered.Round(time.Millisecond))
			if answered > 2*time.Second+slack {
				t.Errorf("an answer only %s after the server is back", answered)
			}
			for _, l := range loads {
				l.end()
			}
			loads[laptop].check(t)
			if longest := loads[tablet].check(t); longest > slack {
				t.Errorf("a call of a direct peer has taken %s", longest)
			}
			if failed := loads[tablet].failures(); failed != nil {
				t.Errorf("calls of a direct peer have failed: %v", failed)
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

// begin lets so many callers call, each one call after another, until end.
func (l *load) begin(from *daemon, callers int) {
	for range callers {
		l.all.Go(func() {
			for {
				select {
				case <-l.stop:
					return
				case <-time.After(5 * time.Millisecond): // the pace of the load
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
