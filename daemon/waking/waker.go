// Package waking decides which message may wake which session, and when.
//
// A message wakes a session only by the word of the daemon's owner: a permission for the peer
// and the kind, in the files of [Rules] or in config.yaml, or the rule about answers to what the
// session asked. Without one it waits for the session's next tool call. [Waker] bounds what
// peers cause so: woken turns in an hour and in a day, which outlive a restart, one message in a
// session at a time, and what waits. Each bound is shared among peers, so that none has it all.
//
// It leaves to others how a session is told of a message, and where the message lies meanwhile
// (package daemon).
package waking

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/config"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/pace"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/store"
	"github.com/acpd/acpd/wire"
)

const (
	postPause        = 250 * time.Millisecond // between two wakes of a session
	busyFor          = 2 * time.Minute        // for so long a message that was posted and not taken keeps others back
	maxWaiting       = 16                     // messages that wait to wake a session
	maxApprovals     = 64                     // messages that wait for the owner
	maxApprovalsTold = 10                     // events about approvals of one peer in tellPause
	questionPause    = 10 * time.Minute       // between two questions of a peer that wake a session, unless the first was answered
	maxAskedFor      = day                    // how long a message waits for the owner
	tellPause        = time.Minute            // between two events of one session about one peer
	savePause        = 2 * time.Second        // before rules are written that count already, or a turn once more
	noticeFor        = time.Hour              // how long the status tells of a bound
)

// Config says what a Waker rests on. The functions must not block, nor call the Waker.
type Config struct {
	Rules  *Rules
	DB     *store.DB
	Agents func() *config.Agents            // the settings of agents
	Wakers func(agent string) []identity.ID // trusted peers that the settings let wake an agent; "": any agent
	Name   func(identity.ID) string         // petname of a peer
	Tell   func(Notice)                     // tells subscribers
	Save   func(func() error) error         // runs what writes the rules, on a reserve of the disk
	Log    *slog.Logger
}

// Notice is what subscribers hear: of a bound that kept a session from being woken, or of a
// message that waits for an approval.
type Notice struct {
	Approval bool // else a bound
	Agent    string
	Peer     identity.ID
	Kind     string
	Reason   string // the bound, or the id of the approval
}

// Message is a message for a session.
type Message struct {
	Agent  string // the session
	Peer   identity.Peer
	Kind   string
	ID     wire.MessageID
	Answer wire.MessageID // the delegation of the session's own that it is about, unless it is a partial result; zero: none
}

// isQuestion reports whether the message is a question about what the session has delegated.
func (m Message) isQuestion() bool { return m.Kind == kinds.KindQuery && !m.Answer.IsZero() }

func (m Message) key() messageKey { return messageKey{m.Agent, m.Peer.ID, m.ID} }

// messageKey names a message for a session.
type messageKey struct {
	agent string
	peer  identity.ID
	id    wire.MessageID
}

// Post wakes a session for a message, and reports whether its program was given a pointer.
type Post func(context.Context, client.WakeGrant) (posted bool)

// entry is a message that wakes a session, or is to.
type entry struct {
	Message
	turn     *turn
	grant    client.WakeGrant
	post     Post
	approved bool // by the owner, for this message
	unsaved  bool // its turn could not be written once
}

// session is what is known of an attached session.
type session struct {
	current  *entry    // was posted, and is not taken; nil: none
	lastPost time.Time // of current, or of the last one
	waiting  []*entry  // in their order
	bounds   map[identity.ID]reachedBound
	asked    map[identity.ID]time.Time // when a peer's question that is not answered woke it, or began to wait
	retryAt  time.Time                 // no wake before: a turn could not be written
}

// reachedBound is a bound that kept a message of a peer from waking a session.
type reachedBound struct {
	at, told time.Time
	reason   string
}

// approval is a message that waits for the owner.
type approval struct {
	*entry
	id    uint64
	since time.Time
}

// Waker decides when sessions are woken. It is safe for concurrent use.
type Waker struct {
	Config
	changed pace.Signal

	mu        sync.Mutex // guards what follows
	sessions  map[string]*session
	turns     []*turn // of the last day, the oldest first
	approvals []*approval
	lastID    uint64 // of an approval
	watches   map[messageKey]chan struct{}

	approvalsTold map[identity.ID]approvalsTold
}

