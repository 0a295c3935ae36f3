package web

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

var (
	deskID  = identity.ID{0xde, 0x5c, 31: 1}
	buildID = identity.ID{0xb1, 0xd0, 31: 1}
	began   = time.Date(2026, 11, 27, 0, 30, 0, 0, time.UTC)
)

// describe returns a row as a person would say it.
func describe(r waitingRow) string {
	name := func(p party) string {
		if p.Here {
			return "here:" + p.Agent
		}
		return p.Peer + "/" + p.Agent
	}
	s := fmt.Sprintf("%s waits for %s: %s %s", name(r.Who), name(r.Whom), r.Kind, r.Text)
	if !r.Since.IsZero() {
		s += " since " + r.Since.Sub(began).String()
	}
	if r.Progress != nil {
		s += fmt.Sprintf(" %.2f %s", *r.Progress, r.Message)
	}
	if r.IsAsked {
		s += " (asked back)"
	}
	if r.Missing != "" {
		s += " (without " + r.Missing + ")"
	}
	return s
}

// TestWaiting: who waits for whom follows from what is open, whoever has told of it. Each call is there once, and not
// at all if it needs the owner's approval.
func TestWaiting(t *testing.T) {
	id := func(n byte) wire.MessageID { return wire.MessageID{15: n} }
	half := 0.5
	at := func(minutes int) time.Time { return began.Add(time.Duration(minutes) * time.Minute) }
	w := work{
		open: []client.TrafficEntry{
			{At: at(5), Direction: client.In, Peer: deskID, Name: "desk", FromAgent: "reviewer", Agent: "planner", Kind: kinds.KindQuery, ID: id(1), Text: "merge?"},
			{At: at(2), Direction: client.Out, Peer: deskID, Name: "desk", FromAgent: "planner", Kind: kinds.KindDelegate, ID: id(2), Text: "build"},
			{At: at(7), Direction: client.Out, Peer: deskID, Kind: kinds.KindQuery, ID: id(3), Text: "hello"},
			{At: at(8), Direction: client.In, Peer: deskID, Name: "desk", FromAgent: "builder", Agent: "planner", Kind: kinds.KindQuery, ID: id(9), Ref: id(2), Text: "which one?"},
		},
		tasks: []client.Task{
			{ID: id(2), Peer: "desk", Direction: client.Given, State: client.TaskAccepted, Task: "build", Progress: &half, Message: "linking", Question: &client.QuestionBack{ID: id(9), Text: "which one?"}},
			{ID: id(4), Peer: "desk", Direction: client.Given, State: client.TaskCompleted, Task: "done"},
			{ID: id(5), Peer: "desk", Direction: client.Taken, FromAgent: "planner", Agent: "tester", State: client.TaskAccepted, Task: "test", Began: client.Time{Time: at(1)}},
			{ID: id(6), Peer: "desk", Direction: client.Given, State: client.TaskAccepted, Over: true, Task: "no report is wanted"},
			{ID: id(7), Peer: "laptop", Direction: client.Given, State: client.TaskAccepted, Task: "look", Question: &client.QuestionBack{ID: id(8), Text: "where?", Since: client.Time{Time: at(9)}}},
		},
		approvals: []client.Approval{
			{ID: "a1", Agent: "planner", Peer: deskID, Name: "desk", Kind: kinds.KindQuery, Message: id(1), Text: "merge?", Since: at(5)},
			{ID: "a2", Agent: "planner", Peer: deskID, Name: "desk", Kind: kinds.KindNotify, Message: id(10), Text: "news", Since: at(1), Approved: true},
		},
	}
	var got []string
	for _, r := range w.listWaiting() {
		got = append(got, describe(r))
	}
	want := []string{
		"here: waits for laptop/: delegate look",
		"desk/planner waits for here:tester: delegate test since 1m0s",
		"here:planner waits for desk/: delegate build since 2m0s 0.50 linking",
		"here: waits for de5c000000/: query hello since 7m0s",
		"desk/builder waits for here:planner: query which one? since 8m0s (asked back)",
		"laptop/ waits for here:: query where? since 9m0s (asked back)",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestMissing: a call with a peer that is not connected says so, and a question back with it too.
func TestMissing(t *testing.T) {
	w := work{
		open:  []client.TrafficEntry{{At: began, Direction: client.Out, Peer: buildID, Name: "build", Kind: kinds.KindQuery, ID: wire.MessageID{2}}},
		tasks: []client.Task{{ID: wire.MessageID{3}, Peer: "desk", Direction: client.Given, State: client.TaskAccepted, Question: &client.QuestionBack{ID: wire.MessageID{4}}}},
	}
	for what, c := range map[string]struct {
		peers map[string]peerState
		want  []string
	}{
		"nobody knows of peers yet": {},
		"one is not connected":      {mapPeers([]client.Peer{{ID: deskID, Name: "desk", State: client.PeerConnected}, {ID: buildID, State: client.PeerTrusted}}), []string{"build"}},
		"none is connected":         {mapPeers([]client.Peer{{ID: deskID, Name: "desk", State: client.PeerTrusted}}), []string{"desk", "desk", "build"}},
	} {
		w.peers = c.peers
		var got []string
		for _, r := range w.listWaiting() {
			if r.Missing != "" {
				got = append(got, r.Missing)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q", what, got)
		}
	}
}

// TestWaitingSharesNoID: ids are the peers' choice, and no call hides another one.
// holds: security.md#the-page-of-acpctl-web
func TestWaitingSharesNoID(t *testing.T) {
	id, laptopID := wire.MessageID{15: 1}, identity.ID{0x1a, 0x70, 31: 1}
	w := work{
		open: []client.TrafficEntry{
			{At: began, Direction: client.In, Peer: deskID, Name: "desk", Kind: kinds.KindQuery, ID: id, Text: "another peer's"},
			{At: began, Direction: client.In, Peer: laptopID, Name: "laptop", Kind: kinds.KindQuery, ID: id, Text: "of another kind"},
			{At: began, Direction: client.In, Peer: laptopID, Name: "laptop", Agent: "planner", Kind: kinds.KindDelegate, ID: id, Text: "for a session"},
			{At: began, Direction: client.In, Peer: laptopID, Name: "laptop", Agent: "tester", Kind: kinds.KindDelegate, ID: id, Text: "for another agent"},
		},
		tasks: []client.Task{
			{ID: id, Peer: "desk", Direction: client.Taken, State: client.TaskAccepted, Task: "test"},
			{ID: id, Peer: "build", Direction: client.Taken, State: client.TaskAccepted, Task: "build"},
			{ID: id, Peer: "laptop", Direction: client.Given, State: client.TaskAccepted, Task: "look"},
		},
		approvals: []client.Approval{
			{ID: "a1", Agent: "planner", Peer: laptopID, Name: "laptop", Kind: kinds.KindNotify, Message: id, Since: began},
			{ID: "a2", Agent: "planner", Peer: laptopID, Name: "laptop", Kind: kinds.KindDelegate, Message: id, Since: began},
		},
	}
	got, keys := make(map[string]bool), make(map[string]bool)
	for _, r := range w.listWaiting() {
		got[describe(r)], keys[r.Key] = true, true
	}
	want := map[string]bool{
		"laptop/ waits for here:tester: delegate for another agent since 0s": true,
		"desk/ waits for here:: query another peer's since 0s":               true,
		"laptop/ waits for here:: query of another kind since 0s":            true,
		"desk/ waits for here:: delegate test":                               true,
		"build/ waits for here:: delegate build":                             true,
		"here: waits for laptop/: delegate look":                             true,
	}
	if diff := cmp.Diff(want, got); diff != "" || len(keys) != len(want) {
		t.Error(diff, len(keys))
	}
	rows := make(map[string]bool)
	for i := range w.tasks {
		rows[newTaskRow(&w.tasks[i], i).Key] = true
	}
	if len(rows) != len(w.tasks) {
		t.Errorf("%d rows of %d delegations", len(rows), len(w.tasks))
	}
}

// TestWaitingHasMore: the page is told of open calls for which the daemon's answer had no room.
func TestWaitingHasMore(t *testing.T) {
	b := newBoard()
	newWatcher(Options{Socket: "/nowhere/acp.sock"}, b).setWork(func(k *work) { k.open, k.openMore = []client.TrafficEntry{{At: began, Peer: deskID}}, 3 })
	if p := b.parts[partWaiting]; len(p.rows) != 1 || p.more != 3 {
		t.Errorf("%d rows, and %d more", len(p.rows), p.more)
	}
}

// holds: security.md#the-page-of-acpctl-web
func TestShowLine(t *testing.T) {
	for _, s := range []string{"", "desk", "a\nb\tc", "\x1b[31mred\x1b[0m", strings.Repeat("é", 200), "\u202egpj.exe", string([]byte{0xff, 0xfe}), strings.Repeat("\u200b", 9000) + "x", strings.Repeat("👩‍👩‍👧‍👦", 99)} {
		for _, most := range []int{maxName, maxShown} {
			got := showLine(s, most)
			if len(got) > most || !utf8.ValidString(got) || strings.ContainsAny(got, "\n\t\x1b\u202e") {
				t.Errorf("%q became %q", s, got)
			}
		}
	}
	if got := showLine("desk", maxName); got != "desk" {
		t.Error(got)
	}
	if got := showLine("n"+strings.Repeat("\u0323", 31)+"ext", maxName); got != "n\u0323\u0323\u0323\u0323ext" {
		t.Errorf("%+q", got)
	}
	if got := showNames(strings.Split("a,b,c,d,e,f,g,h,i,j", ",")); len(got) != 9 || got[8] != "+2" {
		t.Error(got)
	}
}

// TestBudgetRows: what is nearest to its bound comes first, and what has no bound last; what is not used
// is left out, and so are peers that are not connected.
func TestBudgetRows(t *testing.T) {
	rows, more := listBudget(&client.Budget{
		Rows: []client.BudgetRow{
			{Name: "inbox", Peer: 100, All: 1000, Held: 90}, {Name: "streams", Peer: 10, All: 0, Held: 1}, {Name: "disk", Unit: client.UnitBytesFree, All: 100, Held: 50}, {Name: "free", Unit: client.UnitBytesFree, All: 100, Held: 500},
			{Name: "results", All: 100, Held: 60},
		},
		Usage: []client.BudgetUsage{{Row: "inbox", Peer: deskID, Name: "desk", Held: 90}, {Row: "streams", Peer: deskID, Name: "desk", Held: 1, Refused: 4}, {Row: "results", Peer: deskID, Held: 3}, {Row: "results", Peer: buildID, Held: 99}, {Row: "held", Peer: deskID}},
	}, map[string]peerState{deskID.String(): {connected: true}, buildID.String(): {}})
	var got []string
	for _, r := range rows {
		got = append(got, fmt.Sprintf("%s %s %.2f", r.Row, r.Peer, r.Part))
	}
	want := []string{"disk  1.00", "inbox desk 0.90", "results  0.60", "streams desk 0.10", "inbox  0.09", "results de5c000000 0.00", "streams  0.00"}
	if diff := cmp.Diff(want, got); diff != "" || more != 0 {
		t.Error(diff, more)
	}
}

// TestEventLine: what an event says is one harmless line of the page's length.
func TestEventLine(t *testing.T) {
	l := newEventLine(&client.Event{Type: client.EventDown, Peer: deskID, Details: []byte(`{"reason":"\u001b[31m` + strings.Repeat("x", 2*maxShown) + `"}`)})
	if l.Peer != deskID.Label() || len(l.Text) > maxShown || !strings.HasPrefix(l.Text, "xxx") {
		t.Errorf("%+v", l)
	}
}

// TestTimeOfMessage: a message has the time at which it ended, as messages stand in that order.
func TestTimeOfMessage(t *testing.T) {
	if got := newMessageLine(&client.TrafficEntry{At: began, TookUS: 2_500_000}).At.Sub(began); got != 2500*time.Millisecond {
		t.Errorf("%v after it began", got)
	}
}

func TestRoundRTT(t *testing.T) {
	for us, want := range map[uint64]uint64{0: 0, 7: 7, 99: 99, 101: 100, 1234: 1200, 98765: 98000} {
		if got := roundRTT(&us); *got != want {
			t.Errorf("%d: %d", us, *got)
		}
	}
	if roundRTT(nil) != nil {
		t.Error("none became one")
	}
}

// TestWarnings: a warning is there once, and none that is about approvals, which have rows of their own.
func TestWarnings(t *testing.T) {
	rows := listWarnings(&client.Status{Unready: []string{"the disk is full"}, Warnings: []string{"the disk is full", "1 message for planner waits for the owner's approval: " + client.ApprovalsCommand, "nobody is trusted"}})
	var got []string
	for _, r := range rows {
		got = append(got, r.Text)
	}
	if diff := cmp.Diff([]string{"the disk is full", "nobody is trusted"}, got); diff != "" {
		t.Error(diff)
	}
}
