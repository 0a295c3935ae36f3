package web

import (
	"cmp"
	"time"

	"github.com/acpd/acpd/client"
)

// approvalRow is a message that needs the owner's approval before it wakes a session, or that has it and waits for its
// turn, or a file that needs it before it comes. All of the row is about that message, since the row has the buttons.
type approvalRow struct {
	rowKey            // the approval's id
	Since   time.Time `json:"since"`
	Kind    string    `json:"kind"`
	Peer    string    `json:"peer"`
	Agent   string    `json:"agent"` // of the peer, as the peer says; "": it names none
	Session string    `json:"session"`
	Text    string    `json:"text"`
	Rule    string    `json:"rule"` // what holds once the owner has said always

	Approved  bool        `json:"approved"`
	KeptBy    string      `json:"kept_by"`
	KeptUntil client.Time `json:"kept_until"`
}

// fileKind is the kind of an approval that is about a file, which wakes no session.
const fileKind = "file"

// listApprovals returns the messages that need the owner's approval, or have it, the oldest first.
func (w *work) listApprovals() []approvalRow {
	rows := make([]approvalRow, 0, len(w.approvals))
	for i := range w.approvals {
		a := &w.approvals[i]
		r := approvalRow{
			rowKey: rowKey{a.ID}, Since: a.Since, Kind: showName(a.Kind), Peer: showName(cmp.Or(a.Name, a.Peer.Label())),
			Session: showName(a.Agent), Text: showLine(a.Text, maxShown), Approved: a.Approved, KeptBy: showLine(a.KeptBy, maxShown), KeptUntil: a.KeptUntil,
		}
		r.Agent = showName(w.findAsker(a))
		r.Rule = "Every " + isolate(r.Kind) + " of " + isolate(r.Peer) + ", of any agent there, wakes " + isolate(r.Session) + " without asking, those that wait included"
		if r.Kind == fileKind {
			r.Rule = "Every file of " + isolate(r.Peer) + " comes without asking, those that wait included"
		}
		rows = append(rows, r)
	}
	return rows
}

// isolate keeps the direction of a name from what stands around it (UAX #9, section 2.5). showName has
// taken such characters out of the name itself.
func isolate(name string) string { return "\u2068" + name + "\u2069" }

// findAsker returns which agent at the peer has sent what an approval is about, as the peer says; "" if
// it names none, or if several calls could be meant.
func (w *work) findAsker(a *client.Approval) (agent string) {
	found := 0
	for i := range w.open {
		if e := &w.open[i]; isApprovalOf(a, e) {
			agent = e.FromAgent
			found++
		}
	}
	if found > 1 {
		return ""
	}
	return agent
}

// isApprovalOf reports whether an approval is that of an open call: peers choose ids, and may choose one again
// for another agent.
func isApprovalOf(a *client.Approval, e *client.TrafficEntry) bool {
	return e.Direction == client.In && a.Message == e.ID && a.Peer == e.Peer && a.Kind == e.Kind && a.Agent == e.Agent
}

// needsApproval reports whether an open call is one of those that listApprovals has.
func (w *work) needsApproval(e *client.TrafficEntry) bool {
	for i := range w.approvals {
		if isApprovalOf(&w.approvals[i], e) {
			return true
		}
	}
	return false
}
