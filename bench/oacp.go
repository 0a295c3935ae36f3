package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/durable"
)

const (
	mailProject = "demo"
	mailSingles = 100  // messages that are sent one after the other
	mailWaiting = 1000 // messages that wait together
	mailRounds  = 5
	mailInboxes = 100 // that are watched
)

// oacpVariant is no way for a request to travel: it is mail, from a file on one
// machine to a file on the other.
var oacpVariant = variant{name: "oacp", programs: []string{"acpd", "acpctl"}}

// benchOACP measures how fast mail is carried, against a loop that copies the same files
// as durably, how fast it is listed, and what watching inboxes costs.
func benchOACP(ctx context.Context, to *report, log io.Writer) error {
	return measureParts(ctx, oacpVariant, to, log, part{"mail", func(f *fleet) ([]figure, error) {
		m := &mailDaemons{fleet: f}
		return m.measureMail(log)
	}})
}

// mailDaemons is two daemons: the planner lives at the near one, everybody else at the far one.
type mailDaemons struct {
	*fleet
	near, far  home
	client     client.Client // of the near daemon
	there      client.Client
	arrived    chan struct{} // one for each message that is stored there
	subscribed chan error
}

func (m *mailDaemons) measureMail(log io.Writer) ([]figure, error) {
	if err := m.startDaemons(); err != nil {
		return nil, err
	}
	defer m.client.Close()
	defer m.there.Close()
	single := figure{what: "one message, from the rename here until it is stored there", unit: "ms", target: 50}
	copied := figure{what: "copying one file: write, fsync, rename, fsync the folder", unit: "ms"}
	waiting := figure{what: fmt.Sprintf("%d waiting messages, until all are stored there", mailWaiting), unit: "s", target: 10}
	loop := figure{what: fmt.Sprintf("copying %d files", mailWaiting), unit: "s"}
	ratio := figure{what: "the one over the other", unit: "times", target: 3}
	effort := figure{what: fmt.Sprintf("CPU of a daemon that watches %d inboxes", mailInboxes), unit: "%", target: 0.3}

	fmt.Fprintln(log, "one by one")
	if err := m.bindAgent("single"); err != nil {
		return nil, err
	}
	for i := range mailSingles {
		took, err := m.sendOne(i)
		if err != nil {
			return nil, err
		}
		single.values = append(single.values, toMillis(took))
		if took, err = m.timeCopies("copied", i, 1); err != nil {
			return nil, err
		}
		copied.values = append(copied.values, toMillis(took))
	}
	for round := range mailRounds {
		fmt.Fprintf(log, "round %d of %d\n", round+1, mailRounds)
		floor, err := m.timeCopies(fmt.Sprint("floor", round), 0, mailWaiting)
		if err != nil {
			return nil, err
		}
		took, err := m.sendMany(fmt.Sprint("many", round))
		if err != nil {
			return nil, err
		}
		loop.values = append(loop.values, floor.Seconds())
		waiting.values = append(waiting.values, took.Seconds())
		ratio.values = append(ratio.values, took.Seconds()/floor.Seconds())
	}
	fmt.Fprintln(log, "listing")
	listing, process, err := m.measureListing()
	if err != nil {
		return nil, err
	}
	fmt.Fprintln(log, "rest")
	for i := range mailInboxes {
		if err := m.bindAgent(fmt.Sprint("idle", i)); err != nil {
			return nil, err
		}
	}
	if err := m.unbindMany(); err != nil {
		return nil, err
	}
	if _, err := measureCPUShares(m.ctx, patience, nil); err != nil { // what came before is over
		return nil, err
	}
	shares, err := measureCPUShares(m.ctx, idleTime, m.procs)
	if err != nil {
		return nil, err
	}
	effort.values = shares
	valid, err := measureValidation()
	return []figure{single, copied, waiting, loop, ratio, listing, process, effort, valid}, err
}

// startDaemons starts the daemons and listens for mail.
func (m *mailDaemons) startDaemons() (err error) {
	if m.near, m.far, err = createPair(m.fleet); err != nil {
		return err
	}
	for _, h := range []home{m.near, m.far} {
		if err := os.WriteFile(filepath.Join(h.dir, "config.yaml"), fmt.Appendf(nil, "oacp: {home: %q}\n", h.oacpPath()), 0o600); err != nil {
			return err
		}
	}
	if err := errors.Join(m.near.makeMailbox("planner"), m.spawnPairOn(m.near, m.far)); err != nil {
		return err
	}
	m.client.Socket, m.there.Socket = m.near.socketPath(), m.far.socketPath()
	if err := m.far.makeMailbox("reviewer"); err != nil { // makes the project
		return err
	}
	if _, err := m.there.OACPBind(m.ctx, client.OACPBindParams{Project: mailProject, Agent: "planner", Peer: "near"}); err != nil {
		return err
	}
	m.arrived, m.subscribed = make(chan struct{}, mailWaiting), make(chan error, 1)
	var ready atomic.Bool
	go func() { // ends with the fleet's context
		filter := client.SubscribeParams{Events: client.EventFilter{Types: []client.EventType{client.EventMail}}}
		m.subscribed <- m.there.Subscribe(m.ctx, filter, nil, func(e *client.Event) {
			if strings.Contains(string(e.Details), string(client.MailArrived)) {
				ready.Store(true)
				m.arrived <- struct{}{}
			}
		})
	}()
	// The first message is the proof that all is ready.
	if err := m.bindAgent("ready"); err != nil {
		return err
	}
	for i := 0; !ready.Load(); i++ {
		if err := m.near.writeMail("ready", i); err != nil {
			return err
		}
		select {
		case <-m.arrived:
		case <-time.After(patience / 10):
		case <-m.ctx.Done():
			return context.Cause(m.ctx)
		}
	}
	return nil
}

