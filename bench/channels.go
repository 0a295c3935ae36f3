package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
	"golang.org/x/sync/errgroup"

	"github.com/acpd/acpd/client"
)

const (
	chanRounds  = 5
	chanSingles = 1000   // requests that are made one after the other, a round
	chanBurst   = 10_000 // messages that are sent at once
	chanSenders = 16
	chanPage    = 50 // messages in a list
	chanStreams = 1000
	chanMany    = 10_000 // channels
	chanEach    = 100    // messages in each of them
)

// channelsVariant is no way for a request to travel: it is agents that talk in
// channels, over HTTP.
var channelsVariant = variant{name: "channels", programs: []string{"acpd"}}

// channels measures OpenIntent's channels on http.sock: how fast a message, an answer
// and a list are there, and what daemons hold in memory.
func channels(ctx context.Context, out, log io.Writer) error {
	return measureParts(ctx, channelsVariant, out, log,
		part{"speed", inForum((*forum).speed)}, part{"history", inForum((*forum).history)}, part{"between machines", inForum((*forum).apart)},
		part{"streams", inForum((*forum).streams)}, part{"memory", inForum((*forum).memory)})
}

// forum is two daemons with an intent at the near one, and its agents.
type forum struct {
	*fleet
	near, far         home
	planner, reviewer *web
	intent, channel   string
}

// inForum has a fleet make the forum that measure needs.
func inForum(measure func(*forum) ([]figure, error)) func(*fleet) ([]figure, error) {
	return func(fl *fleet) (figures []figure, err error) {
		f := &forum{fleet: fl}
		if f.near, f.far, err = makePair(fl); err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(f.near.dir, "config.yaml"), []byte("channels: {open_to: [far]}\n"), 0o600); err != nil {
			return nil, err
		}
		if err := f.spawnPair(f.near, f.far); err != nil {
			return nil, err
		}
		agents, cancel := context.WithCancel(fl.ctx)
		defer cancel()
		f.planner, f.reviewer = newWeb(agents, f.near, "planner"), newWeb(agents, f.near, "reviewer")
		if f.intent, err = f.planner.made("intents", `{"title":"bench"}`); err != nil {
			return nil, err
		}
		if f.channel, err = f.open("talk", ""); err != nil {
			return nil, err
		}
		return measure(f)
	}
}

// daemon is the near one: the last that was started.
func (f *forum) daemon() *proc { return f.procs[len(f.procs)-1] }

func (f *forum) open(name, options string) (string, error) {
	id, err := f.planner.made("intents/"+f.intent+"/channels", fmt.Sprintf(`{"name":%q,"options":{%s}}`, name, options))
	return "channels/" + id, err
}

const notice = `{"message_type":"notify","payload":{"progress":1}}`

// speed is that of agents of one daemon.
func (f *forum) speed() ([]figure, error) {
	post := figure{what: "a message, until it is stored", unit: "ms", target: 0.2}
	ask := figure{what: "ask, until the response is there", unit: "ms", target: 0.6}
	push := figure{what: "a message, until a stream has told of it: p99", unit: "ms", target: 5}
	burst := figure{what: fmt.Sprintf("%d messages from %d clients", chanBurst, chanSenders), unit: "s", target: 1}
	effort := figure{what: "CPU of the daemon for one of them", unit: "µs"}
	own := figure{what: "CPU of the clients for one of them", unit: "µs"}
	if err := f.answer(f.reviewer); err != nil {
		return nil, err
	}
	heard := make(chan struct{}, chanBurst)
	pushed, err := f.open("pushed", "")
	if err != nil {
		return nil, err
	}
	if err := f.reviewer.follow("subscribe/"+pushed, func([]byte) { heard <- struct{}{} }); err != nil {
		return nil, err
	}
	for range chanRounds {
		posted, err := repeat(chanSingles, func() error { _, err := f.planner.do("POST", f.channel+"/messages", notice); return err })
		if err != nil {
			return nil, err
		}
		asked, err := repeat(chanSingles, f.ask)
		if err != nil {
			return nil, err
		}
		told, err := repeat(chanSingles, func() error {
			_, err := f.planner.do("POST", pushed+"/messages", notice)
			<-heard
			return err
		})
		if err != nil {
			return nil, err
		}
		took, spent, err := f.burst()
		if err != nil {
			return nil, err
		}
		effort.values = append(effort.values, micros(spent[0])/chanBurst)
		own.values = append(own.values, micros(spent[1])/chanBurst)
		post.values = append(post.values, millis(posted.p50))
		ask.values = append(ask.values, millis(asked.p50))
		push.values = append(push.values, millis(told.p99))
		burst.values = append(burst.values, took.Seconds())
	}
	return []figure{post, ask, push, burst, effort, own}, nil
}

