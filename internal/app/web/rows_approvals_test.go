package web

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// TestApprovalsHaveRows: each approval has a row of its own, however many calls are open and whatever ids
// they have, and says of its message alone what stands beside its buttons.
// holds: security.md#the-page-of-acpctl-web
func TestApprovalsHaveRows(t *testing.T) {
	id, other := wire.MessageID{15: 1}, wire.MessageID{15: 2}
	open := func(from, to string, kind string, id wire.MessageID, text string) client.TrafficEntry {
		return client.TrafficEntry{At: began, Direction: client.In, Peer: deskID, Name: "desk", FromAgent: from, Agent: to, Kind: kind, ID: id, Text: text}
	}
	w := work{
		open: []client.TrafficEntry{
			open("reviewer", "planner", kinds.KindQuery, id, "not what wakes it"),
			open("lunch", "tester", kinds.KindQuery, id, "for another agent"),
			open("builder", "planner", kinds.KindDelegate, id, "of another kind"),
			{At: began, Direction: client.In, Peer: buildID, FromAgent: "thief", Agent: "planner", Kind: kinds.KindQuery, ID: id, Text: "of another peer"},
			{At: began, Direction: client.Out, Peer: deskID, FromAgent: "clerk", Agent: "planner", Kind: kinds.KindQuery, ID: id, Text: "from here"},
			open("one", "planner", kinds.KindQuery, other, "the same twice"),
			open("two", "planner", kinds.KindQuery, other, "the same twice"),
		},
		approvals: []client.Approval{
			{ID: "1", Agent: "planner", Peer: deskID, Name: "desk", Kind: kinds.KindQuery, Message: id, Text: "merge?", Since: began},
			{ID: "2", Agent: "writer", Peer: deskID, Name: "desk", Kind: kinds.KindQuery, Message: id, Text: "for another session", Since: began},
			{ID: "3", Agent: "planner", Peer: deskID, Name: "desk", Kind: kinds.KindQuery, Message: other, Text: "whose?", Since: began},
			{ID: "4", Agent: "planner", Peer: buildID, Kind: kinds.KindNotify, Message: id, Text: "a\nb", Since: began, Approved: true, KeptBy: "a bound"},
		},
	}
	for i := range 2 * maxRows {
		w.open = append(w.open, open("", "", kinds.KindQuery, wire.MessageID{1, byte(i >> 8), byte(i)}, ""))
	}
	b := newBoard()
	k := &watcher{board: b}
	k.setWork(func(now *work) { *now = w })
	if n := len(b.parts[partApprovals].rows); n != 4 || b.parts[partApprovals].more != 0 {
		t.Errorf("%d rows, and %d more", n, b.parts[partApprovals].more)
	}
	var got []string
	for _, r := range w.listApprovals() {
		got = append(got, fmt.Sprintf("%s: %s of %s/%s for %s: %s, %v %s", r.Key, r.Kind, r.Peer, r.Agent, r.Session, r.Text, r.Approved, r.KeptBy))
	}
	want := []string{
		"1: query of desk/reviewer for planner: merge?, false ",
		"2: query of desk/ for writer: for another session, false ",
		"3: query of desk/ for planner: whose?, false ",
		"4: notify of b1d0000000/ for planner: a b, true a bound",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestRuleIsOfThePeer: what an owner reads before they say always is what the daemon then allows. The agent
// is the peer's word, and no part of it.
// holds: security.md#the-page-of-acpctl-web
func TestRuleIsOfThePeer(t *testing.T) {
	w := work{
		open:      []client.TrafficEntry{{Direction: client.In, Peer: deskID, Name: "desk", FromAgent: "release-notes", Agent: "planner", Kind: kinds.KindQuery, ID: wire.MessageID{1}}},
		approvals: []client.Approval{{ID: "1", Agent: "planner", Peer: deskID, Name: "desk", Kind: kinds.KindQuery, Message: wire.MessageID{1}}},
	}
	r := w.listApprovals()[0]
	plain := strings.NewReplacer("\u2068", "", "\u2069", "").Replace(r.Rule)
	if r.Agent != "release-notes" || plain != "Every query of desk, of any agent there, wakes planner without asking, those that wait included" {
		t.Errorf("%q of %q", plain, r.Agent)
	}
	w.approvals[0] = client.Approval{ID: "f1", Peer: deskID, Name: "desk", Kind: fileKind, Message: wire.MessageID{2}}
	if r := w.listApprovals()[0]; strings.NewReplacer("\u2068", "", "\u2069", "").Replace(r.Rule) != "Every file of desk comes without asking, those that wait included" {
		t.Errorf("%q", r.Rule)
	}
}
