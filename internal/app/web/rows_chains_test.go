package web

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// TestChains: a row names the one that it follows from, as its caller has named it, says whether that was a guess,
// and has the name of its chain, which joins nothing.
func TestChains(t *testing.T) {
	const chain = "4bf92f3577b34da6a3ce929d0e0e4736"
	call := func(minute int, d client.MessageDirection, from, to string, parent byte) client.TrafficEntry {
		return client.TrafficEntry{
			At: began.Add(time.Duration(minute) * time.Minute), Direction: d, Peer: deskID, Name: "desk", FromAgent: from, Agent: to,
			Kind: kinds.KindQuery, ID: wire.MessageID{15: byte(minute)}, Parent: wire.MessageID{15: parent}, Chain: chain,
		}
	}
	w := work{open: []client.TrafficEntry{call(1, client.Out, "planner", "reviewer", 0), call(2, client.In, "reviewer", "tester", 0), call(3, client.Out, "tester", "clerk", 2), call(4, client.Out, "tester", "scribe", 2)}}
	w.open[3].Guessed = true
	checkChains(t, &w, []string{"", "", "desk/reviewer waits for here:tester", "desk/reviewer waits for here:tester"})
	for i, r := range w.listWaiting() {
		if r.Chain != chain || r.IsGuess != (i == 3) {
			t.Errorf("%+v", r)
		}
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
	w.tasks[0].Question = &client.QuestionBack{ID: wire.MessageID{15: 9}}
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