// answer has an agent respond to whatever it is asked.
func (f *forum) answer(w *web) error {
	return w.follow("agents/"+w.agent+"/subscribe", func(data []byte) {
		var m struct {
			ID      string `json:"id"`
			Channel string `json:"channel_id"`
			Kind    string `json:"message_type"`
		}
		if json.Unmarshal(data, &m) == nil && m.Kind == "request" {
			w.do("POST", "channels/"+m.Channel+"/messages/"+m.ID+"/reply", `{"payload":{"answer":42}}`) // who asks sees the error
		}
	})
}

func (f *forum) ask() error {
	_, err := f.planner.do("POST", f.channel+"/ask", `{"to":"reviewer","payload":{"question":"which schema?"},"timeout":10}`)
	return err
}

// burst sends from many clients, each to a channel of its own, and returns the CPU
// time that the daemon and the clients, this process, spent on it.
func (f *forum) burst() (took time.Duration, spent [2]time.Duration, err error) {
	pids := [2]int{f.daemon().cmd.Process.Pid, os.Getpid()}
	measure := func(sign time.Duration) error {
		var errs []error
		for i, pid := range pids {
			used, err := cpuTime(pid)
			spent[i] += sign * used
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	}
	if err := measure(-1); err != nil {
		return 0, spent, err
	}
	began := time.Now()
	var senders errgroup.Group
	for i := range chanSenders {
		path := fmt.Sprintf("intents/%s/channels/burst-%d/messages", f.intent, i)
		senders.Go(func() error {
			for range chanBurst / chanSenders {
				if _, err := f.planner.do("POST", path, notice); err != nil {
					return err
				}
			}
			return nil
		})
	}
	err = senders.Wait()
	took = time.Since(began)
	return took, spent, errors.Join(err, measure(1))
}

// repeat does something n times, one after the other.
func repeat(n int, do func() error) (r result, err error) {
	took := make([]time.Duration, n)
	for i := range took {
		began := time.Now()
		if err := do(); err != nil {
			return r, err
		}
		took[i] = time.Since(began)
	}
	slices.Sort(took)
	return result{p50: took[n/2], p99: took[n*99/100]}, nil
}

// history is how long a page takes where few messages are kept and where many are.
func (f *forum) history() ([]figure, error) {
	var figures []figure
	for _, kept := range []int{100, 1000, 10_000} {
		channel, err := f.open(fmt.Sprint("kept", kept), `"max_messages":10000`)
		if err != nil {
			return nil, err
		}
		if err := f.fill(channel+"/messages", kept); err != nil {
			return nil, err
		}
		listing := figure{what: fmt.Sprintf("listing the last %d of %d messages", chanPage, kept), unit: "ms"}
		for range chanRounds {
			listed, err := repeat(chanSingles, func() error {
				_, err := f.reviewer.do("GET", fmt.Sprintf("%s/messages?limit=%d", channel, chanPage), "")
				return err
			})
			if err != nil {
				return nil, err
			}
			listing.values = append(listing.values, millis(listed.p50))
		}
		figures = append(figures, listing)
	}
	few, many := spreadOf(figures[0].values).median, spreadOf(figures[2].values).median
	return append(figures, figure{what: "the last over the first", unit: "times", values: []float64{many / few}, target: 1.2}), nil
}

// fill sends n messages.
func (f *forum) fill(path string, n int) error {
	var next atomic.Int64
	var senders errgroup.Group
	for range chanSenders {
		senders.Go(func() error {
			for next.Add(1) <= int64(n) {
				if _, err := f.planner.do("POST", path, notice); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return senders.Wait()
}

// apart is the speed of agents at different daemons.
func (f *forum) apart() ([]figure, error) {
	post := figure{what: "a message to a channel of another daemon", unit: "ms"}
	ask := figure{what: "ask of an agent at another daemon", unit: "ms"}
	near := client.Client{Socket: f.near.socket()}
	defer near.Close()
	if _, err := near.Ping(f.ctx, client.PingParams{To: "far"}); err != nil { // the far one has no address of it
		return nil, err
	}
	away := newWeb(f.planner.ctx, f.far, "reviewer")
	if _, err := away.do("GET", f.channel, ""); err != nil { // now its home is known
		return nil, err
	}
	if err := f.answer(away); err != nil {
		return nil, err
	}
	for range chanRounds {
		posted, err := repeat(chanSingles, func() error { _, err := away.do("POST", f.channel+"/messages", notice); return err })
		if err != nil {
			return nil, err
		}
		asked, err := repeat(chanSingles, f.ask)
		if err != nil {
			return nil, err
		}
		post.values = append(post.values, millis(posted.p50))
		ask.values = append(ask.values, millis(asked.p50))
	}
	return []figure{post, ask}, nil
}

// streams is what idle subscribers cost.
func (f *forum) streams() ([]figure, error) {
	idle := figure{what: fmt.Sprintf("memory of a daemon with channels, %v after ready", crowdTime), unit: "MB", target: 20}
	held := figure{what: fmt.Sprintf("memory with %d idle event streams", chanStreams), unit: "MB", target: 60}
	if err := f.weigh(&idle); err != nil {
		return nil, err
	}
	for range chanStreams {
		if err := f.reviewer.follow("intents/"+f.intent+"/subscribe", func([]byte) {}); err != nil {
			return nil, err
		}
	}
	err := f.weigh(&held)
	return []figure{idle, held}, err
}

// memory is what many channels cost, and again after a restart.
func (f *forum) memory() ([]figure, error) {
	what := fmt.Sprintf("memory with %d channels of %d messages", chanMany, chanEach)
	live := figure{what: what, unit: "MB", target: 120}
	again := figure{what: what + ", after a restart", unit: "MB", target: 120}
	var next atomic.Int64
	var senders errgroup.Group
	for range chanSenders {
		senders.Go(func() error {
			for n := next.Add(1); n <= chanMany; n = next.Add(1) {
				path := fmt.Sprintf("intents/%s/channels/c%d/messages", f.intent, n)
				for range chanEach {
					if _, err := f.planner.do("POST", path, notice); err != nil {
						return err
					}
				}
			}
			return nil
		})
	}
	if err := errors.Join(senders.Wait(), f.weigh(&live), f.stopLast()); err != nil {
		return nil, err
	}
	if _, err := f.spawnDaemon(f.near.dir, "--no-mdns"); err != nil {
		return nil, err
	}
	err := f.weigh(&again)
	return []figure{live, again}, err
}

// weigh looks at the memory of the daemon when it has rested.
func (f *forum) weigh(into *figure) error {
	if _, err := rest(f.ctx, crowdTime, nil); err != nil {
		return err
	}
	bytes, err := residentMemory(f.daemon().cmd.Process.Pid)
	into.values = append(into.values, megabytes(bytes))
	return err
}