// OpenWaker reads the turns of the last day. The caller calls [Waker.Run].
func OpenWaker(ctx context.Context, c Config) (*Waker, error) {
	w := &Waker{Config: c, changed: pace.NewSignal(), sessions: make(map[string]*session), watches: make(map[messageKey]chan struct{}), approvalsTold: make(map[identity.ID]approvalsTold)}
	turns, err := store.ReadValue(ctx, c.DB, func(tx *store.Tx) ([]*turn, error) { return readTurns(tx, time.Now().Add(-day)) })
	if err != nil {
		return nil, fmt.Errorf("open woken turns: %w", err)
	}
	w.turns = turns
	return w, nil
}

// Attach makes a session known, so that it can be woken. One of the same name is replaced: it
// has no message in hand any more.
func (w *Waker) Attach(agent string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.sessions[agent]
	if s == nil {
		s = &session{bounds: make(map[identity.ID]reachedBound), asked: make(map[identity.ID]time.Time)}
		w.sessions[agent] = s
	}
	s.current = nil
	w.changed.Set()
}

// Detach forgets a session and what waits to wake it.
func (w *Waker) Detach(agent string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.sessions, agent)
	w.approvals = slices.DeleteFunc(w.approvals, func(a *approval) bool { return a.Agent == agent })
}

// Request asks whether a message may wake its session. It returns the grant if it may at once:
// the caller posts it and calls Finish. Otherwise it returns nil. Then the message waits for the
// session's next tool call, and post is called later if it may wake the session after all: when
// an earlier message was taken, or the owner has approved. Request blocks until the turn is on
// disk.
func (w *Waker) Request(ctx context.Context, m Message, post Post) *client.WakeGrant {
	now := time.Now()
	d := w.decideByRules(m)
	if !d.allowed && !d.ask || !w.Rules.MutedUntil(m.Agent, now).IsZero() {
		return nil
	}
	w.mu.Lock()
	s := w.sessions[m.Agent]
	if s == nil || w.findTurn(m.Agent, m.ID, false) != nil || w.isWaiting(m.key()) || m.isQuestion() && s.hasAsked(m.Peer.ID, now) {
		w.mu.Unlock()
		return nil
	}
	e := &entry{Message: m, turn: &turn{agent: m.Agent, cause: w.findCause(m), message: m.ID, at: now}, grant: client.WakeGrant{Unattended: d.unattended}, post: post}
	var notice *Notice
	begun := false
	switch {
	case !d.allowed:
		notice = w.addApproval(s, e, now)
	case len(s.waiting) == 0 && s.isFree(now):
		begun, notice = w.begin(s, e, now)
	default:
		notice = w.addWaiting(s, e, now)
	}
	if m.isQuestion() && w.isWaiting(m.key()) {
		s.asked[m.Peer.ID] = now
	}
	w.mu.Unlock()
	w.tell(notice)
	if begun && w.saveTurn(ctx, e) {
		return &e.grant
	}
	return nil
}

// hasAsked reports whether a question of a peer woke the session a short time ago, or waits to,
// and is not answered. The caller holds mu.
func (s *session) hasAsked(peer identity.ID, now time.Time) bool {
	for id, at := range s.asked {
		if now.Sub(at) >= questionPause {
			delete(s.asked, id)
		}
	}
	_, ok := s.asked[peer]
	return ok
}

// NoteAnswer says that a question of a peer about what a session has delegated was answered: the
// next one may wake the session at once.
func (w *Waker) NoteAnswer(agent string, peer identity.ID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s := w.sessions[agent]; s != nil {
		delete(s.asked, peer)
	}
}

// findCause returns the peer to which a message's turn counts: if it is the result or the error
// of what the session asked in a turn that a peer had woken, that peer, else the message's own. A
// question counts to who asks: there can be many about one delegation. The caller holds mu.
func (w *Waker) findCause(m Message) identity.ID {
	if !m.Answer.IsZero() && !m.isQuestion() {
		if asked := w.findTurn(m.Agent, m.Answer, true); asked != nil {
			return asked.cause
		}
	}
	return m.Peer.ID
}

