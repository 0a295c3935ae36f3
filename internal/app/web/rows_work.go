package web

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
)

type taskRow struct {
	rowKey
	ID        string      `json:"id"`
	Peer      string      `json:"peer"`
	Direction string      `json:"direction"`
	FromAgent string      `json:"from_agent"`
	Agent     string      `json:"agent"`
	Task      string      `json:"task"`
	State     string      `json:"state"`
	Over      bool        `json:"over"`
	Deadline  client.Time `json:"deadline"`
	Outcome   string      `json:"outcome"`
	Progress  *float64    `json:"progress"`
	Message   string      `json:"message"`
	Place     int         `json:"place"` // the newest has 0
	Began     client.Time `json:"began"` // null: an older daemon does not tell it

	Kind      string      `json:"kind"`       // of a message that is or was kept; "": a delegation
	KeptUntil client.Time `json:"kept_until"` // null: it is not kept
	Tries     uint64      `json:"tries"`
	LastError string      `json:"last_error"`

	Abandoned  bool        `json:"abandoned"`   // it has ended only here
	AgentAway  client.Time `json:"agent_away"`  // since when no agent of the name Agent is attached here; null: one is
	AgentUntil client.Time `json:"agent_until"` // until when the delegation waits for one
}

func newTaskRow(t *client.Task, place int) taskRow {
	agent := t.Agent
	if t.Direction == client.Given {
		agent = t.ToAgent
	}
	row := taskRow{
		rowKey: rowKey{keyTask(t)}, Kind: showName(t.Kind), ID: t.ID.String(), Peer: showName(t.Peer), Direction: string(t.Direction),
		FromAgent: showName(t.FromAgent), Agent: showName(agent), Task: showLine(t.Task, maxShown), State: string(t.State), Over: isOver(t),
		Deadline: t.Deadline, Outcome: showLine(t.Outcome, maxShown), Progress: t.Progress, Message: showLine(t.Message, maxShown), Place: place, Began: t.Began,
		Abandoned: t.IsAbandoned(), AgentAway: t.AgentAwaySince, AgentUntil: t.AgentAwaitedUntil,
	}
	if t.Kept != nil {
		row.KeptUntil, row.Tries, row.LastError = t.Kept.Until, t.Kept.Tries, showLine(t.Kept.LastError, maxShown)
	}
	return row
}

// keyTask returns a key that no other delegation has: several peers may choose one id.
func keyTask(t *client.Task) string {
	return string(t.Direction) + " " + t.Peer + " " + t.ID.String()
}

func isOver(t *client.Task) bool { return t.Over || t.State.IsFinal() }

type heldRow struct {
	rowKey           // its number in the inbox
	ID     string    `json:"id"`
	Peer   string    `json:"peer"` // id of the sender
	From   string    `json:"from"`
	Agent  string    `json:"agent"` // of the sender
	For    string    `json:"for"`   // the agent that it waits for; "": any
	Kind   string    `json:"kind"`
	Text   string    `json:"text"`
	Sent   time.Time `json:"sent"` // as the sender says
}

// newHeldRow describes a message of the inbox. names has petnames.
func newHeldRow(m *client.HeldMessage, names map[identity.ID]string) heldRow {
	e := &m.Envelope
	kind, text := e.Kind, client.BeginPeerText(e.Kind, e.Payload)
	if file := m.FileReport(); file != nil {
		kind, text = fileKind, strings.TrimSpace(file.Name+" "+file.Text)
	}
	from := cmp.Or(names[e.From], e.From.Label())
	if client.IsOwnReport(e) {
		from, text = client.OwnReporter, client.DescribeOwnReport(e)
	}
	return heldRow{
		rowKey: rowKey{strconv.FormatUint(m.Seq, 10)}, ID: e.ID.String(), Peer: e.From.String(), From: showName(from), Agent: showName(e.FromAgent), For: showName(m.Agent),
		Kind: showName(kind), Text: showLine(text, maxShown), Sent: time.UnixMilli(int64(min(e.TS, 1<<52))).UTC(),
	}
}

