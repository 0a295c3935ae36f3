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
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/store"
	"github.com/acpd/acpd/wire"
)

// How many streams a courier has open: deliveries, and beside them reports.
const (
	maxFlying  = 8
	maxReports = 4
)

// courier takes to one peer what is for it. Carrier.mu guards it.
type courier struct {
	peer identity.ID

	loops int    // that run; see crew
	end   func() // ends them
	cut   bool   // the peer is not trusted

	// Deliveries and reports each have a loop of their own, so that neither waits
	// for the other.
	deliver, report chan struct{} // wakes; capacity 1

	todo   []*entry  // in the order of sending; made anew when stale
	stale  bool      // something waits that is not in todo
	again  time.Time // when that is so by itself, since a pause ends; zero: never
	flying int
	rank   int // of those that are flying

	reports   []*arrival              // consumed here, and not told
	telling   bool                    // some of them are just being told
	alone     map[arrivalKey]*arrival // those that the peer does not take yet while it takes others
	untold    bool                    // the ledger may have further ones
	greeted   map[place]string        // the statuses that the peer was told
	greetedAt time.Time
	greetings int // counts the reasons to tell all of them

	pause   time.Duration // since the peer cannot be reached
	until   time.Time
	trouble string

	fullPause time.Duration // since it has no room for our mail
	fullUntil time.Time

	offeredAt  time.Time // what it had refused
	offerLater bool      // it has given a reason to do so again
}

// courier returns a peer's. The caller holds c.mu or is Open.
func (c *Carrier) courier(peer identity.ID) *courier {
	k := c.couriers[peer]
	if k == nil {
		k = &courier{peer: peer, deliver: make(chan struct{}, 1), report: make(chan struct{}, 1), alone: make(map[arrivalKey]*arrival)}
		c.couriers[peer] = k
	}
	return k
}

func (k *courier) signal() {
	for _, wake := range []chan struct{}{k.deliver, k.report} {
		select {
		case wake <- struct{}{}:
		default:
		}
	}
}

// rest waits for a wake, for d unless it is 0, or for the end of ctx.
func rest(ctx context.Context, wake <-chan struct{}, d time.Duration) {
	var timer <-chan time.Time
	if d > 0 {
		timer = time.After(d)
	}
	select {
	case <-ctx.Done():
	case <-wake:
	case <-timer:
	}
}

// deliverAll delivers what waits for a peer: several at a time, but none before
// all of a higher rank have landed.
func (c *Carrier) deliverAll(ctx context.Context, k *courier) {
	var flights sync.WaitGroup
	defer flights.Wait()
	for ctx.Err() == nil {
		e, wait := c.next(k)
		if e == nil {
			rest(ctx, k.deliver, wait)
			continue
		}
		flights.Go(func() { c.fly(ctx, k, e) })
	}
}

// next takes what is to be delivered now, or says when to ask again: 0 is when
// something happens.
func (c *Carrier) next(k *courier) (*entry, time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if wait := max(k.until.Sub(now), k.fullUntil.Sub(now)); wait > 0 {
		return nil, wait
	}
	if k.stale || !k.again.IsZero() && !now.Before(k.again) {
		c.collect(k, now)
	}
	for len(k.todo) > 0 {
		e := k.todo[0]
		if s := c.spools[e.at]; e.state == Waiting && s != nil && s.Peer == k.peer && !e.due.After(now) {
			if k.flying == maxFlying || k.flying > 0 && k.rank != e.rank {
				break // a landing asks again
			}
			k.todo = k.todo[1:]
			k.rank = e.rank
			k.flying++
			e.set(flying, e.reason)
			return e, 0
		}
		k.todo = k.todo[1:] // it went meanwhile
	}
	if k.again.IsZero() {
		return nil, 0
	}
	return nil, max(k.again.Sub(now), time.Millisecond)
}

// collect finds what waits for a peer. The caller holds c.mu.
func (c *Carrier) collect(k *courier, now time.Time) {
	k.stale, k.again, k.todo = false, time.Time{}, nil
	for _, s := range c.spools {
		if s.Peer != k.peer {
			continue
		}
		for _, e := range s.entries {
			switch {
			case e.state != Waiting:
			case !e.due.After(now):
				k.todo = append(k.todo, e)
			case k.again.IsZero() || e.due.Before(k.again):
				k.again = e.due
			}
		}
	}
	slices.SortFunc(k.todo, (*entry).before)
	if soon := now.Add(collectPause); !k.again.IsZero() && k.again.Before(soon) {
		k.again = soon
	}
}

// collectPause is between two looks at all that waits for a peer, where nothing but pauses
// end: a peer that refuses each of many messages for now causes no look for each.
const collectPause = 100 * time.Millisecond

