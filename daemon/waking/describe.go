package waking

import (
	"fmt"
	"slices"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
)

// Caused is how many turns of a session a peer has caused.
type Caused struct {
	Peer        identity.ID
	Hour, Day   int
	UsedUpUntil time.Time // when its share has room again; zero unless a message of it has found the share used up
}

// State is how often a session was woken, by whom, and what waits to wake it.
type State struct {
	Hour, Day  int
	By         []*Caused // the peer that caused most in the last day first
	Waiting    int       // messages that wait to wake it
	Approvals  int       // messages that wait for the owner
	MutedUntil time.Time
	Refused    string // why its program refused to be woken a short time ago
}

// Describe returns the state of a session.
func (w *Waker) Describe(agent string) (s State) {
	now := time.Now()
	s.MutedUntil = w.Rules.MutedUntil(agent, now)
	w.mu.Lock()
	defer w.mu.Unlock()
	hour, whole := w.countCharges(agent, false, now.Add(-time.Hour)), w.countCharges(agent, false, now.Add(-day))
	usedUp := w.listUsedUp(agent, now)
	for id := range usedUp {
		whole[id] += 0 // all its turns may be of other sessions
	}
	for id, n := range whole {
		s.Hour, s.Day = s.Hour+hour[id], s.Day+n
		s.By = append(s.By, &Caused{id, hour[id], n, usedUp[id]})
	}
	slices.SortFunc(s.By, func(a, b *Caused) int {
		if n := b.Day - a.Day; n != 0 {
			return n
		}
		return a.Peer.Compare(b.Peer)
	})
	if known := w.sessions[agent]; known != nil {
		s.Waiting = len(known.waiting)
		if now.Before(known.refusal.until) {
			s.Refused = known.refusal.why
		}
	}
	s.Approvals = w.countApprovals(agent, now)
	return s
}

// listUsedUp returns whose shares of the turns of a session are used up, and when they have room again. The caller
// holds mu.
func (w *Waker) listUsedUp(agent string, now time.Time) map[identity.ID]time.Time {
	all := make(map[identity.ID]time.Time)
	if s := w.sessions[agent]; s != nil {
		for key, b := range s.bounds {
			if !key.sent && now.Before(b.until) {
				all[key.peer] = b.until
			}
		}
	}
	return all
}

// countApprovals counts the messages for a session that wait for the owner. The caller holds mu.
func (w *Waker) countApprovals(agent string, now time.Time) (n int) {
	for _, a := range w.listApprovals(now) {
		if a.Agent == agent {
			n++
		}
	}
	return n
}

// describeBound returns the line about a bound that a peer has reached at a session.
func (w *Waker) describeBound(agent string, key boundKey, b reachedBound) string {
	peer := w.Name(key.peer)
	what, remedy := fmt.Sprintf("what %s sends waits in the inbox of %s", peer, agent), "acpctl agents shows who woke it"
	if key.sent {
		what, remedy = fmt.Sprintf("%s was not let send more because of %s", agent, peer), fmt.Sprintf("acpctl agents mute %s stops it", agent)
	}
	if b.until.IsZero() {
		return fmt.Sprintf("%s: %s (%s)", b.reason, what, remedy)
	}
	return fmt.Sprintf("%s: %s, until %s (%s; more: turns of agents in config.yaml)", b.reason, what, b.until.UTC().Format(time.RFC3339), remedy)
}

// maxNoticed bounds the peers that the notices of one session name.
const maxNoticed = 4

// Notices returns what the owner should know of a session, one line each.
func (w *Waker) Notices(agent string) []string {
	now := time.Now()
	all := []string{}
	if until := w.Rules.MutedUntil(agent, now); !until.IsZero() {
		all = append(all, fmt.Sprintf("%s is muted until %s: nothing wakes it (acpctl agents mute %s 0s ends that)", agent, until.UTC().Format(time.RFC3339), agent))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if s := w.sessions[agent]; s != nil {
		if now.Before(s.refusal.until) {
			all = append(all, fmt.Sprintf("%s was not woken: %s: what comes waits for its next turn", agent, s.refusal.why))
		}
		bounds := []string{}
		for key, b := range s.bounds {
			if !b.isOver(now) {
				bounds = append(bounds, w.describeBound(agent, key, b))
			}
		}
		slices.Sort(bounds)
		all = append(all, bounds[:min(len(bounds), maxNoticed)]...)
	}
	switch n := w.countApprovals(agent, now); {
	case n == 1:
		all = append(all, fmt.Sprintf("1 message for %s waits for the owner's approval: %s", agent, client.ApprovalsCommand))
	case n > 1:
		all = append(all, fmt.Sprintf("%d messages for %s wait for the owner's approval: %s", n, agent, client.ApprovalsCommand))
	}
	return append(all, w.describeKept(agent, now)...)
}

// describeKept returns the line about the approved messages that a bound keeps back from a session, or
// nil. The caller holds mu.
func (w *Waker) describeKept(agent string, now time.Time) []string {
	kept := slices.DeleteFunc(w.listApproved(agent), func(a *approval) bool { return !a.keptUntil.After(now) })
	if len(kept) == 0 {
		return nil
	}
	first := slices.MinFunc(kept, func(a, b *approval) int { return a.keptUntil.Compare(b.keptUntil) })
	return []string{fmt.Sprintf("approved messages that wait to wake %s: %d, until %s at the earliest: %v (%s)", agent, len(kept), first.keptUntil.UTC().Format(time.RFC3339), first.keptBy, client.ApprovalsCommand)}
}
