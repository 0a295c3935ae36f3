package web

import (
	"cmp"
	"slices"
	"strings"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// waitingRow says who waits for whom, and since when.
type waitingRow struct {
	rowKey
	Since    client.Time `json:"since"` // null: an older daemon does not tell it
	Kind     string      `json:"kind"`  // query or delegate
	Who      party       `json:"who"`
	Whom     party       `json:"whom"`
	Text     string      `json:"text"`
	Thread   string      `json:"thread"`
	IsAsked  bool        `json:"asked"` // it is a question back about a delegation
	State    string      `json:"state"` // of a delegation
	Progress *float64    `json:"progress"`
	Message  string      `json:"message"` // what is being done
	Deadline client.Time `json:"deadline"`

	// Of a delegation that an agent here has accepted.
	AgentAway  client.Time `json:"agent_away"`  // since when no agent of that name is attached; null: one is
	AgentUntil client.Time `json:"agent_until"` // until when the delegation waits for one; null: that is not known

	After   string `json:"after"` // key of the call that it follows from; may be ""
	IsGuess bool   `json:"guess"` // whoever calls has guessed so
	Chain   string `json:"chain"` // name of the chain that it belongs to, the same at each daemon; may be ""

	// Of a call with a peer that is not connected.
	Missing     string      `json:"missing"`      // its name; "": it is connected
	MissingSeen client.Time `json:"missing_seen"` // when it was seen last; null: never
}

// party is one of the two that a call is between.
type party struct {
	Here  bool   `json:"here"`  // it belongs to this daemon
	Peer  string `json:"peer"`  // of one that does not
	Agent string `json:"agent"` // "": it is not named
}

// work is what is open with a daemon, as it was last read.
type work struct {
	open      []client.TrafficEntry
	openMore  int // further open calls, for which the daemon's answer had no room
	tasks     []client.Task
	approvals []client.Approval
	peers     map[string]peerState // by name, and by id; nil: they are not known yet
}

// callKey is what tells a call from all others: peers choose ids, and may choose that of another's
// message, or one of their own again for another kind.
type callKey struct {
	direction client.MessageDirection
	peer      string // petname, or else the id
	kind      string
	id        wire.MessageID
}

func keyCall(e *client.TrafficEntry) callKey {
	return callKey{e.Direction, cmp.Or(e.Name, e.Peer.String()), e.Kind, e.ID}
}

func keyDelegation(t *client.Task) callKey {
	return callKey{findDirection(t), t.Peer, kinds.KindDelegate, t.ID}
}

// listWaiting returns who waits for whom, those first that have waited longest. It leaves out calls that need the
// owner's approval: listApprovals returns them.
func (w *work) listWaiting() []waitingRow {
	rows := make([]waitingRow, 0, len(w.open))
	place := make(map[callKey]int) // of each call
	for i := range w.open {
		e := &w.open[i]
		r := newOpenRow(e)
		w.noteMissing(&r, e.Peer.String())
		place[keyCall(e)] = len(rows)
		rows = append(rows, r)
	}
	for i := range w.tasks {
		t := &w.tasks[i]
		if isOver(t) || t.Kept != nil { // nobody there has what is kept
			continue
		}
		at, known := place[keyDelegation(t)]
		if !known {
			at = len(rows)
			r := newTaskWait(t)
			w.noteMissing(&r, t.Peer)
			place[keyDelegation(t)] = at
			rows = append(rows, r)
		}
		r := &rows[at]
		r.State, r.Progress, r.Message, r.Deadline = string(t.State), t.Progress, showLine(t.Message, maxShown), t.Deadline
		if !t.AgentAwaySince.IsZero() {
			r.AgentAway, r.AgentUntil = t.AgentAwaySince, t.AgentAwaitedUntil
		}
		agent := t.Agent
		if t.Direction == client.Given {
			agent = t.ToAgent
		}
		if agent != "" && (t.Direction == client.Taken || r.Whom.Agent == "") {
			r.Whom.Agent = showName(agent)
		}
		if q := t.Question; q != nil && !has(place, callKey{client.In, t.Peer, kinds.KindQuery, q.ID}) {
			rows = append(rows, newQuestionWait(t, q, rows[at]))
		}
	}
	joinChains(rows, w.open, place)
	for i := len(w.open) - 1; i >= 0; i-- { // the first rows, in their order
		if w.needsApproval(&w.open[i]) {
			rows = slices.Delete(rows, i, i+1)
		}
	}
	slices.SortStableFunc(rows, func(a, b waitingRow) int {
		return cmp.Or(a.Since.Compare(b.Since.Time), strings.Compare(a.Key, b.Key))
	})
	return rows
}

func has(place map[callKey]int, key callKey) bool {
	_, there := place[key]
	return there
}

// newOpenRow describes a call that has no outcome yet.
func newOpenRow(e *client.TrafficEntry) waitingRow {
	r := waitingRow{
		rowKey: rowKey{string(e.Direction) + " " + e.Kind + " " + e.Peer.String() + " " + e.ID.String() + " " + showName(e.Agent)}, Since: client.Time{Time: e.At}, Kind: showName(e.Kind),
		Text: showLine(e.Text, maxShown), Thread: showName(e.Thread), Chain: showName(e.Chain), AgentAway: e.AgentAwaySince,
	}
	r.Who, r.Whom = findParties(e)
	r.IsAsked = e.Kind == kinds.KindQuery && !e.Ref.IsZero()
	return r
}

// findParties returns who sent a message, and to whom.
func findParties(e *client.TrafficEntry) (from, to party) {
	peer := showName(cmp.Or(e.Name, e.Peer.Label()))
	from, to = party{Agent: showName(e.FromAgent)}, party{Agent: showName(e.Agent)}
	if e.Direction == client.Out {
		from.Here, to.Peer = true, peer
	} else {
		from.Peer, to.Here = peer, true
	}
	return from, to
}

func turn(d client.MessageDirection) client.MessageDirection {
	if d == client.Out {
		return client.In
	}
	return client.Out
}

func findDirection(t *client.Task) client.MessageDirection {
	if t.Direction == client.Given {
		return client.Out
	}
	return client.In
}

// newTaskWait describes a delegation that is not among the open calls.
func newTaskWait(t *client.Task) waitingRow {
	r := waitingRow{rowKey: rowKey{"task " + keyTask(t)}, Since: t.Began, Kind: kinds.KindDelegate, Text: showLine(t.Task, maxShown)}
	r.Who, r.Whom = party{Here: true}, party{Peer: showName(t.Peer)}
	if t.Direction == client.Taken {
		r.Who, r.Whom = party{Peer: showName(t.Peer), Agent: showName(t.FromAgent)}, party{Here: true, Agent: showName(t.Agent)}
	}
	return r
}

// newQuestionWait describes a question back about a delegation: whoever works on it waits for whoever
// gave it.
func newQuestionWait(t *client.Task, q *client.QuestionBack, about waitingRow) waitingRow {
	return waitingRow{
		rowKey: rowKey{"question " + t.Peer + " " + q.ID.String()}, Since: q.Since, Kind: kinds.KindQuery, IsAsked: true,
		Who: about.Whom, Whom: about.Who, After: about.Key, Text: showLine(q.Text, maxShown), Thread: about.Thread,
		Missing: about.Missing, MissingSeen: about.MissingSeen,
	}
}
