package watch

import (
	"context"
	"errors"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/kinds"
)

const (
	daemonIsAway = "the daemon is away; tail goes on when it is back"
	daemonIsBack = "the daemon is back"
)

// say has a line told, unless ctx ends.
func (t *tail) say(ctx context.Context, line string) {
	select {
	case t.talk <- line:
	case <-ctx.Done():
	}
}

// readAnswers passes on what the daemon answers, again and again, until ctx ends or another error than
// that the daemon is away.
func (t *tail) readAnswers(ctx context.Context, after uint64, to chan<- *client.TrafficAnswer) error {
	p := t.params
	p.WaitMS = uint64(client.MaxTrafficWait.Milliseconds())
	for p.After = after; ; {
		var a *client.TrafficAnswer
		told := false
		isAway := func(err error) bool {
			e, ok := errors.AsType[*kinds.Error](err)
			if !ok || e.Code != kinds.DaemonUnavailable || ctx.Err() != nil {
				return false
			}
			if !told {
				told = true
				t.say(ctx, daemonIsAway)
			}
			return true
		}
		err := frame.RetryWhile(ctx, tailPatience, 2*time.Second, isAway, func() (err error) {
			a, err = t.Daemon.Traffic(ctx, &p)
			return err
		})
		if err != nil {
			return err
		}
		if told {
			t.say(ctx, daemonIsBack)
		}
		select {
		case to <- a:
			p.After = a.Next
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// tailPatience bounds how long a tail tries again while the daemon is away.
const tailPatience = 24 * time.Hour

// wantsEvents reports whether no flag selects messages.
func (t *tail) wantsEvents() bool {
	p := &t.params
	return len(p.Kinds)+len(p.Topics)+len(p.Threads)+len(p.Agents) == 0
}

// readEvents passes on the events that are wanted until ctx ends. It never waits for whoever prints:
// what that cannot take is counted as lost.
func (t *tail) readEvents(ctx context.Context, to chan<- tailItem) error {
	if !t.wantsEvents() {
		return nil
	}
	lost := uint64(0)
	pass := func(i tailItem) bool {
		select {
		case to <- i:
			return true
		default:
			return false
		}
	}
	return t.Daemon.Subscribe(ctx, client.SubscribeParams{
		Kinds: []string{client.NoKind}, Peers: t.params.Peers, Events: client.EventFilter{All: true},
	}, nil, func(e *client.Event) {
		at := clampToNow(e.At)
		if e.Type == client.EventMissed {
			var missed client.Missed
			if json.Unmarshal(e.Details, &missed) == nil {
				lost += missed.Messages + missed.Events
			}
			if lost > 0 && pass(tailItem{at: at, lost: lost}) {
				lost = 0
			}
			return
		}
		if lost > 0 && pass(tailItem{at: at, lost: lost}) {
			lost = 0
		}
		if !pass(tailItem{at: at, event: e}) {
			lost++
		}
	})
}
