package web

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// TestChains: a call stands behind the one that it follows from, by the agents, thread and hops of both, and
// behind none if that may be several.
func TestChains(t *testing.T) {
	call := func(minute int, d client.MessageDirection, peer, from, to string, hops uint64, thread string) client.TrafficEntry {
		e := client.TrafficEntry{
			At: began.Add(time.Duration(minute) * time.Minute), Direction: d, Peer: deskID, Name: peer, FromAgent: from, Agent: to,
			Kind: kinds.KindQuery, ID: wire.MessageID{15: byte(minute)}, Hops: hops, Thread: thread,
		}
		if peer == "build" {
			e.Peer = buildID
		}
		return e
	}
	const in, out = client.In, client.Out
	for name, c := range map[string]struct {
		open []client.TrafficEntry
		want []string // what each follows from
	}{
		"a chain": {
			[]client.TrafficEntry{call(1, in, "desk", "planner", "reviewer", 0, ""), call(2, out, "build", "reviewer", "tester", 1, "")},
			[]string{"", "desk/planner waits for here:reviewer"},
		},
		"through a peer, and back": {
			[]client.TrafficEntry{call(1, out, "desk", "planner", "reviewer", 0, "t"), call(2, in, "desk", "reviewer", "tester", 1, "t"), call(3, out, "build", "tester", "clerk", 2, "t")},
			[]string{"", "here:planner waits for desk/reviewer", "desk/reviewer waits for here:tester"},
		},
		"without a parent": {
			[]client.TrafficEntry{call(1, in, "desk", "planner", "reviewer", 0, ""), call(2, out, "build", "reviewer", "tester", 0, "")},
			[]string{"", ""},
		},
		"hops that do not fit": {
			[]client.TrafficEntry{call(1, in, "desk", "planner", "reviewer", 3, ""), call(2, out, "build", "reviewer", "tester", 1, "")},
			[]string{"", ""},
		},
		"hops tell which of two": {
			[]client.TrafficEntry{call(1, in, "desk", "planner", "reviewer", 0, ""), call(2, in, "build", "clerk", "reviewer", 2, ""), call(3, out, "build", "reviewer", "tester", 1, "")},
			[]string{"", "", "desk/planner waits for here:reviewer"},
		},
		"another thread": {
			[]client.TrafficEntry{call(1, in, "desk", "planner", "reviewer", 0, "a"), call(2, out, "build", "reviewer", "tester", 1, "b")},
			[]string{"", ""},
		},
		"another agent": {
			[]client.TrafficEntry{call(1, in, "desk", "planner", "reviewer", 0, ""), call(2, out, "build", "clerk", "tester", 1, "")},
			[]string{"", ""},
		},
		"another peer": {
			[]client.TrafficEntry{call(1, out, "desk", "planner", "reviewer", 0, ""), call(2, in, "build", "reviewer", "tester", 1, "")},
			[]string{"", ""},
		},
		"without names": {
			[]client.TrafficEntry{call(1, in, "desk", "", "", 0, ""), call(2, out, "build", "", "", 1, "")},
			[]string{"", ""},
		},
		"it is older": {
			[]client.TrafficEntry{call(3, in, "desk", "planner", "reviewer", 0, ""), call(2, out, "build", "reviewer", "tester", 1, "")},
			[]string{"", ""},
		},
		"which of two": {
			[]client.TrafficEntry{call(1, in, "desk", "planner", "reviewer", 0, ""), call(2, in, "build", "clerk", "reviewer", 0, ""), call(3, out, "build", "reviewer", "tester", 1, "")},
			[]string{"", "", ""},
		},
		"two that follow": {
			[]client.TrafficEntry{call(1, in, "desk", "planner", "reviewer", 0, ""), call(2, out, "build", "reviewer", "tester", 1, ""), call(3, out, "desk", "reviewer", "clerk", 1, "")},
			[]string{"", "desk/planner waits for here:reviewer", "desk/planner waits for here:reviewer"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := work{open: c.open}
			checkChains(t, &w, c.want)
		})
	}
}

// TestQuestionsAreChains: a question about a delegation stands behind it, whoever has told of either, and behind
// no delegation of another peer with that id.
func TestQuestionsAreChains(t *testing.T) {
	id := wire.MessageID{15: 1}
	ask := client.TrafficEntry{At: began.Add(time.Minute), Direction: client.In, Peer: deskID, Name: "desk", FromAgent: "tester", Agent: "planner", Kind: kinds.KindQuery, ID: wire.MessageID{15: 2}, Ref: id, Hops: 1}
	w := work{
		open:  []client.TrafficEntry{{At: began, Direction: client.Out, Peer: deskID, Name: "desk", FromAgent: "planner", Kind: kinds.KindDelegate, ID: id}, ask},
		tasks: []client.Task{{ID: id, Peer: "desk", Direction: client.Given, State: client.TaskAccepted}},
	}
	checkChains(t, &w, []string{"", "here:planner waits for desk/"})
	w.tasks[0].Question = &client.Question{ID: wire.MessageID{15: 9}}
	w.open = w.open[:1]
	checkChains(t, &w, []string{"here:planner waits for desk/", ""})
	w.open = []client.TrafficEntry{ask}
	w.tasks[0].Question = nil
	checkChains(t, &w, []string{"", "here: waits for desk/"})
	w.tasks[0].Peer = "build"
	checkChains(t, &w, []string{"", ""})
}

// checkChains compares what each row follows from, in the order of the rows.
func checkChains(t *testing.T, w *work, want []string) {
	t.Helper()
	rows := w.listWaiting()
	pairs := map[string]string{"": ""}
	for _, r := range rows {
		name := func(p party) string {
			if p.Here {
				return "here:" + p.Agent
			}
			return p.Peer + "/" + p.Agent
		}
		pairs[r.Key] = name(r.Who) + " waits for " + name(r.Whom)
	}
	var got []string
	for _, r := range rows {
		got = append(got, pairs[r.After])
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
