package transfer

import (
	"bufio"
	"context"
	"errors"
	"io/fs"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/pace"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/store"
	"github.com/acpd/acpd/wire"
)

// How many streams a courier has open: deliveries, and beside them reports.
const (
	maxSending = 8
	maxReports = 4
)

// peerQueue takes to one peer what is for it. Mailer.mu guards it.
type peerQueue struct {
	peer identity.ID

	running   int    // that run; see crew
	stop      func() // ends them
	untrusted bool   // the peer is not trusted

	// Deliveries and reports each have a loop of their own, so that neither waits
	// for the other.
	deliverSignal, reportSignal pace.Signal

	todo        []*entry  // in the order of sending; made anew when stale
	stale       bool      // something waits that is not in todo
	refillAt    time.Time // when that is so by itself, since a pause ends; zero: never
	sending     int
	sendingRank int // of those that are flying

	reports       []*arrival              // consumed here, and not told
	reporting     bool                    // some of them are just being told
	postponed     map[arrivalKey]*arrival // those that the peer does not take yet while it takes others
	unread        bool                    // the ledger may have further ones
	announced     map[mailbox]string      // the statuses that the peer was told
	announcedAt   time.Time
	announcements int // counts the reasons to tell all of them

	unreachedPause time.Duration // since the peer cannot be reached
	unreachedUntil time.Time
	trouble        string

	fullPause time.Duration // since it has no room for our mail
	fullUntil time.Time

	retriedAt    time.Time // what it had refused
	retryPending bool      // it has given a reason to do so again
}

// queueOf returns a peer's. The caller holds m.mu or is Open.
func (m *Mailer) queueOf(peer identity.ID) *peerQueue {
	k := m.queues[peer]
	if k == nil {
		k = &peerQueue{peer: peer, deliverSignal: pace.NewSignal(), reportSignal: pace.NewSignal(), postponed: make(map[arrivalKey]*arrival)}
		m.queues[peer] = k
	}
	return k
}

func (k *peerQueue) wake() {
	k.deliverSignal.Set()
	k.reportSignal.Set()
}

