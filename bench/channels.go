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

// benchChannels measures OpenIntent's channels on http.sock: how fast a message, an answer
// and a list are there, and what daemons hold in memory.
func benchChannels(ctx context.Context, to *report, log io.Writer) error {
	return measureParts(ctx, channelsVariant, to, log,
		part{"speed", newForumMeasure((*forum).measureSpeed)}, part{"history", newForumMeasure((*forum).measureHistory)}, part{"between machines", newForumMeasure((*forum).measureBetweenMachines)},
		part{"streams", newForumMeasure((*forum).measureStreams)}, part{"memory", newForumMeasure((*forum).measureMemory)})
}

// forum is two daemons with an intent at the near one, and its agents.
type forum struct {
	*fleet
	near, far         home
	planner, reviewer *webAgent
	intent, channel   string
}

// newForumMeasure has a fleet make the forum that measure needs.
func newForumMeasure(measure func(*forum) ([]figure, error)) func(*fleet) ([]figure, error) {
	return func(fl *fleet) (figures []figure, err error) {
		f := &forum{fleet: fl}
		if f.near, f.far, err = createPair(fl); err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(f.near.dir, "config.yaml"), []byte("channels: {open_to: [far]}\n"), 0o600); err != nil {
			return nil, err
		}
		if err := f.spawnPairOn(f.near, f.far); err != nil {
			return nil, err
		}
		agents, cancel := context.WithCancel(fl.ctx)
		defer cancel()
		f.planner, f.reviewer = newWebAgent(agents, f.near, "planner"), newWebAgent(agents, f.near, "reviewer")
		if f.intent, err = f.planner.createObject("intents", `{"title":"bench"}`); err != nil {
			return nil, err
		}
		if f.channel, err = f.openChannel("talk", ""); err != nil {
			return nil, err
		}
		return measure(f)
	}
}

func (f *forum) openChannel(name, options string) (string, error) {
	id, err := f.planner.createObject("intents/"+f.intent+"/channels", fmt.Sprintf(`{"name":%q,"options":{%s}}`, name, options))
	return "channels/" + id, err
}

const notice = `{"message_type":"notify","payload":{"progress":1}}`

// measureSpeed measures agents of one daemon.
func (f *forum) measureSpeed() ([]figure, error) {
	post := figure{what: "a message, until it is stored", unit: "ms", target: 0.2}
	ask := figure{what: "ask, until the response is there", unit: "ms", target: 0.6}
	push := figure{what: "a message, until a stream has told of it: p99", unit: "ms", target: 5}
	burst := figure{what: fmt.Sprintf("%d messages from %d clients", chanBurst, chanSenders), unit: "s", target: 1}
	effort := figure{what: "CPU of the daemon for one of them", unit: "µs"}
	own := figure{what: "CPU of the clients for one of them", unit: "µs"}
	if err := f.answerRequests(f.reviewer); err != nil {
		return nil, err
	}
	heard := make(chan struct{}, chanBurst)
	pushed, err := f.openChannel("pushed", "")
	if err != nil {
		return nil, err
	}
	if err := f.reviewer.followEvents("subscribe/"+pushed, func([]byte) { heard <- struct{}{} }); err != nil {
		return nil, err
	}
	for range chanRounds {
		posted, err := timeRepeats(chanSingles, func() error { return f.planner.post(f.channel+"/messages", notice) })
		if err != nil {
			return nil, err
		}
		asked, err := timeRepeats(chanSingles, f.askReviewer)
		if err != nil {
			return nil, err
		}
		told, err := timeRepeats(chanSingles, func() error {
			err := f.planner.post(pushed+"/messages", notice)
			<-heard
			return err
		})
		if err != nil {
			return nil, err
		}
		took, spent, err := f.postBurst()
		if err != nil {
			return nil, err
		}
		effort.values = append(effort.values, toMicros(spent[0])/chanBurst)
		own.values = append(own.values, toMicros(spent[1])/chanBurst)
		post.values = append(post.values, toMillis(posted.p50))
		ask.values = append(ask.values, toMillis(asked.p50))
		push.values = append(push.values, toMillis(told.p99))
		burst.values = append(burst.values, took.Seconds())
	}
	return []figure{post, ask, push, burst, effort, own}, nil
}

// answerRequests has an agent respond to whatever it is asked.
func (f *forum) answerRequests(w *webAgent) error {
	return w.followEvents("agents/"+w.agent+"/subscribe", func(data []byte) {
		var m struct {
			ID      string `json:"id"`
			Channel string `json:"channel_id"`
			Kind    string `json:"message_type"`
		}
		if json.Unmarshal(data, &m) == nil && m.Kind == "request" {
			w.fetch("POST", "channels/"+m.Channel+"/messages/"+m.ID+"/reply", `{"payload":{"answer":42}}`) // who asks sees the error
		}
	})
}

func (f *forum) askReviewer() error {
	return f.planner.post(f.channel+"/ask", `{"to":"reviewer","payload":{"question":"which schema?"},"timeout":10}`)
}

// postBurst sends from many clients, each to a channel of its own, and returns the CPU
// time that the daemon and the clients, this process, spent on it.
func (f *forum) postBurst() (took time.Duration, spent [2]time.Duration, err error) {
	pids := [2]int{f.lastProcess().cmd.Process.Pid, os.Getpid()}
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
	err = runSenders(func(sender int) error {
		path := fmt.Sprintf("intents/%s/channels/burst-%d/messages", f.intent, sender)
		for range chanBurst / chanSenders {
			if err := f.planner.post(path, notice); err != nil {
				return err
			}
		}
		return nil
	})
	took = time.Since(began)
	return took, spent, errors.Join(err, measure(1))
}