// isFree reports whether the session may be woken at a time.
func (s *session) isFree(now time.Time) bool { return !s.nextPost().After(now) }

// nextPost returns when the session may be woken again, unless its message is taken before.
func (s *session) nextPost() time.Time {
	if s.lastPost.IsZero() {
		return time.Time{}
	}
	if s.current != nil {
		return s.lastPost.Add(busyFor)
	}
	if at := s.lastPost.Add(postPause); at.After(s.retryAt) {
		return at
	}
	return s.retryAt
}

// begin takes the session for a message, unless that is over a bound. The caller holds mu.
func (w *Waker) begin(s *session, e *entry, now time.Time) (begun bool, notice *Notice) {
	e.turn.at = now
	if err := w.checkTurn(e.turn); err != nil {
		return false, w.recordBound(s, e, now, err)
	}
	s.current, s.lastPost = e, now
	w.addTurn(e.turn)
	return true, nil
}

// checkWaiting returns an error, a sentence for the owner, if no message of the peer may wait
// any more. The caller holds mu.
func (w *Waker) checkWaiting(s *session, m Message) error {
	held := make(map[identity.ID]int)
	for _, e := range s.waiting {
		held[e.Peer.ID]++
	}
	peers := w.listWakers(m.Agent)
	peers[m.Peer.ID] = true
	if !hasShare(maxWaiting, len(peers), held, m.Peer.ID) {
		return fmt.Errorf("budget: messages that wait to wake %s: %d, half of them by one peer", m.Agent, maxWaiting)
	}
	return nil
}

// addWaiting lets a message wait for its turn, if there is room. The caller holds mu.
func (w *Waker) addWaiting(s *session, e *entry, now time.Time) *Notice {
	if err := w.checkWaiting(s, e.Message); err != nil {
		return w.recordBound(s, e, now, err)
	}
	s.waiting = append(s.waiting, e)
	w.changed.Set()
	return nil
}

// recordBound records that a bound kept a message back. It returns the notice of it, nil if
// there was one a short time ago. The caller holds mu.
func (w *Waker) recordBound(s *session, e *entry, now time.Time, err error) *Notice {
	for id, b := range s.bounds {
		if now.Sub(b.at) >= noticeFor {
			delete(s.bounds, id)
		}
	}
	b := s.bounds[e.turn.cause]
	told := now.Sub(b.told) < tellPause
	b.at, b.reason = now, err.Error()
	if !told {
		b.told = now
	}
	s.bounds[e.turn.cause] = b
	if told {
		return nil
	}
	return &Notice{Agent: e.Agent, Peer: e.turn.cause, Kind: e.Kind, Reason: err.Error()}
}

// tell logs a notice and tells subscribers; nil is none.
func (w *Waker) tell(n *Notice) {
	if n == nil {
		return
	}
	if !n.Approval {
		w.Log.Warn("a session is not woken", "agent", n.Agent, "peer", n.Peer.Label(), "kind", n.Kind, "reason", n.Reason)
	}
	w.Tell(*n)
}