// waitFor waits for a signal, for d unless it is 0, or for the end of ctx.
func waitFor(ctx context.Context, signal pace.Signal, d time.Duration) {
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

// deliverLoop delivers what waits for a peer: several at a time, but none before
// all of a higher rank have landed.
func (m *Mailer) deliverLoop(ctx context.Context, k *peerQueue) {
	var deliveries sync.WaitGroup
	defer deliveries.Wait()
	for ctx.Err() == nil {
		e, wait := m.takeNext(k)
		if e == nil {
			waitFor(ctx, k.deliverSignal, wait)
			continue
		}
		deliveries.Go(func() { m.deliver(ctx, k, e) })
	}
}

// takeNext takes what is to be delivered now, or says when to ask again: 0 is when
// something happens.
func (m *Mailer) takeNext(k *peerQueue) (*entry, time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	if wait := max(k.unreachedUntil.Sub(now), k.fullUntil.Sub(now)); wait > 0 {
		return nil, wait
	}
	if k.stale || !k.refillAt.IsZero() && !now.Before(k.refillAt) {
		m.refillTodo(k, now)
	}
	for len(k.todo) > 0 {
		e := k.todo[0]
		if s := m.bound[e.mailbox]; e.state == Waiting && s != nil && s.Peer == k.peer && !e.nextTry.After(now) {
			if k.sending == maxSending || k.sending > 0 && k.sendingRank != e.rank {
				break // a landing asks again
			}
			k.todo = k.todo[1:]
			k.sendingRank = e.rank
			k.sending++
			e.set(sending, e.reason)
			return e, 0
		}
		k.todo = k.todo[1:] // it went meanwhile
	}
	if k.refillAt.IsZero() {
		return nil, 0
	}
	return nil, max(k.refillAt.Sub(now), time.Millisecond)
}

// refillTodo finds what waits for a peer. The caller holds m.mu.
func (m *Mailer) refillTodo(k *peerQueue, now time.Time) {
	k.stale, k.refillAt, k.todo = false, time.Time{}, nil
	for _, s := range m.bound {
		if s.Peer != k.peer {
			continue
		}
		for _, e := range s.entries {
			switch {
			case e.state != Waiting:
			case !e.nextTry.After(now):
				k.todo = append(k.todo, e)
			case k.refillAt.IsZero() || e.nextTry.Before(k.refillAt):
				k.refillAt = e.nextTry
			}
		}
	}
	slices.SortFunc(k.todo, (*entry).before)
	if soon := now.Add(refillPause); !k.refillAt.IsZero() && k.refillAt.Before(soon) {
		k.refillAt = soon
	}
}

// refillPause is between two looks at all that waits for a peer, where nothing but pauses
// end: a peer that refuses each of many messages for now causes no look for each.
const refillPause = 100 * time.Millisecond

// deliver delivers one message.
func (m *Mailer) deliver(ctx context.Context, k *peerQueue, e *entry) {
	reply, err := m.sendEntry(ctx, k, e)
	now, said := time.Now(), ""
	if err == nil {
		said = m.cfg.Name(k.peer) + " says: " + reply.Message + " (" + reply.Code + ")"
	}
	if err == nil && (reply.Result == wire.MailStored || reply.Result == wire.MailDuplicate) {
		// A crash before this is on disk only delivers again, which is a duplicate.
		m.writeStore(ctx, func(tx *store.Tx) error { return sqlDelivered(tx, k.peer, e.mailbox, e.file, e.hash, now) })
	}
	m.mu.Lock()
	defer m.unlockAndTell()
	k.sending--
	k.wake()
	if err == nil {
		k.unreachedPause, k.trouble = 0, ""
	}
	if e.state != sending { // the file went, or is another now
		m.markDirty(e.mailbox, nil)
		if s := m.bound[e.mailbox]; s != nil {
			s.goneRecorded = false // and the ledger knows of it
		}
		return
	}
	switch unreached, ok := errors.AsType[*unreachedError](err); {
	case ok:
		e.set(Waiting, "")
		k.stale = true
		k.backOffUnreached(unreached.cause)
	case errors.Is(err, errOutranked):
		e.set(Waiting, e.reason)
		k.stale = true
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, errChanging):
		e.set(settling, "") // the next look decides
		e.version = fileVersion{}
		m.markDirty(e.mailbox, names{e.file: {}})
	case err != nil:
		m.retryLater(k, e, err.Error())
	case reply.Result == wire.MailRetry:
		m.retryLater(k, e, said)
		if reply.Code == string(kinds.Overloaded) && reply.Scope != wire.MailScopeMessage {
			k.backOffFull(now)
		}
	case reply.Result == wire.MailRefused:
		m.refuseEntry(e, said)
		e.nextTry = now.Add(refusedPause)
	case reply.Result == wire.MailStored, reply.Result == wire.MailDuplicate:
		e.set(Delivered, "")
		e.since = now.Add(-time.Duration(now.Nanosecond() % int(time.Millisecond))) // as the ledger has it
		e.tries = 0
		k.fullPause = 0
		m.events = append(m.events, e.event(k.peer))
	default:
		m.retryLater(k, e, "an answer that makes no sense: "+reply.Result)
	}
}

// retryLater has an entry wait. The caller holds m.mu.
func (m *Mailer) retryLater(k *peerQueue, e *entry, reason string) {
	e.set(Waiting, reason)
	e.nextTry = time.Now().Add(jitter(min(firstPause<<min(e.tries, 10), longestRetry)))
	e.tries++
	if k.refillAt.IsZero() || e.nextTry.Before(k.refillAt) {
		k.refillAt = e.nextTry
	}
}

