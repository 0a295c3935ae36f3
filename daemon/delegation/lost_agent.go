package delegation

import (
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/daemon/registry"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// orphanedFor is how long an agent that went away may take to come back for its delegations.
const orphanedFor = registry.NameKeptFor

// newLostEnding returns the end of a delegation whose agent has not come back.
func newLostEnding(t *Delegation) Ending {
	lost := kinds.Errorf(kinds.Internal, "agent %s went away while it worked on this and did not come back: delegate it again", t.Agent)
	return Ending{State: client.TaskFailed, ID: wire.NewMessageID(), Outcome: lost.Message, Payload: kinds.EncodePayload(lost), owed: t.Reports}
}

// newLostSessionEnding returns the end of a delegation whose session has ended. Its model may have
// begun.
func newLostSessionEnding(t *Delegation) Ending {
	lost := kinds.Errorf(kinds.NoAgent, "the session %s ended while it worked on this: delegate it again", t.Agent).WithDelivered(kinds.DeliveredUnknown)
	return Ending{State: client.TaskFailed, ID: wire.NewMessageID(), Outcome: lost.Message, Payload: kinds.EncodePayload(lost), owed: t.Reports}
}

// EndForLostSession ends the delegations that a session has accepted, because nobody comes back for them. It
// does not wait for the disk. The peers that gave them get the ends when these are written.
func (ts *Table) EndForLostSession(name string) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	for _, t := range ts.table {
		if t.Direction != client.Taken || t.Agent != name || t.state != client.TaskAccepted || t.isOverNow() || t.ending {
			continue
		}
		t.ending = true // until that is on disk
		ts.queueUnwrittenEnd(unwrittenEnd{task: t, ending: newLostSessionEnding(t)})
	}
}

// EndDeclined ends a delegation that was accepted, because the owner of this daemon has said no to it. It
// reports whether the delegation was open. It does not wait for the disk: the peer that gave the delegation
// gets the end when it is written.
func (ts *Table) EndDeclined(t *Delegation, why *kinds.Error) bool {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if t.state != client.TaskAccepted || t.isOverNow() || t.ending {
		return false
	}
	t.ending = true // until that is on disk
	ts.queueUnwrittenEnd(unwrittenEnd{task: t, ending: Ending{
		State: client.TaskFailed, ID: wire.NewMessageID(), Outcome: "declined: " + why.Message, Payload: kinds.EncodePayload(why), owed: t.Reports,
	}})
	return true
}

// AgentAwaySince returns when the agent that has accepted t was first missing. It returns zero if that agent
// is attached, or if no agent has anything to do for t.
func (ts *Table) AgentAwaySince(t *Delegation) client.Time {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return t.findAgentAwaySince()
}

// findAgentAwaySince does what AgentAwaySince does. The caller holds Table.mu.
func (t *Delegation) findAgentAwaySince() client.Time {
	if !t.countsAsWork {
		return client.Time{}
	}
	return client.Time{Time: t.agentAwaySince}
}

// UpdateAgentPresence records that an agent of that name was attached or has left. It is called after each
// such change. If no such agent is attached, the time begins in which it has to come back for its
// delegations. Questions that wait for the agent may be asked again.
func (ts *Table) UpdateAgentPresence(name string) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	var alone time.Time
	if ts.agents.FindByName(name) == nil {
		alone = time.Now()
	}
	ts.tellWaitingQuestions(name)
	for _, t := range ts.table {
		if t.Direction != client.Taken || t.Agent != name || t.isOverNow() || t.agentAwaySince.IsZero() == alone.IsZero() {
			continue
		}
		t.agentAwaySince = alone
		ts.notifyWaiters(t)
	}
}
