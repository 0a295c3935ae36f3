package files

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/config"
	"github.com/acpd/acpd/daemon/sessions"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// The time that the owner has to answer.
const (
	usualAnswerTime = 10 * time.Minute
	maxAnswerTime   = 24 * time.Hour
)

// approval is a file that waits for the owner.
type approval struct {
	id      string
	offered *record
	answer  chan string // gets one answer
}

// answerTime returns how long the owner has to answer about an offer.
func answerTime(offer *wire.FileRequest) time.Duration {
	return max(usualAnswerTime, time.Duration(min(offer.WaitMS, uint64(maxAnswerTime.Milliseconds())))*time.Millisecond)
}

// ask asks the owner about a file, and returns nil if it may come. It blocks until the owner answers, or the sender
// gives up.
func (s *Service) ask(ctx context.Context, r *record, wait time.Duration) error {
	s.mu.Lock()
	s.lastAsked++
	a := &approval{fmt.Sprint(sessions.FilePrefix, s.lastAsked), r, make(chan string, 1)}
	s.approvals = append(s.approvals, a)
	s.mu.Unlock()
	defer s.take(a.id)
	s.AskOwner(r.peer, config.PolicyFile, a.id)
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case answer := <-a.answer:
		if answer == "no" {
			return kinds.Errorf(kinds.NotAuthorized, "file: the receiver's owner has declined it")
		}
		return nil
	case <-timer.C:
		return kinds.Errorf(kinds.Timeout, "file: the receiver's owner did not answer within %s: ask that person, then send it again", wait)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// take returns what waits under an id, which then waits no more, or nil.
func (s *Service) take(id string) *approval {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.approvals, func(a *approval) bool { return a.id == id })
	if i < 0 {
		return nil
	}
	a := s.approvals[i]
	s.approvals = slices.Delete(s.approvals, i, i+1)
	return a
}

// ListApprovals returns the files that wait for the owner, in the order in which they came.
func (s *Service) ListApprovals() (all []client.Approval) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.approvals {
		all = append(all, s.describeApproval(a))
	}
	return all
}

// IsAsking reports whether a file waits for the owner under an id.
func (s *Service) IsAsking(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.approvals, func(a *approval) bool { return a.id == id })
}

func (s *Service) describeApproval(a *approval) client.Approval {
	r := a.offered
	text := fmt.Sprintf("%s, %d bytes", r.name, r.size)
	if r.text != "" {
		text += ": " + r.text
	}
	return client.Approval{
		ID: a.id, Peer: r.peer, Name: s.Trust.NameOf(r.peer), Kind: config.PolicyFile, Message: r.id, Text: client.ClipText(client.Line(strings.TrimSpace(text)), client.MaxBeginning), Since: r.since.UTC(),
	}
}

// Decide applies the owner's answer, which is yes, always or no, to an approval. With always, the other files of
// that peer that wait may come too.
func (s *Service) Decide(ctx context.Context, id, answer string) (client.Approval, error) {
	if !s.IsAsking(id) {
		return client.Approval{}, kinds.Errorf(kinds.NotFound, "nothing waits under %.64q: acpctl approvals lists what does: take its number in column ID", id)
	}
	if answer == "always" {
		if err := s.setAlways(ctx, s.peerOf(id), true); err != nil {
			return client.Approval{}, err
		}
	}
	decided := s.take(id)
	if decided == nil { // its sender has given up meanwhile
		return client.Approval{}, kinds.Errorf(kinds.NotFound, "nothing waits under %.64q any more: its sender has given up", id)
	}
	decided.answer <- answer
	if answer == "always" {
		for _, other := range s.ListApprovals() {
			if other.Peer != decided.offered.peer {
				continue
			}
			if a := s.take(other.ID); a != nil {
				a.answer <- answer
			}
		}
	}
	return s.describeApproval(decided), nil
}

// peerOf returns the peer whose file waits under an id, or zero.
func (s *Service) peerOf(id string) (peer identity.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.approvals {
		if a.id == id {
			peer = a.offered.peer
		}
	}
	return peer
}
