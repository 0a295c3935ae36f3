package oacp

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/internal/pace"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/oacp/mailbox"
)

// withdrawnError is what kept a message on this machine from being delivered.
type withdrawnError struct{ why string }

func (w *withdrawnError) Error() string { return w.why }

// deliveryWatch waits for the delivery of mail of a project.
type deliveryWatch struct {
	frame   *frame.Frame
	project string
	away    map[string]bool // the agents that are bound when the mail is sent
	reason  string          // why the last one that waits does, by the queue
}

// watchDeliveries begins a watch, before the mail is sent.
func (o *verbs) watchDeliveries(ctx context.Context, project string) (*deliveryWatch, error) {
	if err := o.checkDaemonHome(ctx); err != nil {
		return nil, err
	}
	bindings, err := o.Daemon.OACPBindings(ctx, project)
	if err != nil {
		return nil, err
	}
	d := &deliveryWatch{frame: o.Frame, project: project, away: make(map[string]bool)}
	for _, b := range bindings {
		d.away[b.Agent] = true
	}
	return d, nil
}

// awaitDeliveriesWithin calls awaitDeliveries for at most patience. Its errors continue "sent, but".
func (d *deliveryWatch) awaitDeliveriesWithin(ctx context.Context, patience time.Duration, s mailbox.Sent) error {
	within, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := d.awaitDeliveries(within, s)
	switch {
	case within.Err() != nil && ctx.Err() == nil && d.reason != "":
		return fmt.Errorf("not stored there within %s: %s; it waits until it can go: see acpctl oacp queue %s", kinds.FormatDuration(patience), client.Line(d.reason), d.project)
	case within.Err() != nil && ctx.Err() == nil:
		return fmt.Errorf("not stored there within %s; acpd still delivers it: see acpctl oacp queue %s", kinds.FormatDuration(patience), d.project)
	case errors.Is(err, &kinds.Error{Code: kinds.DaemonUnavailable}):
		return fmt.Errorf("the daemon went away; it carries the message when it is back: see acpctl oacp queue %s", d.project)
	}
	return err
}

// awaitDeliveries blocks until each copy of a message is stored on its recipient's machine. It returns
// an error if a copy is parked or withdrawn, or if ctx ends.
func (d *deliveryWatch) awaitDeliveries(ctx context.Context, s mailbox.Sent) error {
	const again = 100 * time.Millisecond
	sum := sha256.Sum256(s.Data)
	hash := hex.EncodeToString(sum[:])
	files := slices.DeleteFunc(slices.Clone(s.Inboxes), func(path string) bool { return !d.away[recipientOfFile(path)] })
	for {
		var waiting []string
		reason := ""
		for _, path := range files {
			q, err := d.askMailState(ctx, path, hash)
			if err != nil {
				return err
			}
			if q.State != client.MailDelivered {
				waiting, reason = append(waiting, path), q.Reason
			}
		}
		if files, d.reason = waiting, reason; len(files) == 0 {
			return nil
		}
		if err := pace.Sleep(ctx, again); err != nil {
			return err
		}
	}
}

// recipientOfFile returns the agent in whose inbox a file is.
func recipientOfFile(path string) string { return filepath.Base(filepath.Dir(filepath.Dir(path))) }

// askMailState asks the daemon for the state of a message, by its file and hash. Only the daemon
// knows whether a message is delivered, also after the file is gone.
func (d *deliveryWatch) askMailState(ctx context.Context, path, hash string) (client.OACPQueued, error) {
	agent := recipientOfFile(path)
	_, err := os.Lstat(path) // before the daemon is asked, so that the daemon knows why the file is gone
	gone := errors.Is(err, fs.ErrNotExist)
	q, err := d.frame.Daemon.OACPFile(ctx, d.project, agent, filepath.Base(path))
	switch {
	case err != nil:
		return client.OACPQueued{}, err
	case q != nil && q.State == client.MailParked:
		return *q, fmt.Errorf("%s is parked: %s", path, client.Line(q.Reason))
	case q != nil && (q.SHA256 == hash || q.SHA256 == ""):
		return *q, nil
	case q != nil:
		return *q, &withdrawnError{path + " was changed before it was seen to be delivered"}
	case gone:
		return client.OACPQueued{}, &withdrawnError{"it was recalled or dropped before it was seen to be delivered: " + path + " is gone"}
	}
	bindings, err := d.frame.Daemon.OACPBindings(ctx, d.project)
	if err == nil && !slices.ContainsFunc(bindings, func(b client.OACPBinding) bool { return b.Agent == agent }) {
		err = &withdrawnError{agent + " is no longer bound: the message is in " + path}
	}
	return client.OACPQueued{State: client.MailWaiting}, err
}