// saveTurn writes the turn that has begun, and reports whether it is on disk. If it is not,
// the session is free again, and the message waits to be tried again after savePause.
func (w *Waker) saveTurn(ctx context.Context, e *entry) bool {
	err := w.DB.Write(ctx, false, func(tx *store.Tx) error { return insertTurn(tx, e.turn, e.turn.at.Add(-day)) })
	if err == nil {
		return true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !e.unsaved {
		e.unsaved = true
		w.Log.Warn("a session is not woken yet: the turn cannot be counted, and is tried again", "agent", e.Agent, "err", err)
	}
	w.removeTurn(e.turn)
	if s := w.sessions[e.Agent]; s != nil && s.current == e { // else it was taken or given up meanwhile
		s.current, s.retryAt = nil, time.Now().Add(savePause)
		s.waiting = slices.Insert(s.waiting, 0, e)
		w.changed.Set()
	}
	return false
}

// Finish says whether a message with a grant was posted. If not, the turn does not count.
func (w *Waker) Finish(ctx context.Context, m Message, posted bool) {
	if posted {
		return
	}
	w.mu.Lock()
	t := w.findTurn(m.Agent, m.ID, false)
	if t != nil {
		w.removeTurn(t)
	}
	w.release(m.key())
	w.mu.Unlock()
	if t != nil {
		if err := w.DB.Write(ctx, false, func(tx *store.Tx) error { return deleteTurn(tx, t) }); err != nil {
			w.Log.Debug("a turn that was none counts until tomorrow if acpd is started again", "agent", m.Agent, "err", err)
		}
	}
}

// release frees the session of a message, and forgets that it waits. The caller holds mu.
func (w *Waker) release(k messageKey) {
	w.approvals = slices.DeleteFunc(w.approvals, func(a *approval) bool { return a.key() == k })
	s := w.sessions[k.agent]
	if s == nil {
		return
	}
	s.waiting = slices.DeleteFunc(s.waiting, func(e *entry) bool { return e.key() == k })
	if s.current != nil && s.current.key() == k {
		s.current = nil
	}
	w.changed.Set()
}

// isWaiting reports whether a message waits to wake its session, or is in it. The caller holds
// mu.
func (w *Waker) isWaiting(k messageKey) bool {
	is := func(e *entry) bool { return e.key() == k }
	s := w.sessions[k.agent]
	return s != nil && (s.current != nil && is(s.current) || slices.ContainsFunc(s.waiting, is)) ||
		slices.ContainsFunc(w.approvals, func(a *approval) bool { return is(a.entry) })
}

// Release says that a session has done with a message: it was answered, or nobody waits for
// the answer any more.
func (w *Waker) Release(agent string, peer identity.ID, id wire.MessageID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.sessions[agent] != nil {
		w.release(messageKey{agent, peer, id})
	}
}

// Watch returns a channel that is closed when the session acknowledges the message. The caller
// calls stop.
func (w *Waker) Watch(agent string, peer identity.ID, id wire.MessageID) (taken <-chan struct{}, stop func()) {
	k := messageKey{agent, peer, id}
	c := make(chan struct{})
	w.mu.Lock()
	defer w.mu.Unlock()
	w.watches[k] = c
	return c, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.watches[k] == c {
			delete(w.watches, k)
		}
	}
}

// Acknowledge says that a session has acknowledged a message in the inbox.
func (w *Waker) Acknowledge(agent string, peer identity.ID, id wire.MessageID) {
	k := messageKey{agent, peer, id}
	w.mu.Lock()
	defer w.mu.Unlock()
	if c := w.watches[k]; c != nil {
		close(c)
		delete(w.watches, k)
	}
	w.release(k)
}

// CountSend counts a message that a session sends in a turn that a peer has woken, against that
// peer; parent is the message that led to it. The error says that the peer's share is used up.
func (w *Waker) CountSend(ctx context.Context, agent string, parent, id wire.MessageID) error {
	w.mu.Lock()
	woken := w.findTurn(agent, parent, false)
	if woken == nil || w.findTurn(agent, id, true) != nil {
		w.mu.Unlock()
		return nil
	}
	t := &turn{agent: agent, cause: woken.cause, message: id, at: time.Now(), sent: true}
	err := w.checkTurn(t)
	var notice *Notice
	if err == nil {
		w.addTurn(t)
	} else if s := w.sessions[agent]; s != nil {
		notice = w.recordBound(s, &entry{Message: Message{Agent: agent, Kind: "send"}, turn: t}, t.at, err)
	}
	w.mu.Unlock()
	w.tell(notice)
	if err != nil {
		e := kinds.Errorf(kinds.Overloaded, "%v: %s has woken this session, and its share is used up: wait, or have the user ask for it", err, w.Name(t.cause))
		e.RetryAfterMS = uint64(time.Hour.Milliseconds())
		return e
	}
	if err := w.DB.Write(ctx, false, func(tx *store.Tx) error { return insertTurn(tx, t, t.at.Add(-day)) }); err != nil {
		w.mu.Lock()
		w.removeTurn(t)
		w.mu.Unlock()
		return fmt.Errorf("count what a woken turn sends: %w", err)
	}
	return nil
}

// ListKnownPeers returns the peers that have a permission, or have caused a turn.
func (w *Waker) ListKnownPeers() []identity.ID {
	all := w.Rules.listPeers("")
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, t := range w.turns {
		all[t.cause] = true
	}
	return slices.Collect(maps.Keys(all))
}

