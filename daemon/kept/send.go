package kept

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/store"
)

// How often the messages for a recipient are tried, unless the peer connects or its agent comes.
const (
	firstPause = 15 * time.Second // doubles after each try
	maxPause   = 15 * time.Minute
	minPause   = 2 * time.Second // between tries, however often a peer causes one
)

// recipient is whom messages are for: an agent of a peer, or any of its agents. The messages of a recipient are tried one
// at a time, the oldest first.
type recipient struct {
	peer  identity.ID
	agent string
}

// schedule says when the messages for a recipient are tried.
type schedule struct {
	next  time.Time     // zero while a try is under way, unless another one is wanted
	first time.Duration // the pause after the first try; the next is twice as long
	pause time.Duration // after the next try
	least time.Duration // after any try
	busy  bool          // a try is under way
	last  time.Time     // when the last try ended
}

// soon moves the next try forward to a time from now, and reports whether it did.
func (of *schedule) soon(in time.Duration) bool {
	at := time.Now().Add(in)
	if earliest := of.last.Add(of.least); at.Before(earliest) {
		at = earliest
	}
	of.pause = of.first
	if !of.next.IsZero() && !at.Before(of.next) {
		return false
	}
	of.next = at
	return true
}

// hasten returns how long a pause is.
func (s *Service) hasten(pause time.Duration) time.Duration {
	if s.Hurry {
		return pause / 100
	}
	return pause
}

// scheduleFor returns the schedule of a recipient; a new one is due in a time from now. The caller holds mu, or has not
// shared s.
func (s *Service) scheduleFor(r recipient, in time.Duration) *schedule {
	if s.schedules[r] == nil {
		s.schedules[r] = &schedule{next: time.Now().Add(in), first: s.hasten(firstPause), pause: s.hasten(firstPause), least: s.hasten(minPause)}
	}
	return s.schedules[r]
}

// TryNow tries what is kept for a peer: it has connected, or an agent has come there. It does not block. A peer that
// causes it again and again causes a try every two seconds.
func (s *Service) TryNow(peer identity.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for r, of := range s.schedules {
		if r.peer == peer && of.soon(0) {
			s.wake.Set()
		}
	}
}

// Run sends what is kept, ends what has been kept for long enough, and tells the agents that sent it of ends, until ctx
// ends.
func (s *Service) Run(ctx context.Context) error {
	var working sync.WaitGroup
	defer working.Wait()
	working.Go(func() { s.runSweeps(ctx) })
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.wake:
		case <-timer.C:
		}
		due, next := s.findDue(time.Now())
		for _, r := range due {
			working.Go(func() { s.tryRecipient(ctx, r) })
		}
		timer.Reset(next)
	}
}

// findDue returns the recipients for which it is time, which it marks as busy, and the time until another is due.
func (s *Service) findDue(now time.Time) (due []recipient, next time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next = maxPause
	for r, of := range s.schedules {
		switch {
		case of.busy:
		case !of.next.After(now):
			of.busy, of.next = true, time.Time{}
			due = append(due, r)
		default:
			next = min(next, of.next.Sub(now))
		}
	}
	return due, next
}

