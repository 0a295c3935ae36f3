package kept

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/daemon/inbox"
	"github.com/acpd/acpd/daemon/local"
	"github.com/acpd/acpd/daemon/registry"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/store"
	"github.com/acpd/acpd/wire"
)

// ending is how a message has ended.
type ending struct {
	state   client.TaskState
	outcome string         // in words
	kind    string         // of the message that reports it
	payload wire.Payload   // of that message
	reply   *wire.Envelope // nil unless the peer has answered a query
	told    bool           // the agent that sent the message knows it
}

// errStopped is the cause with which a try ends whose message is withdrawn, or whose peer is untrusted.
var errStopped = kinds.Errorf(kinds.Cancelled, "the message was withdrawn while it was being sent")

// mayHaveArrived is the outcome of a message that is not sent again, as nobody knows whether it has arrived.
const mayHaveArrived = "it may have arrived"

// codeOfEnd has the codes of the errors that report ends.
var codeOfEnd = map[client.TaskState]kinds.Code{
	client.TaskUnknown: kinds.Internal, client.TaskExpired: kinds.Timeout, client.TaskWithdrawn: kinds.Cancelled, client.TaskRefused: kinds.NotAuthorized,
}

// newErrorEnding returns an end that is reported by an error, in words of this daemon.
func newErrorEnding(state client.TaskState, outcome string) *ending {
	return &ending{state: state, outcome: outcome, kind: kinds.KindError, payload: kinds.EncodePayload(kinds.Errorf(codeOfEnd[state], "%s", outcome))}
}

func (s *Service) newExpiry(m *message) *ending {
	s.mu.Lock()
	defer s.mu.Unlock()
	return newErrorEnding(client.TaskExpired, "it did not arrive in the time for which it was kept: "+m.lastError)
}

// newFailedEnding returns the end of a message whose try failed for good. An agent that fails may have begun; of a
// delegation, it has not if it says that it has too much to do.
func newFailedEnding(ctx context.Context, m *message, e *kinds.Error) *ending {
	isBusy := !m.isDelegation() && (e.Code == kinds.NoAgent || e.Code == kinds.Overloaded)
	isOfAgent := e.From != "" && (isBusy || slices.Contains([]kinds.Code{kinds.Internal, kinds.Timeout, kinds.Cancelled}, e.Code) || m.isQuery() && e.Code == kinds.TooLarge)
	isOpen := e.From == "" && slices.Contains([]kinds.Code{kinds.Internal, kinds.Timeout, kinds.Cancelled, kinds.Unreachable}, e.Code)
	switch {
	case e.Delivered() == kinds.DeliveredNo, e.Delivered() == "" && !isOfAgent && !isOpen:
		return newErrorEnding(client.TaskRefused, describe(e))
	case errors.Is(context.Cause(ctx), errStopped):
		return newErrorEnding(client.TaskUnknown, errStopped.Message+": "+mayHaveArrived)
	}
	return newErrorEnding(client.TaskUnknown, mayHaveArrived+": "+local.MaskAddrs(e.OwnWords()))
}

// newArrived returns the end of a notification, whose receipt has the state.
func newArrived(state client.TaskState) *ending {
	return &ending{state: state, kind: kinds.KindResult, payload: kinds.EncodePayload(&kinds.Result{Status: string(client.TaskCompleted), Outcome: string(state)})}
}

// newAnswered returns the end of a query that was answered: a result that says what the response says.
func newAnswered(reply *wire.Envelope) *ending {
	said, err := kinds.ParsePayload[kinds.Response](reply.Payload)
	if err != nil {
		return newErrorEnding(client.TaskUnknown, "its answer is not valid")
	}
	return &ending{state: client.TaskCompleted, outcome: said.Summary, kind: kinds.KindResult, reply: reply, payload: kinds.EncodePayload(struct {
		Status    string         `json:"status"`
		Outcome   string         `json:"outcome"`
		Data      jsontext.Value `json:"data,omitzero"`
		Truncated bool           `json:"truncated,omitzero"`
	}{string(client.TaskCompleted), said.Summary, said.Data, said.Truncated})}
}