// ForgetPeer forgets what a peer was allowed, what waits of it, and the turns that count to it,
// in memory. [Waker.DeletePeer] deletes it on disk.
func (w *Waker) ForgetPeer(peer identity.ID) {
	w.Rules.ForgetPeer(peer)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.turns = slices.DeleteFunc(w.turns, func(t *turn) bool { return t.cause == peer })
	w.approvals = slices.DeleteFunc(w.approvals, func(a *approval) bool { return a.Peer.ID == peer })
	for _, s := range w.sessions {
		s.waiting = slices.DeleteFunc(s.waiting, func(e *entry) bool { return e.Peer.ID == peer })
		if s.current != nil && s.current.Peer.ID == peer {
			s.current = nil
		}
		delete(s.bounds, peer)
	}
	w.changed.Set()
}

// DeletePeer deletes on disk what ForgetPeer has forgotten.
func (w *Waker) DeletePeer(ctx context.Context, peer identity.ID) error {
	unsaved := w.Rules.Save()
	left, err := store.ReadValue(ctx, w.DB, func(tx *store.Tx) (bool, error) { return hasTurnsOf(tx, peer[:]) })
	if err == nil && left { // else nothing has to be written
		err = w.DB.Write(ctx, true, func(tx *store.Tx) error { return deleteTurnsOf(tx, peer[:]) })
	}
	return cmp.Or(unsaved, err)
}

// Run wakes sessions for the messages that wait, until ctx ends, and waits for the posts.
func (w *Waker) Run(ctx context.Context) error {
	var posts sync.WaitGroup
	defer posts.Wait()
	posts.Go(func() { w.runRuleSaver(ctx) })
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-w.changed:
		case <-timer.C:
		}
		due, notices, next := w.takeDue(time.Now())
		for _, n := range notices {
			w.tell(n)
		}
		for _, e := range due {
			posts.Go(func() {
				if w.saveTurn(ctx, e) {
					w.Finish(context.WithoutCancel(ctx), e.Message, e.post(ctx, e.grant))
				}
			})
		}
		if next.IsZero() {
			timer.Stop()
		} else {
			timer.Reset(time.Until(next))
		}
	}
}

// runRuleSaver writes the rules that count and are not in their files, until ctx ends.
func (w *Waker) runRuleSaver(ctx context.Context) {
	failing := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.Rules.unsaved:
		}
		if pace.Sleep(ctx, savePause) != nil {
			return
		}
		switch err := w.Save(w.Rules.Save); {
		case err == nil && failing:
			failing = false
			w.Log.Info("wake rules: written")
		case err != nil && !failing:
			failing = true
			w.Log.Error("wake rules: not on disk yet, and tried again until they are", "err", err)
		}
	}
}

// takeDue begins the messages that may wake their sessions now, one a session. It drops what
// has waited for the owner too long. next is when to look again, zero if only a change can lead
// to more.
func (w *Waker) takeDue(now time.Time) (due []*entry, notices []*Notice, next time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.approvals = slices.DeleteFunc(w.approvals, func(a *approval) bool { return now.Sub(a.since) >= maxAskedFor })
	for name, s := range w.sessions {
		for len(s.waiting) > 0 && s.isFree(now) {
			e := w.takeNext(name, s, now)
			if !w.Rules.MutedUntil(name, now).IsZero() || !e.approved && !w.decideByRules(e.Message).allowed {
				continue // muted or revoked meanwhile
			}
			begun, notice := w.begin(s, e, now)
			if begun {
				due = append(due, e)
			}
			if notice != nil {
				notices = append(notices, notice)
			}
		}
		if at := s.nextPost(); len(s.waiting) > 0 && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	return due, notices, next
}

// takeNext takes the message that goes next: the oldest of the peer that has caused the fewest
// turns of the session in the last day. The caller holds mu.
func (w *Waker) takeNext(name string, s *session, now time.Time) *entry {
	caused := w.countTurns(name, false, now.Add(-day))
	best := 0
	for i, e := range s.waiting {
		if caused[e.turn.cause] < caused[s.waiting[best].turn.cause] {
			best = i
		}
	}
	e := s.waiting[best]
	s.waiting = slices.Delete(s.waiting, best, best+1)
	return e
}
