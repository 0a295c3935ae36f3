package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/pace"
	"github.com/acpd/acpd/kinds"
)

const (
	growthPart = "growth"
	restTime   = 10 * time.Second // before memory is read: growing leaves garbage and timers
	holders    = 5                // peers whose messages are held: the inbox gives one peer a quarter
)

// A site is two daemons with an agent that asks at the near one and an agent that answers at the far one. What
// grows is at the far one.
type site struct {
	*fleet
	pair
	crowd *crowd
}

// A quantity is something with which the cost of a daemon may grow.
type quantity struct {
	name  string
	steps []int
	// grow makes it as large as the step, and returns when it is.
	grow func(s *site, step int) error
	// crowd returns how many peers the far daemon has in addition to the near one. nil: it has no others.
	crowd func(step int) int
	// bytes reports that the step is the size of a query.
	bytes bool
}

// quantities lists all. Most end where one daemon, or one peer, may have no more.
var quantities = []quantity{
	{name: "connected peers", steps: []int{1, 10, 100, 1000}, grow: growPeers, crowd: func(n int) int { return n - 1 }},
	{name: "attached agents", steps: []int{1, 4, 32, 256}, grow: growAgents},
	{name: "bytes of a query and of its answer", steps: []int{200, 4 << 10, 64 << 10, 1 << 20}, grow: growQuery, bytes: true},
	{name: "held messages", steps: []int{10, 100, 1000, 10_000}, grow: growInbox, crowd: func(int) int { return holders - 1 }},
	{name: "open delegations", steps: []int{1, 10, 100, 256}, grow: growDelegations},
	{name: "channels with a message each", steps: []int{10, 100, 1000, 10_000}, grow: growChannels},
}

// growthConfig lets a query of 1 MiB pass with its envelope.
const growthConfig = "max_message: 2097152\n"

// measureGrowth measures, for each step of each quantity, the memory of the far daemon after a rest, and then how
// long a query takes.
func measureGrowth(ctx context.Context, all []quantity, rounds int, window, rest time.Duration) (figures []figure, err error) {
	bin, err := os.MkdirTemp("", "bench")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(bin)
	if err := buildDaemon(ctx, "..", bin); err != nil {
		return nil, err
	}
	for _, q := range all {
		fmt.Fprintln(os.Stderr, q.name)
		grown, err := q.measure(ctx, bin, rounds, window, rest)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", q.name, err)
		}
		figures = append(figures, grown...)
	}
	return figures, nil
}