// fly delivers one message.
func (c *Carrier) fly(ctx context.Context, k *courier, e *entry) {
	reply, err := c.send(ctx, k, e)
	now, said := time.Now(), ""
	if err == nil {
		said = c.cfg.Name(k.peer) + " says: " + reply.Message + " (" + reply.Code + ")"
	}
	if err == nil && (reply.Result == wire.MailStored || reply.Result == wire.MailDuplicate) {
		// A crash before this is on disk only delivers again, which is a duplicate.
		c.record(ctx, func(tx *store.Tx) error { return sqlDelivered(tx, k.peer, e.at, e.file, e.hash, now) })
	}
	c.mu.Lock()
	defer c.unlock()
	k.flying--
	k.signal()
	if err == nil {
		k.pause, k.trouble = 0, ""
	}
	if e.state != flying { // the file went, or is another now
		c.touch(e.at, nil)
		if s := c.spools[e.at]; s != nil {
			s.pruned = false // and the ledger knows of it
		}
		return
	}
	switch unreached, ok := errors.AsType[*unreached](err); {
	case ok:
		e.set(Waiting, "")
		k.stale = true
		k.lost(unreached.cause)
	case errors.Is(err, errOutranked):
		e.set(Waiting, e.reason)
		k.stale = true
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, errChanging):
		e.set(settling, "") // the next look decides
		e.mark = mark{}
		c.touch(e.at, names{e.file: {}})
	case err != nil:
		c.later(k, e, err.Error())
	case reply.Result == wire.MailRetry:
		c.later(k, e, said)
		if reply.Code == string(kinds.Overloaded) && reply.Scope != wire.MailScopeMessage {
			k.full(now)
		}
	case reply.Result == wire.MailRefused:
		c.refuse(e, said)
		e.due = now.Add(refusedPause)
	case reply.Result == wire.MailStored, reply.Result == wire.MailDuplicate:
		e.set(Delivered, "")
		e.since = now.Add(-time.Duration(now.Nanosecond() % int(time.Millisecond))) // as the ledger has it
		e.tries = 0
		k.fullPause = 0
		c.news = append(c.news, e.event(k.peer))
	default:
		c.later(k, e, "an answer that makes no sense: "+reply.Result)
	}
}

// later has an entry wait. The caller holds c.mu.
func (c *Carrier) later(k *courier, e *entry, reason string) {
	e.set(Waiting, reason)
	e.due = time.Now().Add(jitter(min(firstPause<<min(e.tries, 10), longestRetry)))
	e.tries++
	if k.again.IsZero() || e.due.Before(k.again) {
		k.again = e.due
	}
}

// lost has everything for a peer wait that cannot be reached. The caller holds c.mu.
func (k *courier) lost(cause error) {
	k.trouble = cause.Error()
	if time.Now().Before(k.until) {
		return // another has just found that out
	}
	k.pause = min(max(2*k.pause, firstPause), longestPause)
	k.until = time.Now().Add(jitter(k.pause))
}

// full has all deliveries to a peer wait that has no room for them: our share is of all
// of them. The caller holds c.mu.
func (k *courier) full(now time.Time) {
	if now.Before(k.fullUntil) {
		return // another has just found that out
	}
	k.fullPause = min(max(2*k.fullPause, firstPause), longestRetry)
	k.fullUntil = now.Add(jitter(k.fullPause))
}

func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d/2) }

// unreached says that no stream could be opened.
type unreached struct{ cause error }

func (e *unreached) Error() string { return e.cause.Error() }

// errOutranked says that something more urgent came while the peer was looked for.
var errOutranked = errors.New("outranked")

// outranked reports whether something more urgent waits for the peer.
func (c *Carrier) outranked(k *courier, e *entry) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if k.stale {
		c.collect(k, now)
	}
	first := slices.IndexFunc(k.todo, func(o *entry) bool { return o.state == Waiting })
	return first >= 0 && k.todo[first].rank < e.rank
}

// send delivers the file behind an entry as it was when it was examined. It is read
// when the stream is open, which may take long: one that was taken back meanwhile is
// not delivered, and one that is less urgent than what came meanwhile not yet.
func (c *Carrier) send(ctx context.Context, k *courier, e *entry) (*wire.MailReply, error) {
	peer := k.peer
	ctx, cancel := context.WithTimeout(ctx, streamTime)
	defer cancel()
	s, err := c.cfg.Open(ctx, peer)
	if err != nil {
		return nil, &unreached{err}
	}
	if c.outranked(k, e) {
		s.Cancel()
		return nil, errOutranked
	}
	l, err := c.reread(e)
	if err != nil {
		s.Cancel()
		return nil, err
	}
	m := &wire.MailRequest{
		Op: wire.MailDeliver, Project: e.at.project, Agent: e.at.agent, File: e.file, Hash: e.hash, Size: uint64(len(l.data)), Delivery: wire.NewMessageID(),
	}
	c.cfg.Log.Debug("mail sent", "peer", peer.Label(), "project", m.Project, "agent", m.Agent, "file", m.File, "delivery", m.Delivery)
	return converse(s, m, l.data)
}

// reread reads the file behind an entry again.
func (c *Carrier) reread(e *entry) (*letter, error) {
	inbox, err := c.openInbox(e.at)
	if err != nil {
		return nil, err
	}
	defer inbox.Close()
	l, err := read(inbox, e.file)
	if err == nil && l.hash != e.hash {
		err = errChanging
	}
	return l, err
}

// ask has a stream carry one request without a body.
func (c *Carrier) ask(ctx context.Context, peer identity.ID, m *wire.MailRequest) (*wire.MailReply, error) {
	ctx, cancel := context.WithTimeout(ctx, streamTime)
	defer cancel()
	s, err := c.cfg.Open(ctx, peer)
	if err != nil {
		return nil, &unreached{err}
	}
	return converse(s, m, nil)
}

// converse writes a request to a stream, reads the reply, and ends the stream.
func converse(s Stream, m *wire.MailRequest, body []byte) (*wire.MailReply, error) {
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
