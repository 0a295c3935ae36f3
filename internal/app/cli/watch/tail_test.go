package watch

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/internal/app/cli/clitest"
	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/internal/app/cli/ui"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

var noon = time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)

// tailed has a daemon give these answers to traffic one after the other, and then none.
func tailed(t *testing.T, answers ...any) (f *clitest.FakeDaemon, asked func() []client.TrafficParams) {
	t.Helper()
	f = newDaemon(t)
	ended := make(chan struct{})
	t.Cleanup(func() { close(ended) })
	var mu sync.Mutex
	var params []client.TrafficParams
	f.SetHandler(client.MethodTraffic, func(r *jsonrpc.Request) (any, error) {
		var p client.TrafficParams
		if err := r.ReadParams(&p); err != nil {
			t.Error(err)
		}
		mu.Lock()
		n := len(params)
		params = append(params, p)
		mu.Unlock()
		if n >= len(answers) {
			<-ended
			return nil, kinds.Errorf(kinds.Cancelled, "it ends")
		}
		if err, ok := answers[n].(error); ok {
			return nil, err
		}
		return answers[n], nil
	})
	f.SetAnswer(client.MethodSubscribe, struct{}{})
	return f, func() []client.TrafficParams {
		mu.Lock()
		defer mu.Unlock()
		return params
	}
}

func at(ms int, e client.TrafficEntry) client.TrafficEntry {
	e.ID = clitest.SomeID
	e.At = noon.Add(time.Duration(ms)*time.Millisecond - time.Duration(e.TookUS)*time.Microsecond)
	return e
}

// Messages stand in the order in which they ended, with what was lost, and an interrupt is how it ends.
func TestTailPrintsWhatPasses(t *testing.T) {
	f, asked := tailed(t,
		&client.TrafficAnswer{Next: 7},
		&client.TrafficAnswer{Next: 12, Lost: 3, Entries: []client.TrafficEntry{
			at(5, client.TrafficEntry{Direction: client.Out, Peer: clitest.DeskID, Name: "desk", FromAgent: "planner", Agent: "reviewer", Kind: "query", Text: "Which branch?", Answer: "main", Outcome: "ok", TookUS: 1_234_567}),
			at(9, client.TrafficEntry{Direction: client.In, Peer: clitest.DeskID, Kind: "notify", Thread: "release\n7", Topic: "ci.test", Text: "green", Outcome: "held", TookUS: 7}),
		}},
		&client.TrafficAnswer{Next: 13, Entries: []client.TrafficEntry{
			at(20, client.TrafficEntry{Direction: client.In, Peer: clitest.DeskID, Name: "desk", Kind: "delegate", Ref: clitest.SomeID, Outcome: "timeout", TookUS: 90_000_000, Payload: wire.Payload("{\"task\":\n\"x\"}"), AnswerPayload: wire.Payload("{}")}),
		}})
	got := f.RunUntil(ui.Terminal{}, 9, "tail", "desk", "--kind", "query,notify", "--kind", "delegate", "--topic", "ci", "--thread", "a,b", "--agent", "planner", "--payload")
	const id = "  id 3f2b8c1e-6f0a-4d3c-9e57-010203040506"
	const want = "lost 3\n" +
		"2026-11-27T12:00:00.005Z\tplanner\t→\tdesk/reviewer\tquery\tWhich branch?\tmain\tok\t1.23s\n" + id + "\n" +
		"2026-11-27T12:00:00.009Z\t-\t←\tde5c000000\tnotify\tci.test green\t-\theld\t7µs\n" + id + " thread \"release\\n7\"\n" +
		"2026-11-27T12:00:00.020Z\t-\t←\tdesk\tdelegate\t-\t-\ttimeout\t1m30s\n" + id + " ref 3f2b8c1e-6f0a-4d3c-9e57-010203040506\n" +
		"  {\"task\":\"x\"}\n  ⇒ {}\n"
	f.WantResult(got, 0, want, "")
	p := asked()
	if len(p) < 3 || p[0].WaitMS != 0 || p[1].After != 7 || p[2].After != 12 || p[1].WaitMS != 30_000 {
		t.Errorf("%+v", p)
	}
	if q := p[1]; strings.Join(q.Kinds, " ") != "query notify delegate" || q.Topics[0] != "ci" || q.Threads[0] != "a,b" || q.Agents[0] != "planner" || q.Peers[0] != "desk" || !q.Payload {
		t.Errorf("%+v", q)
	}
}

