package waking

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/acpd/acpd/identity"
)

// Caused says how many turns of a session a peer has caused.
type Caused struct {
	Peer      identity.ID
	Hour, Day int
}

// State says how often a session was woken, by whom, and what waits to wake it.
type State struct {
	Hour, Day  int
	By         []Caused // the peer that caused most in the last day first
	Waiting    int      // messages that wait to wake it
	Approvals  int      // messages that wait for the owner
	MutedUntil time.Time
}

// Describe returns the state of a session.
func (w *Waker) Describe(agent string) (s State) {
	now := time.Now()
	s.MutedUntil = w.Rules.MutedUntil(agent, now)
	w.mu.Lock()
	defer w.mu.Unlock()
	hour, whole := w.countTurns(agent, false, now.Add(-time.Hour)), w.countTurns(agent, false, now.Add(-day))
	for id, n := range whole {
		s.Hour, s.Day = s.Hour+hour[id], s.Day+n
		s.By = append(s.By, Caused{id, hour[id], n})
	}
	slices.SortFunc(s.By, func(a, b Caused) int {
		if n := b.Day - a.Day; n != 0 {
			return n
		}
		return a.Peer.Compare(b.Peer)
	})
	if known := w.sessions[agent]; known != nil {
		s.Waiting = len(known.waiting)
	}
	for _, a := range w.approvals {
		if a.Agent == agent {
			s.Approvals++
		}
	}
	return s
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
		n := 0
		for _, id := range slices.SortedFunc(maps.Keys(s.bounds), identity.ID.Compare) {
			if b := s.bounds[id]; now.Sub(b.at) < noticeFor && n < maxNoticed {
				all = append(all, fmt.Sprintf("%s: what %s sends waits in the inbox of %s (acpctl agents shows who woke it)", b.reason, w.Name(id), agent))
				n++
			}
		}
	}
	n := 0
	for _, a := range w.approvals {
		if a.Agent == agent {
			n++
		}
	}
	switch {
	case n == 1:
		all = append(all, fmt.Sprintf("1 message for %s waits for the owner's word: acpctl approvals", agent))
	case n > 1:
		all = append(all, fmt.Sprintf("%d messages for %s wait for the owner's word: acpctl approvals", n, agent))
	}
	return all
}
