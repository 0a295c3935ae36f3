package waking

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// Approval is a message that waits for the owner's approval before it wakes a session, or that is
// approved and waits to wake the session.
type Approval struct {
	ID      string
	Agent   string
	Peer    identity.ID
	Kind    string
	Message wire.MessageID
	Text    string // the beginning of what it says
	Since   time.Time
	Again   bool // it was held before the daemon's start, so an answer to it is forgotten

	Approved  bool
	KeptBy    string    // the bound that keeps it back although it is approved, or ""
	KeptUntil time.Time // when the bound has room for it at the earliest
}

// Answer is the owner's answer to an approval.
type Answer string

// The answers.
const (
	Yes    Answer = "yes"    // this message wakes the session
	Always Answer = "always" // all messages of this peer and kind wake this session, those that already wait included
	No     Answer = "no"     // a query or delegation is declined; another message waits for the session's next tool call
)

// addApproval lets a message wait for the owner. The caller holds mu.
func (w *Waker) addApproval(s *session, e *entry, now time.Time) *Notice {
	if !w.hasPlaceForApproval(e.Peer.ID, now) {
		return w.recordBound(s, e, now, errApprovalsFull)
	}
	w.lastID++
	a := &approval{e, w.lastID, now}
	w.approvals = append(w.approvals, a)
	if !w.mayTell(toldEvent{e.Peer.ID, e.Agent, aboutApproval, now}) {
		return nil
	}
	return &Notice{Approval: true, Agent: e.Agent, Peer: e.Peer.ID, Kind: e.Kind, Reason: strconv.FormatUint(a.id, 10)}
}

// hasPlaceForApproval reports whether one more message of a peer may wait for the owner. The caller
// holds mu.
func (w *Waker) hasPlaceForApproval(peer identity.ID, now time.Time) bool {
	held := make(map[identity.ID]int)
	for _, a := range w.listApprovals(now) {
		held[a.Peer.ID]++
	}
	return hasShare(maxApprovals, len(w.ListWakers("")), held, peer)
}

// errApprovalsFull: a peer has too many messages that wait for the owner.
var errApprovalsFull = ownwords.Errorf("budget: messages that wait for acpctl approvals: %d, half of them by one peer", maxApprovals)

// listApprovals returns the messages that wait for the owner, the oldest first. It drops those that have
// waited for too long, and those that the rules no longer let wake a session. The caller holds mu.
func (w *Waker) listApprovals(now time.Time) []*approval {
	w.approvals = slices.DeleteFunc(w.approvals, func(a *approval) bool {
		return now.Sub(a.since) >= day || !w.IsAllowedByRules(a.Message)
	})
	return w.approvals
}

// forgetApprovals forgets what waits for the owner before it wakes a session. The caller holds mu.
func (w *Waker) forgetApprovals(agent string) {
	w.approvals = slices.DeleteFunc(w.approvals, func(a *approval) bool { return a.Agent == agent })
}

// Approvals returns the messages that wait for the owner, and the approved ones that wait to wake a
// session. They are in the order in which they came.
func (w *Waker) Approvals() []Approval {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	all := slices.Concat(w.listApprovals(now), w.listApproved(""))
	slices.SortFunc(all, func(a, b *approval) int { return cmp.Compare(a.id, b.id) })
	described := []Approval{}
	for _, a := range all {
		described = append(described, a.describe(now))
	}
	return described
}

// IsAsking reports whether a message waits for the owner under an id.
func (w *Waker) IsAsking(id string) bool {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	a := w.findApproval(id, now)
	return a != nil && a.entry.approval == nil
}

// listApproved returns the approved messages that wait to wake a session; agent "" means any session.
// The caller holds mu.
func (w *Waker) listApproved(agent string) (all []*approval) {
	for name, s := range w.sessions {
		for _, e := range s.waiting {
			if e.approval != nil && (agent == "" || name == agent) {
				all = append(all, e.approval)
			}
		}
	}
	return all
}

// describe returns an approval as its readers see it. The caller holds mu.
func (a *approval) describe(now time.Time) Approval {
	d := Approval{ID: strconv.FormatUint(a.id, 10), Agent: a.Agent, Peer: a.Peer.ID, Kind: a.Kind, Message: a.Message.ID, Text: a.Text, Again: a.Again, Since: a.since, Approved: a.entry.approval != nil}
	if d.Approved && a.keptUntil.After(now) {
		d.KeptBy, d.KeptUntil = ownwords.Of(a.keptBy), a.keptUntil
	}
	return d
}

// findApproval returns the approval with an id, or nil if no message waits under it. The caller holds mu.
func (w *Waker) findApproval(id string, now time.Time) *approval {
	for _, a := range slices.Concat(w.listApprovals(now), w.listApproved("")) {
		if strconv.FormatUint(a.id, 10) == id {
			return a
		}
	}
	return nil
}

