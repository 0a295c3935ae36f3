package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
	"golang.org/x/sys/unix"

	"github.com/acpd/acpd/wire"
)

// A mill is one thing that a trusted peer does as often as it can.
type mill struct {
	name     string
	together int // at a time
	once     func(context.Context, *partner) error
}

var mills = []mill{
	{"pings", 256, func(ctx context.Context, p *partner) error { return p.sendPing(ctx) }},
	{"queries", 256, func(ctx context.Context, p *partner) error { return p.sendQuery(ctx, 200) }},
	{"queries of 900 KiB", 8, func(ctx context.Context, p *partner) error { return p.sendQuery(ctx, 900<<10) }},
	{"notifies", 256, func(ctx context.Context, p *partner) error { return p.sendNotify(ctx, 200) }},
	{"notifies of 900 KiB", 8, func(ctx context.Context, p *partner) error { return p.sendNotify(ctx, 900<<10) }},
	{"delegations", 64, func(ctx context.Context, p *partner) error { return p.sendDelegation(ctx) }},
	{"requests that are begun and reset", 128, func(ctx context.Context, p *partner) error {
		return p.beginStream(ctx, wire.StreamHTTP, "POST /", false)
	}},
	{"requests that are begun and left", 512, func(ctx context.Context, p *partner) error {
		return p.beginStream(ctx, wire.StreamHTTP, "POST /", true)
	}},
	{"mail that nobody takes", 64, func(ctx context.Context, p *partner) error {
		return p.beginStream(ctx, wire.StreamMail, strings.Repeat("\x82", 1<<10), false)
	}},
	{"connections", 4, func(ctx context.Context, p *partner) error { return p.reconnect(ctx) }},
	{"messages of 200 KiB in a channel", 16, func(ctx context.Context, p *partner) error {
		return p.callChannels(ctx, "POST", "channels/"+p.channel+"/messages", `{"payload":{"text":"`+strings.Repeat("x", 200<<10)+`"}}`)
	}},
	{"states of 200 KiB that replace each other, and verifications of the log", 8, func(ctx context.Context, p *partner) error { return p.replaceState(ctx) }},
	{"lists of a channel", 64, func(ctx context.Context, p *partner) error {
		return p.callChannels(ctx, "GET", "channels/"+p.channel+"/messages?wait=0&limit=200", "")
	}},
	{"lists that nobody reads", 100, func(ctx context.Context, p *partner) error {
		s, err := p.openRequest(ctx, "GET", "channels/"+p.channel+"/messages?wait=0&limit=200", "")
		if err != nil {
			return err
		}
		defer s.Cancel()
		time.Sleep(100 * time.Millisecond)
		return nil
	}},
}

func listMills() []string {
	var names []string
	for _, m := range mills {
		names = append(names, m.name)
	}
	return names
}

// beginStream opens a stream, writes to it and resets it, at once or after a second.
func (p *partner) beginStream(ctx context.Context, t wire.StreamType, text string, leave bool) error {
	s, err := p.OpenStream(ctx, p.desk, t)
	if err != nil {
		return err
	}
	defer s.Cancel()
	if _, err := s.Write([]byte(text)); err != nil || !leave {
		return err
	}
	select {
	case <-ctx.Done():
	case <-time.After(time.Second):
	}
	return nil
}

// reconnect makes a connection anew.
func (p *partner) reconnect(ctx context.Context) error {
	p.Disconnect(p.desk)
	return p.sendPing(ctx)
}

// replaceState sets the intent's state, which another worker may have done first, and has
// the log verified that tells of it.
func (p *partner) replaceState(ctx context.Context) error {
	intent, err := p.fetchChannels(ctx, "GET", "intents/"+p.intent, "")
	if err != nil {
		return err
	}
	var is struct {
		Version int `json:"version"`
	}
	if err := json.Unmarshal(intent, &is); err != nil {
		return err
	}
	_, err = p.fetchChannels(ctx, "POST", "intents/"+p.intent+"/state", `{"state":{"text":"`+strings.Repeat("x", 200<<10)+`"}}`, "If-Match", strconv.Itoa(is.Version))
	if err != nil {
		return err
	}
	_, err = p.fetchChannels(ctx, "GET", "intents/"+p.intent+"/events/verify", "")
	return err
}

// startMillRole returns what does as it is ordered, as INTENT CHANNEL MILL, until it is told to end, and
// answers with how often. All other processes go before it: it stands for another machine.
func startMillRole(args []string) (answer func(string) (string, error), end func(), err error) {
	if err := setIdlePriority(); err != nil {
		return nil, nil, err
	}
	p, err := startPartner(args)
	if err != nil {
		return nil, nil, err
	}
	var stop func() string
	return func(order string) (string, error) {
		if order == endWord {
			return stop(), nil
		}
		var name string
		p.intent, name, _ = strings.Cut(order, " ")
		p.channel, name, _ = strings.Cut(name, " ")
		for _, m := range mills {
			if m.name == name {
				stop = p.startMill(m)
				return name, nil
			}
		}
		return "", fmt.Errorf("there is no mill %q", name)
	}, p.Close, nil
}

// setIdlePriority gives each thread of this process, and so those that they start, the
// policy SCHED_IDLE: any other process that wakes takes the processor at once. (A niceness
// is a thread's too, and one of 19 keeps the processor for milliseconds.)
func setIdlePriority() error {
	for left := true; left; {
		left = false
		tasks, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return err
		}
		for _, task := range tasks {
			id, err := strconv.Atoi(task.Name())
			if err != nil {
				return err
			}
			attr, err := unix.SchedGetAttr(id, 0)
			if err == nil && attr.Policy != unix.SCHED_IDLE {
				left = true
				err = unix.SchedSetAttr(id, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_IDLE}, 0)
			}
			if err != nil && err != unix.ESRCH {
				return fmt.Errorf("yield processors: %w", err)
			}
		}
	}
	return nil
}

// startMill does m from now on. stop ends that, and tells how often
// it was done and how often it was refused.
func (p *partner) startMill(m mill) (stop func() string) {
	ctx, cancel := context.WithCancel(context.Background())
	var workers sync.WaitGroup
	var done, refused atomic.Int64
	for range m.together {
		workers.Go(func() {
			for ctx.Err() == nil {
				within, cancel := context.WithTimeout(ctx, patience)
				if m.once(within, p) == nil {
					done.Add(1)
				} else if ctx.Err() == nil {
					refused.Add(1)
				}
				cancel()
			}
		})
	}
	return func() string {
		cancel()
		workers.Wait()
		return fmt.Sprintf("%d done, %d refused", done.Load(), refused.Load())
	}
}