func (q quantity) measure(ctx context.Context, bin string, rounds int, window, rest time.Duration) ([]figure, error) {
	memories, times := make([]figure, len(q.steps)), make([]figure, len(q.steps))
	for i, step := range q.steps {
		name, c := strconv.Itoa(step), oneSmall
		if q.bytes {
			name, c.size = formatSize(step), step
		}
		memories[i] = figure{group: q.name + ": memory of the daemon", what: name, unit: "MB"}
		times[i] = figure{group: q.name + ": " + medianTime + " of a query", what: name, unit: "ms"}
		size := 0
		if q.crowd != nil {
			size = q.crowd(step)
		}
		err := runSite(ctx, bin, size, func(s *site) error {
			if err := q.grow(s, step); err != nil {
				return err
			}
			if err := s.measureMemory(rest, &memories[i]); err != nil {
				return err
			}
			return s.measureTime(c, rounds, window, &times[i])
		})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return append(memories, times...), nil
}

// runSite has measure use a site of its own: what one step has left in memory is no part of the next.
func runSite(ctx context.Context, bin string, size int, measure func(*site) error) (err error) {
	ctx, cancel := context.WithCancel(ctx) // ends what grow has begun
	defer cancel()
	f, err := newFleet(ctx, acpdVariant, bin)
	if err != nil {
		return err
	}
	s := &site{fleet: f}
	defer func() { err = errors.Join(err, f.stopAll()) }()
	if s.crowd, err = newCrowd(size); err != nil {
		return err
	}
	defer s.crowd.close()
	if s.pair, err = f.spawnPair(growthConfig, s.crowd.listPeers()...); err != nil {
		return err
	}
	s.crowd.hub = identity.Peer{ID: s.far.id, Name: "far", Addrs: s.farAddrs}
	if err := f.spawnAgents(s.pair); err != nil {
		return err
	}
	return measure(s)
}

// measureMemory adds the memory of the far daemon, which spawnPair starts first.
func (s *site) measureMemory(rest time.Duration, memory *figure) error {
	if err := pace.Sleep(s.ctx, rest); err != nil {
		return err
	}
	bytes, err := residentMemory(s.procs[0].cmd.Process.Pid)
	memory.add(float64(bytes) / 1e6)
	return err
}

// measureTime adds the median time of a query for each round.
func (s *site) measureTime(c cell, rounds int, window time.Duration, took *figure) error {
	if _, err := s.loadCell(c, window/5); err != nil { // warm-up
		return err
	}
	for range rounds {
		r, err := s.loadCell(c, window)
		if err != nil {
			return err
		}
		took.add(toMillis(r.p50))
	}
	return nil
}

// growPeers connects nodes. The near daemon is a peer too.
func growPeers(s *site, _ int) error { return s.crowd.connect(s.ctx) }

// growAgents attaches agents that are asked nothing. The one that answers is an agent too.
func growAgents(s *site, n int) error {
	for i := range n - 1 {
		if err := s.attachAgent(client.AttachParams{Name: fmt.Sprint("agent-", i), Kinds: []string{kinds.KindNotify}}, nil); err != nil {
			return err
		}
	}
	return nil
}

// growQuery sends queries of a size for a while.
func growQuery(s *site, bytes int) error {
	_, err := s.loadCell(cell{bytes, 1}, cellWindow)
	return err
}

// attachAgent attaches an agent at the far daemon that gives all requests the same answer. It stays until the
// daemon ends.
func (s *site) attachAgent(p client.AttachParams, answer any) error {
	conn, _, err := connectAgent(s.far.socketPath(), func(_ context.Context, _ *jsonrpc.Conn, r *jsonrpc.Request) { r.Respond(answer) })
	if err != nil {
		return err
	}
	return conn.Call(s.ctx, client.MethodAttach, p, nil)
}

var notice = kinds.EncodePayload(&kinds.Notify{Topic: "build", Data: []byte(`"done"`)})

// growInbox has all peers send notifies, each as many, which no agent takes.
func growInbox(s *site, n int) error {
	if err := s.crowd.connect(s.ctx); err != nil {
		return err
	}
	if err := s.crowd.notify(s.ctx, n/holders); err != nil {
		return err
	}
	return s.repeatNear(n/holders, func(near *client.Client) error {
		receipt, err := near.Notify(s.ctx, client.NotifyParams{To: client.To("far"), Payload: notice})
		if err == nil && receipt.State != client.Held {
			err = fmt.Errorf("a notify was %s and not held", receipt.State)
		}
		return err
	})
}

// growDelegations has an agent take delegations that it does not end.
func growDelegations(s *site, n int) error {
	worker := client.AttachParams{Name: "worker", Kinds: []string{kinds.KindDelegate}, MaxConcurrent: 2 * n}
	if err := s.attachAgent(worker, &kinds.Ack{Accepted: true}); err != nil {
		return err
	}
	task := kinds.EncodePayload(&kinds.Delegate{Task: "review"})
	return s.repeatNear(n, func(near *client.Client) error {
		_, err := near.Delegate(s.ctx, client.DelegateParams{To: "far/worker", Payload: task})
		return err
	})
}

// repeatNear has a client of the near daemon do something n times.
func (s *site) repeatNear(n int, do func(near *client.Client) error) error {
	near := client.Client{Socket: s.near.socketPath()}
	defer near.Close()
	var calls errgroup.Group
	calls.SetLimit(maxInFlight)
	for range n {
		calls.Go(func() error { return do(&near) })
	}
	return calls.Wait()
}

// growChannels sends a message to each channel, which makes the channel.
func growChannels(s *site, n int) error {
	planner := newWebAgent(s.ctx, s.far, "planner")
	intent := ""
	for i := range n {
		var err error
		if i%channelsPerIntent == 0 {
			if intent, err = planner.createObject("intents", `{"title":"bench"}`); err != nil {
				return err
			}
		}
		if err = planner.post(fmt.Sprintf("intents/%s/channels/talk-%d/messages", intent, i), progress); err != nil {
			return err
		}
	}
	return nil
}

// channelsPerIntent is how many of them are in one intent, which may have a thousand.
const channelsPerIntent = 100