// Decide applies the owner's answer to an approval. A No takes an earlier Yes back as long as the
// message waits. Decide blocks until an Always is durable. An error leaves the approval as it is.
func (w *Waker) Decide(id string, answer Answer) (Approval, error) {
	now := time.Now()
	w.mu.Lock()
	a := w.findApproval(id, now)
	if a == nil {
		w.mu.Unlock()
		return Approval{}, kinds.Errorf(kinds.NotFound, "nothing waits under %.64q: acpctl approvals lists what does: take its number in column ID", id)
	}
	err := w.checkAnswer(a, answer, now)
	w.mu.Unlock()
	if err != nil {
		return Approval{}, err
	}
	if until := w.Rules.MutedUntil(a.Agent, now); answer != No && !until.IsZero() {
		return Approval{}, kinds.Errorf(kinds.Invalid, "%s is muted until %s: acpctl agents mute %[1]s 0s ends that, then answer again", a.Agent, until.Format(time.RFC3339))
	}
	if answer == Always {
		if err := w.allowAlways(a); err != nil {
			return Approval{}, err
		}
	}
	w.mu.Lock()
	refuse, notice, err := w.settle(a, answer, now)
	decided := a.describe(now)
	w.mu.Unlock()
	w.tell(notice)
	if refuse != nil {
		refuse()
	}
	if err != nil {
		return Approval{}, err
	}
	return decided, nil
}

// settle applies the owner's answer to an approval. It does nothing if the approval no longer waits: the
// message was taken or revoked meanwhile, or the session has ended. The caller holds mu. If refuse is
// not nil, the caller calls it after it has released mu.
func (w *Waker) settle(a *approval, answer Answer, now time.Time) (refuse func(), notice *Notice, err error) {
	if w.findApproval(strconv.FormatUint(a.id, 10), now) != a {
		return nil, nil, nil
	}
	if err := w.checkAnswer(a, answer, now); err != nil {
		return nil, nil, err
	}
	if answer == No {
		w.sessions[a.Agent].forgetQuestion(a.Message)
		a.entry.approval = nil
		w.release(a.key())
		if a.refuse == nil {
			w.declined[heldKey{a.Peer.ID, a.Message.ID}] = true
		}
		return a.refuse, nil, nil
	}
	if a.entry.approval == nil {
		w.approvals = slices.DeleteFunc(w.approvals, func(o *approval) bool { return o == a })
		notice = w.approve(a, now)
	}
	if answer == Always {
		w.approveAlike(a, now)
	}
	return nil, notice, nil
}

// approve lets a message wake its session as soon as it may. The caller holds mu.
func (w *Waker) approve(a *approval, now time.Time) *Notice {
	a.entry.approval = a
	return w.addWaiting(w.sessions[a.Agent], a.entry, now)
}

// approveAlike approves the messages of the same peer and kind for the same session. Messages for which
// the bounds have no room still wait for the owner. The caller holds mu.
func (w *Waker) approveAlike(as *approval, now time.Time) {
	w.approvals = slices.DeleteFunc(w.approvals, func(a *approval) bool {
		if a.Agent != as.Agent || a.Peer.ID != as.Peer.ID || a.Kind != as.Kind || w.checkAnswer(a, Always, now) != nil {
			return false
		}
		w.approve(a, now)
		return true
	})
}

// checkAnswer returns an error if an answer is to wake a session that has no place for the message,
// or that its peer may not wake so soon: the answer would be lost. The caller holds mu.
func (w *Waker) checkAnswer(a *approval, answer Answer, now time.Time) error {
	if answer == No || a.entry.approval != nil {
		return nil
	}
	wanted := *a.charge
	wanted.at = now
	if err := cmp.Or(w.checkWaiting(w.sessions[a.Agent], a.Message), w.checkCharge(&wanted)); err != nil {
		return kinds.Errorf(kinds.Overloaded, "%v: the message still waits for your answer: answer again later", err)
	}
	return nil
}

// allowAlways writes a permission that no longer asks. It is only for the session that the message waits
// for: a rule for every session still asks at the other sessions.
func (w *Waker) allowAlways(a *approval) error {
	p, ok := w.findPermission(a.Agent, a.Peer, a.Kind)
	if !ok {
		return kinds.Errorf(kinds.NotFound, "what let %s ask was revoked: acpctl wake allow gives it anew", a.Peer.Name)
	}
	p.Agent, p.Ask, p.Since = a.Agent, false, time.Now()
	return w.Rules.Allow(p)
}

// approval is a message that waits for the owner. Its session is attached.
type approval struct {
	*entry
	id    uint64
	since time.Time
}