// tryRecipient sends the messages for a recipient. Before anything is sent, a connection is ready: while the peer is away,
// a crash leaves no doubt. Whatever answers at its address, only the peer's own word ends what is kept for it.
func (s *Service) tryRecipient(ctx context.Context, r recipient) {
	err := s.Node.Reach(ctx, r.peer)
	switch e := kinds.AsError(err); {
	case s.Drain.HasBegun():
	case err != nil && e.Code != kinds.UnknownPeer:
		s.noteTry(ctx, r, 0, e)
	default:
		for stuck := make(map[string]bool); s.sendNext(ctx, r, stuck); {
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	of, now := s.schedules[r], time.Now()
	of.busy, of.last = false, now
	if of.next.IsZero() {
		of.next = now.Add(of.pause/2 + rand.N(of.pause))
		of.pause = min(2*of.pause, s.hasten(maxPause))
	}
	if earliest := now.Add(of.least); of.next.Before(earliest) {
		of.next = earliest
	}
	if !s.hasMessages(r) {
		delete(s.schedules, r)
	}
	s.wake.Set()
}

// hasMessages reports whether messages are kept for a recipient. The caller holds mu.
func (s *Service) hasMessages(r recipient) bool {
	for _, m := range s.messages {
		if m.ended.IsZero() && m.recipient() == r {
			return true
		}
	}
	return false
}

// sendNext sends the oldest message for a recipient, but none of a kind and sender that are stuck: the peer does not take
// one of them yet, which it adds. It returns false if no other is to be sent.
func (s *Service) sendNext(ctx context.Context, r recipient, stuck map[string]bool) bool {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	m := s.claimFirst(r, stuck, stop)
	if m == nil {
		return false
	}
	defer s.release(m)
	e, failed := s.send(ctx, m)
	switch {
	case failed != nil && (MayKeep(failed) || failed.From == "" && failed.Delivered() == kinds.DeliveredNo && failed.Code == kinds.Cancelled):
		s.noteTry(ctx, r, m.row, failed)
		stuck[m.queue()] = true
		return failed.From != ""
	case failed != nil && ctx.Err() != nil && !errors.Is(context.Cause(ctx), errStopped):
		s.mu.Lock()
		m.state = client.TaskSent
		s.mu.Unlock()
		return false // the daemon ends; the next start finds that it was being sent
	case failed != nil:
		e = newFailedEnding(ctx, m, failed)
	}
	s.end(ctx, m, e)
	return true
}

// claimFirst claims the oldest message that is kept for a recipient, and of a kind and sender that are not stuck. It returns nil if
// there is none, or if somebody else has claimed it.
func (s *Service) claimFirst(r recipient, stuck map[string]bool, stop context.CancelCauseFunc) *message {
	s.mu.Lock()
	defer s.mu.Unlock()
	var first *message
	for _, m := range s.messages {
		if m.state == client.TaskKept && m.recipient() == r && !stuck[m.queue()] && !s.isGiven(m) && (first == nil || m.row < first.row) {
			first = m
		}
	}
	if first == nil || first.stop != nil {
		return nil
	}
	first.stop = stop
	return first
}

// release gives back a message that was claimed.
func (s *Service) release(m *message) {
	s.mu.Lock()
	m.stop = nil
	if !m.ended.IsZero() {
		s.endsWait.Set()
	}
	s.mu.Unlock()
	s.changed.Ring()
}

// noteTry records that a try has failed, for all messages of a recipient. sent is the row of the message that was sent,
// or 0. One that was being sent when the last run of the daemon ended stays so.
func (s *Service) noteTry(ctx context.Context, r recipient, sent int64, why *kinds.Error) {
	said := describe(why)
	s.mu.Lock()
	for _, m := range s.messages {
		if m.state == client.TaskKept && m.recipient() == r && (m.stop == nil || m.row == sent) { // not one that is being written
			m.tries, m.lastError = m.tries+1, said
		}
	}
	s.mu.Unlock()
	if err := s.write(ctx, sent != 0, func(tx *store.Tx) error { return updateTries(tx, r, sent, said) }); err != nil {
		s.Log.Warn("a try to send what is kept is not recorded", "peer", r.peer.Label(), "err", err)
	}
}

// send sends a message. If it returns an error that [MayKeep] accepts, nothing arrived.
func (s *Service) send(ctx context.Context, m *message) (*ending, *kinds.Error) {
	if !time.Now().Before(m.until) {
		return s.newExpiry(m), nil
	}
	if err := s.checkMaySend(m); err != nil {
		return nil, err
	}
	env, err := s.readEnvelope(ctx, m)
	if err != nil || env == nil {
		return nil, kinds.Errorf(kinds.Overloaded, "the message cannot be read now: %v", err)
	}
	request, err := kinds.CheckEnvelope(env)
	if err != nil {
		return nil, kinds.AsError(err)
	}
	if m.isDelegation() {
		return s.give(ctx, m, request)
	}
	if err := s.write(ctx, true, func(tx *store.Tx) error { return updateSending(tx, m) }); err != nil {
		return nil, kinds.Errorf(kinds.Overloaded, "it cannot be recorded now that the message is sent: %v", err)
	}
	if m.kind == kinds.KindNotify {
		state, err := s.Node.Send(ctx, request, true)
		if err != nil {
			return nil, kinds.AsError(err)
		}
		return newArrived(client.TaskState(state)), nil
	}
	ctx, cancel := context.WithTimeout(ctx, kinds.MaxQueryDeadline+kinds.ReceiptDeadline)
	defer cancel()
	reply, _, err := s.Node.Exchange(ctx, request)
	if err != nil {
		return nil, kinds.AsError(err)
	}
	return newAnswered(reply), nil
}

// give gives a delegation to its peer.
func (s *Service) give(ctx context.Context, m *message, request kinds.Checked) (*ending, *kinds.Error) {
	ack, err := s.Give(ctx, request, m.by)
	t := s.Delegations.Find(client.Given, m.peer, m.id)
	switch {
	case err != nil && t != nil && s.Delegations.Status(t).State == client.TaskCancelled: // whoever did that knows
		return &ending{state: client.TaskAccepted}, nil
	case err != nil:
		return nil, kinds.AsError(err)
	case ack.Accepted:
		return &ending{state: client.TaskAccepted}, nil
	}
	return newErrorEnding(client.TaskRefused, "its agent refused it: "+string(kinds.NewErrorFromWire(string(cmp.Or(ack.Code, kinds.NotAuthorized)), "", 0).Code)), nil
}

// checkMaySend returns an error if a message may not be sent any more.
func (s *Service) checkMaySend(m *message) *kinds.Error {
	to, trusted := s.Trust.FindPeer(m.peer)
	if !trusted {
		return kinds.Errorf(kinds.NotTrusted, "%s is not trusted here any more", identity.CleanClaim(m.name))
	}
	if of, err := s.Trust.Resolve(m.name); err == nil && of.ID != m.peer {
		return kinds.Errorf(kinds.UnknownPeer, "another peer has the name %s now: send it again if it is for that one", identity.CleanClaim(m.name))
	}
	if err := s.MayCall(m.by, to); err != nil {
		return kinds.AsError(err)
	}
	return nil
}