// bindAgent makes an agent one that lives at the far daemon.
func (m *mailDaemons) bindAgent(agent string) error {
	if err := m.far.makeMailbox(agent); err != nil {
		return err
	}
	_, err := m.client.OACPBind(m.ctx, client.OACPBindParams{Project: mailProject, Agent: agent, Peer: "far"})
	return err
}

// unbindMany leaves the inboxes that are empty.
func (m *mailDaemons) unbindMany() error {
	all, err := m.client.OACPBindings(m.ctx, mailProject)
	for _, b := range all {
		if !strings.HasPrefix(b.Agent, "idle") {
			_, fail := m.client.OACPUnbind(m.ctx, client.OACPUnbindParams{Project: mailProject, Agent: b.Agent})
			err = errors.Join(err, fail)
		}
	}
	return err
}

// sendOne sends a message and waits until it is stored.
func (m *mailDaemons) sendOne(i int) (time.Duration, error) {
	began := time.Now()
	if err := m.near.writeMail("single", i); err != nil {
		return 0, err
	}
	return m.awaitArrivals(1, began)
}

// sendMany lets messages wait for an agent that nobody carries mail for, binds it, and
// waits until all are stored.
func (m *mailDaemons) sendMany(agent string) (time.Duration, error) {
	if err := m.near.makeMailbox(agent); err != nil {
		return 0, err
	}
	for i := range mailWaiting {
		if err := m.near.writeMail(agent, i); err != nil {
			return 0, err
		}
	}
	began := time.Now()
	if err := m.bindAgent(agent); err != nil {
		return 0, err
	}
	return m.awaitArrivals(mailWaiting, began)
}

func (m *mailDaemons) awaitArrivals(n int, began time.Time) (time.Duration, error) {
	limit := time.After(patience * 6)
	for i := range n {
		select {
		case <-m.arrived:
		case err := <-m.subscribed:
			return 0, fmt.Errorf("listening for mail: %w", err)
		case <-limit:
			return 0, fmt.Errorf("%d of %d messages arrived in time", i, n)
		case <-m.ctx.Done():
			return 0, context.Cause(m.ctx)
		}
	}
	return time.Since(began), nil
}

// timeCopies copies n files as durably as mail is stored, one after the other.
func (m *mailDaemons) timeCopies(name string, first, n int) (time.Duration, error) {
	from, to := m.joinPath(name+"-from"), m.joinPath(name+"-to")
	if err := errors.Join(os.MkdirAll(from, 0o777), os.MkdirAll(to, 0o777)); err != nil {
		return 0, err
	}
	for i := first; i < first+n; i++ {
		if err := os.WriteFile(filepath.Join(from, mailFileName(i)), composeMail(i), 0o666); err != nil {
			return 0, err
		}
	}
	began := time.Now()
	for i := first; i < first+n; i++ {
		if err := copyFileDurably(from, to, mailFileName(i)); err != nil {
			return 0, err
		}
	}
	return time.Since(began), nil
}

func copyFileDurably(from, to, name string) error {
	text, err := os.ReadFile(filepath.Join(from, name))
	if err != nil {
		return err
	}
	return durable.ReplaceFile(filepath.Join(to, name), filepath.Join(to, "."+name+".tmp"), text, 0o666)
}

func (h home) oacpPath() string { return filepath.Join(h.dir, "oacp") }

func (h home) inboxPath(agent string) string {
	return filepath.Join(h.oacpPath(), "projects", mailProject, "agents", agent, "inbox")
}

// makeMailbox makes an agent's folders.
func (h home) makeMailbox(agent string) error { return os.MkdirAll(h.inboxPath(agent), 0o777) }

// writeMail puts a message into an inbox as other tools do: under a hidden name, then
// renamed.
func (h home) writeMail(agent string, i int) error {
	name := mailFileName(i)
	temp := filepath.Join(h.inboxPath(agent), "."+name+".tmp-1-abcdef")
	if err := os.WriteFile(temp, composeMail(i), 0o666); err != nil {
		return err
	}
	return os.Rename(temp, filepath.Join(h.inboxPath(agent), name))
}

func mailFileName(i int) string { return fmt.Sprintf("20261120130000_planner_question_%04x.yaml", i) }

// composeMail is an ordinary message of about 500 bytes.
func composeMail(i int) []byte {
	return fmt.Appendf(nil, `id: msg-20261120130000-planner-%04x
from: planner
to: reviewer
type: question
priority: P2
created_at_utc: "2026-11-20T13:00:00Z"
conversation_id: conv-20261120-planner-1
subject: Is the change safe?
body: |
  %s
`, i, strings.Repeat("Please look at the parser. ", 12))
}