// newReport returns the envelope that reports the end of a message to the agent that sent it: an answer is from the
// peer, and anything else from this daemon.
func (s *Service) newReport(m *message, e *ending) *wire.Envelope {
	env := wire.NewEnvelope(s.findReporter(e.state, m.peer), s.Self, e.kind, e.payload)
	if e.reply != nil {
		env.FromAgent, env.Thread = e.reply.FromAgent, e.reply.Thread
	}
	env.ID, env.Ref, env.Agent = m.endID, &m.id, m.by.Name
	return env
}

// end ends a message that the caller has claimed. The end is on disk first; if that fails, it takes effect all the same,
// since the message must not be sent again, and is written later. Its error says that.
func (s *Service) end(ctx context.Context, m *message, e *ending) error {
	if e.state == client.TaskAccepted {
		s.forget(ctx, m)
		return nil
	}
	var report bytes.Buffer
	if err := s.newReport(m, e).Append(&report); err != nil {
		s.Log.Error("the end of a kept message is not valid", "id", m.id, "state", e.state, "err", err)
	}
	end := message{state: e.state, outcome: client.ClipText(e.outcome, client.MaxBeginning), size: report.Len(), ended: time.Now().Round(0), told: e.told, unwritten: report.Bytes()}
	err := s.writeEnd(ctx, m.row, end)
	s.mu.Lock()
	m.state, m.outcome, m.size, m.ended, m.told = end.state, end.outcome, end.size, end.ended, end.told
	if err != nil {
		m.unwritten = end.unwritten
	}
	s.mu.Unlock()
	s.changed.Ring()
	s.publish(m)
	return err
}

// writeEnd writes how the message in a row has ended. It does not use the disk's reserve for an answer of a peer.
func (s *Service) writeEnd(ctx context.Context, row int64, end message) error {
	write := func() error {
		return s.write(ctx, true, func(tx *store.Tx) error { return updateEnd(tx, row, &end) })
	}
	err := error(nil)
	if end.state == client.TaskCompleted {
		err = write()
	} else {
		err = s.Space.RunWithReserve(write)
	}
	if err != nil {
		s.Log.Error("the end of a kept message is not recorded yet", "row", row, "state", end.state, "err", err)
	}
	return err
}

// forget drops a message.
func (s *Service) forget(ctx context.Context, m *message) {
	s.mu.Lock()
	delete(s.messages, m.id)
	s.mu.Unlock()
	s.changed.Ring()
	if err := s.write(ctx, false, func(tx *store.Tx) error { return deleteMessage(tx, m.row) }); err != nil {
		s.Log.Warn("a message that is not kept any more stays in state.db until the next start", "id", m.id, "err", err)
	}
}

// tell hands the report of an end to the agent that sent the message, or puts it into the inbox for it. If that fails,
// it is done later. A message that no agent has sent is not reported: its sender looks it up.
func (s *Service) tell(ctx context.Context, m *message) {
	report, err := s.readEnvelope(ctx, m)
	if err != nil || report == nil {
		return
	}
	sender, known := s.Trust.FindPeer(report.From)
	if report.From == s.Self {
		sender = identity.Peer{ID: s.Self, Name: s.Name}
	} else if !known {
		return // a certified peer, until it shows its certificate again
	}
	in := &client.Inbound{Envelope: *report, Name: sender.Name, Delegation: s.show(m)}
	out, _ := s.Agents.HandOrHold(ctx, sender, report, m.by.Name, client.OriginDaemon, s.Registry.FindTakers(report.Kind, "", m.by.Name), in)
	if out.Err != nil {
		s.Log.Warn("the end of a kept message is not told yet", "id", m.id, "agent", m.by.Name, "err", out.Err)
		return
	}
	s.setTold(ctx, m)
}

// setTold records that the agent that sent a message knows its end.
func (s *Service) setTold(ctx context.Context, m *message) {
	s.mu.Lock()
	m.told = true
	s.mu.Unlock()
	if err := s.write(ctx, false, func(tx *store.Tx) error { return updateTold(tx, m.row) }); err != nil {
		s.Log.Warn("the end of a kept message may be told again after a restart", "id", m.id, "err", err)
	}
}

