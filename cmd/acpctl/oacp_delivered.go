package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/kinds"
)

// The states that send prints with --wait-delivered.
const (
	mailQueued    = "queued"
	mailDelivered = "delivered"
)

// deliveries looks after mail on its way. It is made before the mail is sent, so
// that it misses nothing.
type deliveries struct {
	app     *app
	news    chan struct{} // capacity 1
	refused chan error    // why there will be no news; capacity 1
	stop    func()
}

func (o *oacp) deliveries(ctx context.Context) (*deliveries, error) {
	if err := o.checkHome(ctx); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	d := &deliveries{app: o.app, news: make(chan struct{}, 1), refused: make(chan error, 1)}
	var listening sync.WaitGroup
	d.stop = func() { cancel(); listening.Wait() }
	listening.Go(func() {
		filter := client.SubscribeParams{Events: client.EventFilter{Types: []string{client.EventMail}}}
		d.refused <- o.daemon.Subscribe(ctx, filter, nil, func(*client.Event) {
			select {
			case d.news <- struct{}{}:
			default:
			}
		})
	})
	return d, nil
}

// awaitFor is await for a time; its errors continue "sent, but".
func (d *deliveries) awaitFor(ctx context.Context, patience time.Duration, project string, files []string) error {
	within, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := d.await(within, project, files)
	switch {
	case within.Err() != nil && ctx.Err() == nil:
		return fmt.Errorf("not stored there within %s; it goes on its way by itself: see acpctl oacp queue %s", patience, project)
	case errors.Is(err, &kinds.Error{Code: kinds.DaemonUnavailable}):
		return fmt.Errorf("the daemon went away; it carries the message when it is back: see acpctl oacp queue %s", project)
	}
	return err
}

// await returns when every copy of a message is stored where its recipient lives;
// the files are those that lie in inboxes here. It is an error if one is parked.
func (d *deliveries) await(ctx context.Context, project string, files []string) error {
	const again = time.Second // events are hints
	tick := time.NewTicker(again)
	defer tick.Stop()
	for {
		on, err := d.onTheirWay(ctx, project, files)
		if err != nil || on == 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-d.refused:
			return err
		case <-d.news:
		case <-tick.C:
		}
	}
}

// onTheirWay counts the files that are not stored yet.
func (d *deliveries) onTheirWay(ctx context.Context, project string, files []string) (n int, err error) {
	bindings, err := d.app.daemon.OACPBindings(ctx, project)
	if err != nil {
		return 0, err
	}
	bound := make(map[string]bool)
	for _, b := range bindings {
		bound[b.Agent] = true
	}
	queue, err := d.app.daemon.OACPQueue(ctx, project)
	if err != nil {
		return 0, err
	}
	type key struct{ agent, file string }
	states := make(map[key]client.OACPQueued)
	for _, q := range queue {
		states[key{q.Agent, q.File}] = q
	}
	for _, path := range files {
		k := key{filepath.Base(filepath.Dir(filepath.Dir(path))), filepath.Base(path)}
		if !bound[k.agent] {
			continue // the recipient lives here
		}
		switch q := states[k]; q.State {
		case client.MailDelivered:
		case client.MailParked:
			return 0, fmt.Errorf("%s is parked: %s", path, client.Line(q.Reason))
		default:
			// One that is not there any more was stored, and consumed.
			if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
				n++
			}
		}
	}
	return n, nil
}