// Events come among the messages, by another way.
func TestTailPrintsEvents(t *testing.T) {
	f := newDaemon(t)
	happened := make(chan struct{})
	calls := 0
	f.SetHandler(client.MethodTraffic, func(*jsonrpc.Request) (any, error) {
		switch calls++; calls {
		case 1:
			return &client.TrafficAnswer{Next: 1}, nil
		case 2:
			<-happened
			entry := func(before time.Duration, text string) client.TrafficEntry {
				return client.TrafficEntry{At: time.Now().Add(-before), Peer: clitest.DeskID, Name: "desk", Kind: "query", ID: clitest.SomeID, Text: text, Outcome: "ok"}
			}
			return &client.TrafficAnswer{Next: 3, Entries: []client.TrafficEntry{entry(20*time.Millisecond, "first"), entry(0, "last")}}, nil
		}
		<-t.Context().Done()
		return nil, kinds.Errorf(kinds.Cancelled, "it ends")
	})
	var wanted client.SubscribeParams
	f.SetHandler(client.MethodSubscribe, func(r *jsonrpc.Request) (any, error) {
		if err := r.ReadParams(&wanted); err != nil {
			t.Error(err)
		}
		go func() {
			defer close(happened)
			f.SubscribedConn().Notify(client.NotificationEvent, &client.Event{
				Type: client.EventUp, Peer: clitest.DeskID, Name: "desk\x1b[31m", At: time.Now().Add(-10 * time.Millisecond), Details: jsontext.Value(`{"addr":"192.0.2.1:7117","n":[1]}`),
			})
		}()
		return struct{}{}, nil
	})
	got := f.RunUntil(ui.Terminal{}, 3, "tail", "desk")
	out := got.Out
	if strings.Count(out, "\n") != 3 || !strings.Contains(out, "\tfirst\t") || !strings.Contains(out, "Z\t-\t·\tdesk\tup\t192.0.2.1:7117 · n [1]\t-\t-\t-\n") || !strings.Contains(out, "\tlast\t") {
		t.Errorf("%q", out)
	}
	if got.Code != 0 || got.Err != "" || !wanted.Events.All || len(wanted.Peers) != 1 || wanted.Peers[0] != "desk" || len(wanted.Kinds) != 1 {
		t.Errorf("%+v, %+v", got, wanted)
	}
}

// What is held stands in the order in which it ended, whichever way it came, and is printed when it has been
// held for its time.
func TestTailHoldsAnOrder(t *testing.T) {
	var out strings.Builder
	tl := &tail{Frame: &frame.Frame{Terminal: ui.Terminal{Out: &out}}}
	begun := time.Now().Add(-time.Hour).Truncate(time.Second)
	event := func(ms int) tailItem {
		at := begun.Add(time.Duration(ms) * time.Millisecond)
		return tailItem{at: at, event: &client.Event{Type: client.EventUp, Name: "desk", At: at}}
	}
	entry := func(ms int) client.TrafficEntry {
		return client.TrafficEntry{At: begun.Add(time.Duration(ms-1) * time.Millisecond), Peer: clitest.DeskID, Name: "desk", Kind: "query", Outcome: "ok", TookUS: 1000}
	}
	tl.held = append(tl.held, event(30), event(10))
	tl.holdAnswer(&client.TrafficAnswer{Next: 4, Entries: []client.TrafficEntry{entry(5), entry(20), entry(40)}})
	printed := func(before time.Time) (times []string) {
		out.Reset()
		tl.printHeld(before)
		for line := range strings.Lines(out.String()) {
			fields := strings.Split(line, "\t")
			times = append(times, fields[0][len("2026-11-27T12:00:00."):]+" "+fields[4])
		}
		return times
	}
	if got := strings.Join(printed(begun.Add(30*time.Millisecond)), ", "); got != "005Z query, 010Z up, 020Z query" {
		t.Error(got)
	}
	if got := strings.Join(printed(time.Time{}), ", "); got != "030Z up, 040Z query" {
		t.Error(got)
	}
}