// How long, and how many, ends are listed.
const (
	endedFor  = 24 * time.Hour
	sweepTime = time.Minute // between sweeps: somebody may set the clock, and a disk may have been full
)

// runSweeps sweeps until ctx ends: when a message ends, and now and then.
func (s *Service) runSweeps(ctx context.Context) {
	for {
		s.sweep(ctx)
		timer := time.NewTimer(s.findNextExpiry(time.Now()))
		select {
		case <-ctx.Done():
		case <-s.endsWait:
		case <-timer.C:
		}
		timer.Stop()
		if ctx.Err() != nil {
			return
		}
	}
}

// findNextExpiry returns the time until the next sweep.
func (s *Service) findNextExpiry(now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := s.hasten(sweepTime)
	for _, m := range s.messages {
		if left := m.until.Sub(now); m.ended.IsZero() && left > 0 {
			next = min(next, left)
		}
	}
	return next
}

// sweep ends what has been kept for long enough, and what was being sent when the last run of the daemon ended. It
// tells the agents of ends, and drops those of a day ago, and the oldest beyond the bounds of what may be kept.
func (s *Service) sweep(ctx context.Context) {
	now := time.Now()
	s.mu.Lock()
	var due, ended []*message
	for _, m := range s.messages {
		switch {
		case m.stop != nil:
		case !m.ended.IsZero():
			ended = append(ended, m)
		case s.isGiven(m) || m.state == client.TaskSent || !now.Before(m.until):
			due = append(due, m)
		}
	}
	s.mu.Unlock()
	for _, m := range due {
		if s.claim(m, func(error) {}) {
			s.end(ctx, m, s.findEnding(m))
			s.release(m)
		}
	}
	slices.SortFunc(ended, func(a, b *message) int { return b.ended.Compare(a.ended) })
	listed, sizes := make(map[bool]int), make(map[identity.ID]int)
	untold := make(map[string][]*message)
	for _, m := range ended {
		isOwners := m.by == registry.Credential{}
		s.mu.Lock()
		listed[isOwners]++
		sizes[m.peer] += m.size
		unwritten, told, copied := m.unwritten != nil, m.told || m.by.Name == "", *m
		s.mu.Unlock()
		if unwritten && s.writeEnd(ctx, m.row, copied) == nil {
			s.mu.Lock()
			m.unwritten = nil
			s.mu.Unlock()
		}
		switch {
		case now.Sub(m.ended) > endedFor || listed[isOwners] > maxMessages || sizes[m.peer] > maxPeerSize && sizes[m.peer] > m.size:
			s.forget(ctx, m)
		case !told:
			untold[m.by.Name] = append(untold[m.by.Name], m)
		}
	}
	for agent, all := range untold {
		s.tellAgent(ctx, agent, all)
	}
}

// maxReports bounds the ends that an agent is told by this daemon itself in a day: its inbox is that of all agents.
const maxReports = 200

// tellAgent tells an agent of ends, the oldest first, unless it is being told of some. It does not wait for the agent.
func (s *Service) tellAgent(ctx context.Context, agent string, all []*message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	reports := 0
	for _, m := range s.messages {
		if m.by.Name == agent && m.told && m.state != client.TaskCompleted {
			reports++
		}
	}
	if _, isTold := s.telling[agent]; isTold {
		s.telling[agent] = true
		return
	}
	s.telling[agent] = false
	s.Calls.Go(func() {
		for _, m := range slices.Backward(all) {
			if isOwn := m.state != client.TaskCompleted; isOwn && reports >= maxReports || ctx.Err() != nil {
				continue
			} else if isOwn {
				reports++
			}
			s.tell(ctx, m)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.telling[agent] {
			s.endsWait.Set()
		}
		delete(s.telling, agent)
	})
}

// findEnding returns how a message ends that is not tried any more.
func (s *Service) findEnding(m *message) *ending {
	if t := s.Delegations.Find(client.Given, m.peer, m.id); m.isDelegation() && t != nil {
		switch s.Delegations.Status(t).State {
		case client.TaskUnknown:
		case client.TaskRefused:
			return newErrorEnding(client.TaskRefused, "the peer refused it")
		default:
			return &ending{state: client.TaskAccepted} // it is a delegation like any other
		}
	} else if m.state != client.TaskSent {
		return s.newExpiry(m)
	}
	return newErrorEnding(client.TaskUnknown, "this daemon ended while it was being sent: "+mayHaveArrived)
}

// claim claims a message, so that only the caller sends or ends it, unless it has ended or another has claimed it.
func (s *Service) claim(m *message, stop context.CancelCauseFunc) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.stop != nil || !m.ended.IsZero() || s.messages[m.id] != m {
		return false
	}
	m.stop = stop
	return true
}

