package waking

import "time"

// refusedFor is how long peers see a session as one that answers only when it is active, after its
// program refused to be woken. A message that comes meanwhile is still tried.
const refusedFor = time.Minute

// refusal is why the program of a session refused to be woken.
type refusal struct {
	why        string
	until      time.Time
	unattended bool // for a message that may wake the session although nobody is there
	told       bool // to the owner
}

// excludes reports whether a message would be refused too.
func (r refusal) excludes(unattended bool, now time.Time) bool {
	return now.Before(r.until) && (r.unattended || !unattended)
}

// noteRefusal records that a session's program has refused a message that was to wake it. The record is
// kept until the program takes such a message. noteRefusal returns the notice for the owner, or nil
// if the owner was told of this refusal, or mayTell lets nothing be told now.
func (w *Waker) noteRefusal(m Message, o Outcome) *Notice {
	now := time.Now()
	unattended := w.decideByRules(m).unattended
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.sessions[m.Agent]
	if s != nil && s.current != nil && s.current.key() == m.key() {
		m, unattended = s.current.Message, s.current.grant.Unattended
	}
	switch {
	case s == nil, w.findCharge(m.key(), false) == nil:
		return nil
	case o.Posted:
		if !unattended || s.refusal.unattended {
			s.refusal = refusal{}
		}
		if !o.NeedsPerson || !w.mayTell(toldEvent{m.Peer.ID, m.Agent, aboutRefusal, now}) {
			return nil
		}
		return &Notice{Agent: m.Agent, Peer: m.Peer.ID, Kind: m.Kind, Reason: "its program waits for its user to allow it", NeedsPerson: true}
	case o.Refused == "":
		return nil
	}
	before := s.refusal
	isKnown := before.told && now.Before(before.until) && before.why == o.Refused
	isTold := !isKnown && w.mayTell(toldEvent{m.Peer.ID, m.Agent, aboutRefusal, now})
	s.refusal = refusal{o.Refused, now.Add(refusedFor), unattended || now.Before(before.until) && before.unattended, isKnown || isTold}
	if !isTold {
		return nil
	}
	return &Notice{Agent: m.Agent, Peer: m.Peer.ID, Kind: m.Kind, Reason: o.Refused, NeedsPerson: o.NeedsPerson}
}