type budgetRow struct {
	rowKey
	Row     string  `json:"row"`
	Peer    string  `json:"peer"` // "": all together
	Unit    string  `json:"unit"`
	Held    int64   `json:"held"`
	Bound   int64   `json:"bound"`
	Part    float64 `json:"part"` // of the bound that is held
	Refused uint64  `json:"refused"`
	What    string  `json:"what"`
	Remedy  string  `json:"remedy"`
}

// listBudget returns what peers that are connected hold or were refused, and what all together hold, those nearest
// to their bounds first. peers has states by ids
// as text; it may be nil. more is how many rows are left out.
func listBudget(b *client.Budget, peers map[string]peerState) (rows []budgetRow, more int) {
	bounds := make(map[string]client.BudgetRow)
	for _, r := range b.Rows {
		bounds[r.Name] = r
		row := budgetRow{
			rowKey: rowKey{r.Name + " "}, Row: showName(r.Name), Unit: r.Unit, Held: r.Held, Bound: r.All, Part: share(r.Held, r.All),
			What: showLine(r.What, maxShown), Remedy: showLine(r.Remedy, maxShown),
		}
		switch {
		case r.Unit == client.UnitBytesFree && r.Held < r.All:
			row.Part = 1
		case r.Unit == client.UnitBytesFree, r.Held == 0:
			continue
		}
		rows = append(rows, row)
	}
	for _, u := range b.Usage {
		isGone := peers != nil && !u.Peer.IsZero() && !peers[u.Peer.String()].connected
		if isGone || u.Held == 0 && u.Refused == 0 {
			continue
		}
		r := bounds[u.Row]
		rows = append(rows, budgetRow{
			rowKey: rowKey{u.Row + " " + u.Peer.String()}, Row: showName(u.Row), Peer: showName(cmp.Or(u.Name, u.Peer.Label())), Unit: r.Unit, Held: u.Held, Bound: r.Peer,
			Part: share(u.Held, r.Peer), Refused: u.Refused, What: showLine(r.What, maxShown), Remedy: showLine(r.Remedy, maxShown),
		})
	}
	slices.SortStableFunc(rows, func(a, b budgetRow) int {
		return cmp.Or(cmp.Compare(b.Part, a.Part), cmp.Compare(b.Refused, a.Refused), cmp.Compare(a.Row, b.Row))
	})
	const most = 60
	more = max(0, len(rows)-most)
	return rows[:min(len(rows), most)], more
}

// share returns which part of a bound is held, in hundredths; 0 without a bound.
func share(held, bound int64) float64 {
	if bound <= 0 {
		return 0
	}
	return float64(min(held, bound)*100/bound) / 100
}

type bindingRow struct {
	rowKey
	Project string `json:"project"`
	Agent   string `json:"agent"`
	Peer    string `json:"peer"`
	Mode    string `json:"mode"`
}

type mailRow struct {
	rowKey
	Project string    `json:"project"`
	Agent   string    `json:"agent"`
	Peer    string    `json:"peer"`
	File    string    `json:"file"`
	Size    int64     `json:"size"`
	State   string    `json:"state"`
	Reason  string    `json:"reason"`
	Since   time.Time `json:"since"`
}

func newBindingRow(b *client.OACPBinding) bindingRow {
	return bindingRow{rowKey: rowKey{b.Project + "/" + b.Agent}, Project: showName(b.Project), Agent: showName(b.Agent), Peer: showName(b.Peer), Mode: string(b.Mode)}
}

func newMailRow(m *client.OACPQueued) mailRow {
	return mailRow{
		rowKey: rowKey{m.Project + "/" + m.Agent + "/" + m.File}, Project: showName(m.Project), Agent: showName(m.Agent), Peer: showName(m.Peer),
		File: showLine(m.File, maxShown), Size: m.Size, State: string(m.State), Reason: showLine(m.Reason, maxShown), Since: m.Since,
	}
}