// endNow ends a message, after the try that is under way if there is one, which it cuts short. It returns false if the
// message has another end.
func (s *Service) endNow(ctx context.Context, m *message, e *ending) (bool, error) {
	for {
		changed := s.changed.NextRing()
		if s.claim(m, func(error) {}) {
			defer s.release(m)
			s.mu.Lock()
			mayHaveLeft := m.state == client.TaskSent || s.isGiven(m)
			s.mu.Unlock()
			if mayHaveLeft {
				e = s.findEnding(m)
			}
			return true, s.end(ctx, m, e)
		}
		s.mu.Lock()
		stop, over := m.stop, !m.ended.IsZero() || s.messages[m.id] != m
		s.mu.Unlock()
		if over {
			return false, nil
		}
		if stop != nil {
			stop(errStopped)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false, kinds.NewErrorFromCause(context.Cause(ctx))
		}
	}
}

// Withdraw ends a message that the caller may see, and returns it as it is then, or nil if it is not here. as is the agent
// that withdraws it, which is not told that it has.
func (s *Service) Withdraw(ctx context.Context, who *registry.Credential, as string, id wire.MessageID, reason string) (*client.Task, error) {
	m := s.find(who, id)
	if m == nil {
		return nil, nil
	}
	outcome := "withdrawn"
	if reason != "" {
		outcome += ": " + reason
	}
	e := newErrorEnding(client.TaskWithdrawn, outcome)
	e.told = as == m.by.Name
	if _, err := s.endNow(ctx, m, e); err != nil {
		return nil, err
	}
	t := s.show(m)
	if s.find(who, id) == nil || t.State != client.TaskWithdrawn && s.Delegations.Find(client.Given, m.peer, m.id) != nil {
		return nil, nil // its peer has it as a delegation, or may have it
	}
	return t, nil
}

// EndWith ends all messages for a peer that is not trusted any more.
func (s *Service) EndWith(ctx context.Context, peer identity.ID, name string) (first error) {
	s.mu.Lock()
	var all []*message
	for _, m := range s.messages {
		if m.peer == peer && m.ended.IsZero() {
			all = append(all, m)
		}
	}
	s.mu.Unlock()
	for _, m := range all {
		_, err := s.endNow(ctx, m, newErrorEnding(client.TaskRefused, identity.CleanClaim(name)+" is not trusted here any more"))
		first = cmp.Or(first, err)
	}
	return first
}

// TakeReport returns the message that reports the end of a message that the caller may see, and the agent for which it is:
// that agent knows the end otherwise, and is not told any more.
func (s *Service) TakeReport(ctx context.Context, who *registry.Credential, id wire.MessageID) (report inbox.MessageKey, agent string, ended bool) {
	m := s.find(who, id)
	if m == nil || !s.show(m).Over {
		return report, "", false
	}
	s.setTold(ctx, m)
	return inbox.MessageKey{Peer: s.findReporter(s.show(m).State, m.peer), ID: m.endID}, m.by.Name, true
}

// findReporter returns who reports an end: the peer if it has answered, else this daemon.
func (s *Service) findReporter(state client.TaskState, peer identity.ID) identity.ID {
	if state == client.TaskCompleted {
		return peer
	}
	return s.Self
}

// WasSentBy reports whether an agent has sent a message that is kept, or was.
func (s *Service) WasSentBy(agent string, id wire.MessageID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.messages[id]
	return m != nil && m.by.Name == agent
}

// AddSenders adds the agents that have sent what is kept.
func (s *Service) AddSenders(to map[string]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.messages {
		if m.ended.IsZero() && m.by.Name != "" {
			to[m.by.Name] = true
		}
	}
}