// timeRepeats does something n times, one after the other.
func timeRepeats(n int, do func() error) (r result, err error) {
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

// measureHistory measures how long a page takes where few messages are kept and where many are.
func (f *forum) measureHistory() ([]figure, error) {
	var figures []figure
	for _, kept := range []int{100, 1000, 10_000} {
		channel, err := f.openChannel(fmt.Sprint("kept", kept), `"max_messages":10000`)
		if err != nil {
			return nil, err
		}
		if err := f.fillChannel(channel+"/messages", kept); err != nil {
			return nil, err
		}
		listing := figure{what: fmt.Sprintf("listing the last %d of %d messages", chanPage, kept), unit: "ms"}
		for range chanRounds {
			listed, err := timeRepeats(chanSingles, func() error {
				_, err := f.reviewer.fetch("GET", fmt.Sprintf("%s/messages?limit=%d", channel, chanPage), "")
				return err
			})
			if err != nil {
				return nil, err
			}
			listing.values = append(listing.values, toMillis(listed.p50))
		}
		figures = append(figures, listing)
	}
	few, many := summarizeValues(figures[0].values).median, summarizeValues(figures[2].values).median
	return append(figures, figure{what: "the last over the first", unit: "times", values: []float64{many / few}, target: 1.2}), nil
}

// fillChannel sends n messages.
func (f *forum) fillChannel(path string, n int) error {
	var next atomic.Int64
	return runSenders(func(int) error {
		for next.Add(1) <= int64(n) {
			if err := f.planner.post(path, notice); err != nil {
				return err
			}
		}
		return nil
	})
}

// runSenders calls send in chanSenders goroutines, each with its number.
func runSenders(send func(sender int) error) error {
	var senders errgroup.Group
	for i := range chanSenders {
		senders.Go(func() error { return send(i) })
	}
	return senders.Wait()
}

// measureBetweenMachines measures agents at different daemons.
func (f *forum) measureBetweenMachines() ([]figure, error) {
	post := figure{what: "a message to a channel of another daemon", unit: "ms"}
	ask := figure{what: "ask of an agent at another daemon", unit: "ms"}
	near := client.Client{Socket: f.near.socketPath()}
	defer near.Close()
	if _, err := near.Ping(f.ctx, client.PingParams{To: "far"}); err != nil { // the far one has no address of it
		return nil, err
	}
	away := newWebAgent(f.planner.ctx, f.far, "reviewer")
	if _, err := away.fetch("GET", f.channel, ""); err != nil { // now its home is known
		return nil, err
	}
	if err := f.answerRequests(away); err != nil {
		return nil, err
	}
	for range chanRounds {
		posted, err := timeRepeats(chanSingles, func() error { return away.post(f.channel+"/messages", notice) })
		if err != nil {
			return nil, err
		}
		asked, err := timeRepeats(chanSingles, f.askReviewer)
		if err != nil {
			return nil, err
		}
		post.values = append(post.values, toMillis(posted.p50))
		ask.values = append(ask.values, toMillis(asked.p50))
	}
	return []figure{post, ask}, nil
}

// measureStreams measures what idle subscribers cost.
func (f *forum) measureStreams() ([]figure, error) {
	idle := figure{what: fmt.Sprintf("memory of a daemon with channels, %v after ready", crowdTime), unit: "MB", target: 20}
	held := figure{what: fmt.Sprintf("memory with %d idle event streams", chanStreams), unit: "MB", target: 60}
	if err := f.recordMemory(&idle); err != nil {
		return nil, err
	}
	for range chanStreams {
		if err := f.reviewer.followEvents("intents/"+f.intent+"/subscribe", func([]byte) {}); err != nil {
			return nil, err
		}
	}
	err := f.recordMemory(&held)
	return []figure{idle, held}, err
}

// measureMemory measures what many channels cost, and again after a restart.
func (f *forum) measureMemory() ([]figure, error) {
	what := fmt.Sprintf("memory with %d channels of %d messages", chanMany, chanEach)
	live := figure{what: what, unit: "MB", target: 120}
	again := figure{what: what + ", after a restart", unit: "MB", target: 120}
	var next atomic.Int64
	err := runSenders(func(int) error {
		for n := next.Add(1); n <= chanMany; n = next.Add(1) {
			path := fmt.Sprintf("intents/%s/channels/c%d/messages", f.intent, n)
			for range chanEach {
				if err := f.planner.post(path, notice); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err := errors.Join(err, f.recordMemory(&live), f.stopLast()); err != nil {
		return nil, err
	}
	if _, err := f.spawnDaemon(f.near.dir, "--no-mdns"); err != nil {
		return nil, err
	}
	err = f.recordMemory(&again)
	return []figure{live, again}, err
}

// recordMemory appends the memory of the daemon, when it has rested, to a figure.
func (f *forum) recordMemory(into *figure) error {
	if _, err := measureCPUShares(f.ctx, crowdTime, nil); err != nil {
		return err
	}
	bytes, err := residentMemory(f.lastProcess().cmd.Process.Pid)
	into.values = append(into.values, toMegabytes(bytes))
	return err
}
