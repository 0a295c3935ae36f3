package files

import (
	"context"
	"fmt"
	"slices"
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
	answer  chan string // gets one answer, when the approval is removed from the list
}

// answerTime returns how long the owner has to answer about an offer.
func answerTime(offer *wire.FileRequest) time.Duration {
	if offer.WaitMS == 0 {
		return usualAnswerTime
	}
	return time.Duration(min(offer.WaitMS, uint64(maxAnswerTime.Milliseconds()))) * time.Millisecond
}

// ask asks the owner about a file, and returns nil if it may come. It blocks until the owner answers, or the sender
// gives up.
func (s *Service) ask(ctx context.Context, r *record) error {
	s.mu.Lock()
	s.lastAsked++
	a := &approval{fmt.Sprint(sessions.FilePrefix, s.lastAsked), r, make(chan string, 1)}
	s.approvals = append(s.approvals, a)
	s.mu.Unlock()
	defer s.answer("no", func(other *approval) bool { return other == a }) // if it still waits
	s.Sessions.AskOwner(r.peer, config.PolicyFile, a.id)
	wait := answerTime(&r.FileRequest)
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case answer := <-a.answer:
		if answer == "no" {
			return kinds.Errorf(kinds.NotAuthorized, "file: the receiver's owner has declined it")
		}
		return nil
	case <-timer.C:
		return kinds.Errorf(kinds.Timeout, "file: the receiver's owner did not answer within %s: ask that person, then send it again", kinds.FormatDuration(wait))
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// answer gives an answer to the approvals that are meant, which wait no more, and returns them.
func (s *Service) answer(answer string, isMeant func(*approval) bool) (answered []*approval) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.approvals = slices.DeleteFunc(s.approvals, func(a *approval) bool {
		if !isMeant(a) {
			return false
		}
		a.answer <- answer
		answered = append(answered, a)
		return true
	})
	return answered
}

// ListApprovals returns the files that wait for the owner, in the order in which they came.
func (s *Service) ListApprovals() (all []client.Approval) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.approvals {
		r := a.offered
		text := fmt.Sprintf("%s, %d bytes", r.Name, r.Size)
		if r.Text != "" {
			text += ": " + r.Text
		}
		all = append(all, client.Approval{
			ID: a.id, Peer: r.peer, Name: s.Trust.NameOf(r.peer), Kind: config.PolicyFile, Message: r.ID, Text: client.ClipText(client.Line(text), client.MaxBeginning), Since: r.since.UTC(),
		})
	}
	return all
}

// IsAsking reports whether a file waits for the owner under an id.
func (s *Service) IsAsking(id string) bool {
	return slices.ContainsFunc(s.ListApprovals(), func(a client.Approval) bool { return a.ID == id })
}

// Decide applies the owner's answer, which is yes, always or no, to an approval. With always, the other files of
// that peer that wait may come too.
func (s *Service) Decide(ctx context.Context, id, answer string) (client.Approval, error) {
	all := s.ListApprovals()
	i := slices.IndexFunc(all, func(a client.Approval) bool { return a.ID == id })
	if i < 0 {
		return client.Approval{}, kinds.Errorf(kinds.NotFound, "nothing waits under %.64q: acpctl approvals lists what does: take its number in column ID", id)
	}
	var always identity.ID
	if answer == "always" {
		always = all[i].Peer
		if err := s.setAlways(ctx, always, true); err != nil {
			return client.Approval{}, err
		}
	}
	answered := s.answer(answer, func(a *approval) bool { return a.id == id || a.offered.peer == always })
	if !slices.ContainsFunc(answered, func(a *approval) bool { return a.id == id }) {
		if answer == "always" {
			return client.Approval{}, kinds.Errorf(kinds.NotFound, "the file that waited under %.64q ended meanwhile: the next ones of that peer come without a question", id)
		}
		return client.Approval{}, kinds.Errorf(kinds.NotFound, "the file that waited under %.64q ended meanwhile", id)
	}
	return all[i], nil
}