// backOffUnreached has everything for a peer wait that cannot be reached. The caller holds m.mu.
func (k *peerQueue) backOffUnreached(cause error) {
	k.trouble = cause.Error()
	if time.Now().Before(k.unreachedUntil) {
		return // another has just found that out
	}
	k.unreachedPause = min(max(2*k.unreachedPause, firstPause), longestPause)
	k.unreachedUntil = time.Now().Add(jitter(k.unreachedPause))
}

// backOffFull has all deliveries to a peer wait that has no room for them: our share is of all
// of them. The caller holds m.mu.
func (k *peerQueue) backOffFull(now time.Time) {
	if now.Before(k.fullUntil) {
		return // another has just found that out
	}
	k.fullPause = min(max(2*k.fullPause, firstPause), longestRetry)
	k.fullUntil = now.Add(jitter(k.fullPause))
}

func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d/2) }

// unreachedError says that no stream could be opened.
type unreachedError struct{ cause error }

func (e *unreachedError) Error() string { return e.cause.Error() }

// errOutranked says that something more urgent came while the peer was looked for.
var errOutranked = errors.New("outranked")

// isOutranked reports whether something more urgent waits for the peer.
func (m *Mailer) isOutranked(k *peerQueue, e *entry) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	if k.stale {
		m.refillTodo(k, now)
	}
	first := slices.IndexFunc(k.todo, func(o *entry) bool { return o.state == Waiting })
	return first >= 0 && k.todo[first].rank < e.rank
}

// sendEntry delivers the file behind an entry as it was when it was examined. It is read
// when the stream is open, which may take long: one that was taken back meanwhile is
// not delivered, and one that is less urgent than what came meanwhile not yet.
func (m *Mailer) sendEntry(ctx context.Context, k *peerQueue, e *entry) (*wire.MailReply, error) {
	peer := k.peer
	ctx, cancel := context.WithTimeout(ctx, streamTime)
	defer cancel()
	s, err := m.cfg.Open(ctx, peer)
	if err != nil {
		return nil, &unreachedError{err}
	}
	if m.isOutranked(k, e) {
		s.Cancel()
		return nil, errOutranked
	}
	l, err := m.readUnchanged(e)
	if err != nil {
		s.Cancel()
		return nil, err
	}
	request := &wire.MailRequest{
		Op: wire.MailDeliver, Project: e.mailbox.project, Agent: e.mailbox.agent, File: e.file, Hash: e.hash, Size: uint64(len(l.data)), Delivery: wire.NewMessageID(),
	}
	m.cfg.Log.Debug("mail sent", "peer", peer.Label(), "project", request.Project, "agent", request.Agent, "file", request.File, "delivery", request.Delivery)
	return roundTrip(s, request, l.data)
}

// readUnchanged reads the file behind an entry again.
func (m *Mailer) readUnchanged(e *entry) (*mailFile, error) {
	inbox, err := m.openInbox(e.mailbox)
	if err != nil {
		return nil, err
	}
	defer inbox.Close()
	l, err := readMailFile(inbox, e.file)
	if err == nil && l.hash != e.hash {
		err = errChanging
	}
	return l, err
}

// request has a stream carry one request without a body.
func (m *Mailer) request(ctx context.Context, peer identity.ID, request *wire.MailRequest) (*wire.MailReply, error) {
	ctx, cancel := context.WithTimeout(ctx, streamTime)
	defer cancel()
	s, err := m.cfg.Open(ctx, peer)
	if err != nil {
		return nil, &unreachedError{err}
	}
	return roundTrip(s, request, nil)
}

// roundTrip writes a request to a stream, reads the reply, and ends the stream.
func roundTrip(s Stream, m *wire.MailRequest, body []byte) (*wire.MailReply, error) {
	m.V = wire.MailVersion
	request, err := wire.AppendMailRequest(nil, m)
	if err != nil {
		s.Cancel()
		return nil, err
	}
	// A receiver that refuses does not read on, so that writing fails: its reply
	// says why.
	_, failed := s.Write(append(request, body...))
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