// PEER/AGENT is an agent there alone, also if one here has its name.
func TestTailOfAnAgent(t *testing.T) {
	entry := func(d client.MessageDirection, from, to string) client.TrafficEntry {
		return at(1, client.TrafficEntry{Direction: d, Peer: clitest.DeskID, Name: "desk", FromAgent: from, Agent: to, Kind: "query", Outcome: "ok"})
	}
	f, asked := tailed(t, &client.TrafficAnswer{Next: 5, Entries: []client.TrafficEntry{
		entry(client.Out, "planner", "reviewer"), entry(client.In, "tester", "reviewer"), entry(client.In, "reviewer", "planner"),
	}})
	got := f.RunUntil(ui.Terminal{}, 2, "tail", "desk/reviewer")
	if strings.Count(got.Out, "\tdesk/reviewer\t") != 2 || strings.Contains(got.Out, "tester") || got.Code != 0 {
		t.Errorf("%+v", got)
	}
	if p := asked()[0]; len(p.Peers) != 1 || p.Peers[0] != "desk" || len(p.Agents) != 1 || p.Agents[0] != "reviewer" {
		t.Errorf("%+v", p)
	}
}

func TestTailAsJSON(t *testing.T) {
	e := client.TrafficEntry{Seq: 9, At: noon, Direction: client.In, Peer: clitest.DeskID, Name: "desk", Kind: "query", ID: clitest.SomeID, Text: "\u202e", Outcome: "ok", Payload: wire.Payload(`{"question":"\u202e"}`)}
	f, _ := tailed(t, &client.TrafficAnswer{Next: 9, Lost: 2, Entries: []client.TrafficEntry{e}})
	got := f.RunUntil(ui.Terminal{}, 2, "tail", "--json")
	const want = `{"lost":2}` + "\n" + `{"entry":{"seq":9,"at":"2026-11-27T12:00:00Z","direction":"in","peer":"de5c000000000000000000000000000000000000000000000000000000000001","name":"desk","kind":"query","id":"3f2b8c1e-6f0a-4d3c-9e57-010203040506",` +
		`"text":"\u202e","bytes":0,"outcome":"ok","took_us":0,"payload":{"question":"\u202e"}}}` + "\n"
	f.WantResult(got, 0, want, "")
}

// It tells once that the daemon is away, and goes on from where it was. At its start a daemon that is away
// is an error, and so is one that is too old, or refuses.
func TestTailWithoutADaemon(t *testing.T) {
	away := kinds.Errorf(kinds.DaemonUnavailable, "no daemon: start acpd")
	f, asked := tailed(t, &client.TrafficAnswer{Next: 5}, away, away, &client.TrafficAnswer{Next: 6, Lost: 1})
	f.WantResult(f.RunUntil(ui.Terminal{}, 3, "tail"), 0, "lost 1\n", "acpctl tail: the daemon is away; tail goes on when it is back\nacpctl tail: the daemon is back\n")
	for _, p := range asked()[1:4] {
		if p.After != 5 {
			t.Errorf("%+v", p)
		}
	}
	f, _ = tailed(t, away)
	f.WantResult(f.Run("tail"), frame.ExitNoDaemon, "", "acpctl tail: no daemon: start acpd\n")
	f, _ = tailed(t, &client.TrafficAnswer{Next: 5}, kinds.Errorf(kinds.NotAuthorized, "no more"))
	if got := f.Run("tail"); got.Code == 0 || got.Err != "acpctl tail: no more\n" {
		t.Errorf("%+v", got)
	}
	for _, args := range [][]string{{"tail", ""}, {"tail", "--kind", ""}, {"tail", "--thread", ""}, {"tail", "--thread", strings.Repeat("long ", 13)}, {"tail", "desk", "laptop"}, {"tail", "desk/"}} {
		if got := f.Run(args...); got.Code != frame.ExitUsage {
			t.Errorf("%q: %+v", args, got)
		}
	}
}

// The columns stand where they are, however long the names of agents are, and whichever line comes first.
func TestTailHoldsItsColumns(t *testing.T) {
	tl := &tail{Frame: &frame.Frame{Terminal: ui.Terminal{OutTTY: true}}}
	for _, width := range []int{72, 80, 100, 140, math.MaxInt} {
		var columns []string
		for _, agent := range []string{"", "codex", "claude-that-reads-the-parser-2", "codex"} {
			e := client.TrafficEntry{At: noon, Name: "laptop", FromAgent: agent, Agent: agent, Kind: "query", Text: "?", Outcome: "ok"}
			kind, text, _ := strings.Cut(tl.layOut(newEntryLine(&e), width), " query ")
			columns = append(columns, fmt.Sprint(ui.CountCells(kind), ui.CountCells(text)))
		}
		if len(slices.Compact(columns)) != 1 {
			t.Errorf("%d columns: the kind and the text stand at %q", width, columns)
		}
	}
	at := func(kind, outcome string) int {
		line, _, _ := strings.Cut(tl.layOut(&tailLine{at: noon, there: "laptop", sign: "·", kind: kind, outcome: outcome, text: "text"}, 80), "text")
		return ui.CountCells(line)
	}
	if a, b := at("up", ""), at("discovered", ""); a != b {
		t.Errorf("an event of a long name: its text stands at %d instead of %d", b, a)
	}
}

