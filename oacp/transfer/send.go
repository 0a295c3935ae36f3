package transfer

import (
	"bufio"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/pace"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/store"
	"github.com/acpd/acpd/wire"
)

// deliverLoop delivers the mail for a peer until ctx ends. It delivers several entries of one
// rank at a time.
func (m *Mailer) deliverLoop(ctx context.Context, q *peerQueue) {
	var deliveries sync.WaitGroup
	defer deliveries.Wait()
	for ctx.Err() == nil {
		e, wait := m.ledger.takeNextEntry(q)
		if e == nil {
			waitForSignal(ctx, q.deliverSignal, wait)
			continue
		}
		deliveries.Go(func() { m.deliverEntry(ctx, q, e) })
	}
}

// waitForSignal waits for a signal or the end of ctx, for at most d unless d is zero.
func waitForSignal(ctx context.Context, signal pace.Signal, d time.Duration) {
	var timer <-chan time.Time
	if d > 0 {
		timer = time.After(d)
	}
	select {
	case <-ctx.Done():
	case <-signal:
	case <-timer:
	}
}

// deliverEntry sends an entry, and notes the outcome in the store and in the ledger.
func (m *Mailer) deliverEntry(ctx context.Context, q *peerQueue, e *entry) {
	reply, err := m.sendEntry(ctx, q, e)
	m.reportSent(reply, err)
	now, said := time.Now(), ""
	if err == nil {
		said = m.cfg.Name(q.peer) + " says: " + reply.Message + " (" + reply.Code + ")"
	}
	if err == nil && isStoredReply(reply) {
		// If a crash loses this, the message is delivered again, as a duplicate.
		m.writeStore(ctx, func(tx *store.Tx) error { return sqlPutDelivery(tx, q.peer, e.mailbox, e.file, e.hash, now) })
	}
	m.publishEvents(m.ledger.recordDeliveryOutcome(q, e, reply, said, err, now))
}

// reportSent calls Config.Carried for a delivery to a peer, unless its file kept it from beginning.
func (m *Mailer) reportSent(reply *wire.MailReply, err error) {
	_, isUnreachable := errors.AsType[*unreachableError](err)
	switch {
	case m.cfg.Carried == nil:
	case err == nil:
		m.cfg.Carried(true, reply.Result)
	case isUnreachable || kinds.AsError(err).Code == kinds.Unreachable:
		m.cfg.Carried(true, Unreachable)
	}
}

// unreachableError is the error of a stream that could not be opened.
type unreachableError struct{ cause error }

func (e *unreachableError) Error() string { return e.cause.Error() }

// sendEntry delivers the file of an entry as it was when the entry was classified. Opening the
// stream may take long. If the file is gone after that, it is not delivered.
func (m *Mailer) sendEntry(ctx context.Context, q *peerQueue, e *entry) (*wire.MailReply, error) {
	ctx, cancel := context.WithTimeout(ctx, streamTime)
	defer cancel()
	s, err := m.cfg.Open(ctx, q.peer)
	if err != nil {
		return nil, &unreachableError{err}
	}
	f, err := m.readUnchangedFile(e)
	if err != nil {
		s.Cancel()
		return nil, err
	}
	request := &wire.MailRequest{
		Op: wire.MailDeliver, Project: e.mailbox.project, Agent: e.mailbox.agent, File: e.file, Hash: e.hash, Size: uint64(len(f.data)), Delivery: wire.NewMessageID(),
	}
	m.cfg.Log.Debug("mail sent", "peer", q.peer.Label(), "project", request.Project, "agent", request.Agent, "file", request.File, "delivery", request.Delivery)
	return exchangeRequest(s, request, f.data)
}

// readUnchangedFile reads the file behind an entry, which must be as it was.
func (m *Mailer) readUnchangedFile(e *entry) (*mailFile, error) {
	inbox, err := m.openInbox(e.mailbox)
	if err != nil {
		return nil, err
	}
	defer inbox.Close()
	f, err := readMailFile(inbox, e.file)
	if err == nil && f.hash != e.hash {
		err = errChanging
	}
	return f, err
}

// sendRequest makes a request without a body on a stream of its own.
func (m *Mailer) sendRequest(ctx context.Context, peer identity.ID, request *wire.MailRequest) (*wire.MailReply, error) {
	ctx, cancel := context.WithTimeout(ctx, streamTime)
	defer cancel()
	s, err := m.cfg.Open(ctx, peer)
	if err != nil {
		return nil, &unreachableError{err}
	}
	return exchangeRequest(s, request, nil)
}

// exchangeRequest writes a request to a stream, reads the reply, and ends the stream.
func exchangeRequest(s Stream, request *wire.MailRequest, body []byte) (*wire.MailReply, error) {
	request.V = wire.MailVersion
	b, err := wire.AppendMailRequest(nil, request)
	if err != nil {
		s.Cancel()
		return nil, err
	}
	// If the receiver refuses, it does not read on, and writing fails: its reply says why.
	_, failed := s.Write(append(b, body...))
	failed = errors.Join(failed, s.CloseWrite())
	s.SetReadDeadline(time.Now().Add(idleTime))
	reply, err := wire.ReadMailReply(bufio.NewReader(s))
	if err != nil {
		s.Cancel()
		if failed != nil {
			err = failed
		}
		return nil, kinds.Errorf(kinds.Unreachable, "the connection broke before an answer: %v", err)
	}
	s.Close() // both halves have ended
	return reply, nil
}
