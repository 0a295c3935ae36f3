package waking

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// Approval is a message that waits for the owner's word before it wakes a session.
type Approval struct {
	ID      string
	Agent   string
	Peer    identity.ID
	Kind    string
	Message wire.MessageID
	Since   time.Time
}

// Answer is what the owner says of an approval.
type Answer string

// The answers.
const (
	Yes    Answer = "yes"    // this message wakes the session
	Always Answer = "always" // and so do all of this peer and kind from now on
	No     Answer = "no"     // it waits for the session's next tool call
)

// addApproval lets a message wait for the owner. The caller holds mu.
func (w *Waker) addApproval(s *session, e *entry, now time.Time) *Notice {
	held := make(map[identity.ID]int)
	for _, a := range w.approvals {
		held[a.Peer.ID]++
	}
	peers := w.listWakers("")
	peers[e.Peer.ID] = true
	if !hasShare(maxApprovals, len(peers), held, e.Peer.ID) {
		return w.recordBound(s, e, now, errApprovalsFull)
	}
	w.lastID++
	a := &approval{e, w.lastID, now}
	w.approvals = append(w.approvals, a)
	return &Notice{Approval: true, Agent: e.Agent, Peer: e.Peer.ID, Kind: e.Kind, Reason: strconv.FormatUint(a.id, 10)}
}

// errApprovalsFull says that a peer has too many messages that wait for the owner.
var errApprovalsFull = fmt.Errorf("budget: messages that wait for acpctl approvals: %d, half of them by one peer", maxApprovals)

// Approvals returns the messages that wait for the owner, the oldest first.
func (w *Waker) Approvals() []Approval {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := make([]Approval, 0, len(w.approvals))
	for _, a := range w.approvals {
		all = append(all, a.describe())
	}
	return all
}

func (a *approval) describe() Approval {
	return Approval{strconv.FormatUint(a.id, 10), a.Agent, a.Peer.ID, a.Kind, a.Message.ID, a.since}
}

// Decide does what the owner says of an approval. It blocks until an Always is durable.
func (w *Waker) Decide(id string, answer Answer) (Approval, error) {
	find := func() int {
		return slices.IndexFunc(w.approvals, func(a *approval) bool { return strconv.FormatUint(a.id, 10) == id })
	}
	w.mu.Lock()
	i := find()
	if i < 0 {
		w.mu.Unlock()
		return Approval{}, kinds.Errorf(kinds.NotFound, "nothing waits under %.64q any more: acpctl approvals lists what does", id)
	}
	a := w.approvals[i]
	w.mu.Unlock()
	if answer == Always {
		if err := w.allowAlways(a); err != nil {
			return Approval{}, err
		}
	}
	w.mu.Lock()
	if i = find(); i < 0 { // taken meanwhile, or its session has ended
		w.mu.Unlock()
		return a.describe(), nil
	}
	w.approvals = slices.Delete(w.approvals, i, i+1)
	var notice *Notice
	if s := w.sessions[a.Agent]; s != nil && answer != No {
		a.approved = true
		notice = w.addWaiting(s, a.entry, time.Now())
	}
	w.mu.Unlock()
	w.tell(notice)
	return a.describe(), nil
}

// allowAlways makes the permission by which a message waits one that no longer asks.
func (w *Waker) allowAlways(a *approval) error {
	p, ok := w.findPermission(a.Agent, a.Peer, a.Kind)
	if !ok {
		return kinds.Errorf(kinds.NotFound, "what let %s ask was revoked: acpctl wake allow gives it anew", a.Peer.Name)
	}
	p.Ask, p.Since = false, time.Now()
	return w.Rules.Allow(p)
}