// On a terminal no line is wider than that, whatever peers write, and names of peers are whole.
func TestTailOnATerminal(t *testing.T) {
	tl := &tail{Frame: &frame.Frame{Terminal: ui.Terminal{OutTTY: true}}}
	for _, text := range []string{"", "Which branch?", strings.Repeat("long ", 60), strings.Repeat("語", 150)} {
		e := client.TrafficEntry{
			At: noon, ID: clitest.SomeID, Direction: client.Out, Peer: clitest.DeskID, Name: "desk-of-the-whole-team-upstairs", Agent: text, FromAgent: text, Kind: "delegate",
			Text: text, Answer: text, Outcome: "incompatible_version", TookUS: 61_000_000,
		}
		for width := 1; width < 300; width++ {
			line := tl.layOut(newEntryLine(&e), width)
			if n := ui.CountCells(line); n > width || width > 99 && !strings.Contains(line, " "+e.Name) {
				t.Fatalf("%d columns: %d cells: %q", width, n, line)
			}
		}
	}
	e := client.TrafficEntry{At: noon.Add(time.Second), Direction: client.In, Name: "desk", Agent: "reviewer", Kind: "query", Text: "Which\x1b[2J branch?", Answer: "main", Outcome: "ok", TookUS: 1_234_000}
	l := newEntryLine(&e)
	clock := l.at.Local().Format("15:04:05")
	for width, want := range map[int]string{
		56:          clock + " reviewer ← desk     query    ok 1.23s      Whi…",
		80:          clock + " reviewer ← desk             query    ok 1.23s      Which branch? ⇒ main",
		120:         clock + ".234 reviewer     ← desk                     query    ok 1.23s      Which branch? ⇒ main",
		math.MaxInt: clock + ".234 reviewer     ← desk                     query    ok 1.23s      Which branch? ⇒ main",
	} {
		if got := tl.layOut(l, width); got != want {
			t.Errorf("%d columns:\n%q, want\n%q", width, got, want)
		}
	}
	forged := newEntryLine(&client.TrafficEntry{At: noon, Direction: client.In, Name: "desk", Kind: "notify", Text: "May I? ⇒ yes", Outcome: "held"})
	if got := tl.layOut(forged, 120); strings.Contains(got, "⇒") || !strings.Contains(got, "May I? => yes") {
		t.Errorf("a text that looks answered: %q", got)
	}
	for kind, want := range map[string]string{"delegate": " accepted ", "query": " ok "} {
		given := newEntryLine(&client.TrafficEntry{At: noon, Direction: client.Out, Name: "desk", Kind: kind, Text: "Do it all", Outcome: client.TrafficOK})
		if got := tl.layOut(given, 120); !strings.Contains(got, want) {
			t.Errorf("%s: %q, want%s", kind, got, want)
		}
	}
	tl.Colours = true
	if got := tl.layOut(l, 120); !strings.Contains(got, ui.Green+"ok 1.23s"+ui.Plain) || !strings.Contains(got, ui.Bold+"desk"+ui.Plain) {
		t.Errorf("%q", got)
	}
	for outcome, colour := range map[string]string{"": "", "ok": ui.Green, "handed": ui.Green, "held": ui.Yellow, "sent": ui.Yellow, "refused": ui.Red, "timeout": ui.Red} {
		if got := findOutcomeColour(outcome); got != colour {
			t.Errorf("%s: %q", outcome, got)
		}
	}
	f, _ := tailed(t, &client.TrafficAnswer{Next: 9, Lost: 2})
	if out := f.RunUntil(ui.Terminal{OutTTY: true, Colours: true}, 1, "tail").Out; out != ui.Yellow+"lost 2"+ui.Plain+"\n" {
		t.Errorf("%q", out)
	}
}
