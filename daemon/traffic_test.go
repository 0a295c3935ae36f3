package daemon

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/daemon/traffic"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/peer"
	"github.com/acpd/acpd/wire"
)

// watcher reads the traffic of a daemon.
type watcher struct {
	*program
	after uint64
}

// watcher begins to watch.
func (d *running) watcher() *watcher {
	d.t.Helper()
	w := &watcher{program: d.dial()}
	w.read(client.TrafficParams{})
	return w
}

// read reads what has come since the last call.
func (w *watcher) read(p client.TrafficParams) *client.TrafficAnswer {
	w.t.Helper()
	a := new(client.TrafficAnswer)
	p.After = w.after
	w.must("traffic", p, a)
	w.after = a.Next
	return a
}

// await reads until there are n entries, and returns each in short.
func (w *watcher) await(n int) (short []string) {
	w.t.Helper()
	for len(short) < n {
		a := w.read(client.TrafficParams{WaitMS: 10_000})
		for _, e := range a.Entries {
			short = append(short, shorten(&e))
		}
		if len(a.Entries) == 0 {
			w.t.Fatalf("%q: no more comes", short)
		}
	}
	return short
}

func shorten(e *client.TrafficEntry) string {
	return strings.Join(strings.Fields(fmt.Sprint(e.Direction, " ", e.Name, " ", e.FromAgent, ">", e.Agent, " ", e.Kind, " ", e.Topic, " ", e.Text, " = ", e.Answer, " ", e.Outcome)), " ")
}

// Each message is one entry at each end, when it has its outcome.
func TestTrafficShowsWhatPasses(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	here, there := desk.watcher(), laptop.watcher()
	planner := desk.agent(client.AttachParams{Name: "planner"}, say(`{}`))
	both := func(sent, came string) {
		t.Helper()
		if got := here.await(1); !slices.Equal(got, []string{sent}) {
			t.Errorf("here %q, want %q", got, sent)
		}
		if got := there.await(1); !slices.Equal(got, []string{came}) {
			t.Errorf("there %q, want %q", got, came)
		}
	}
	ask := client.QueryParams{Head: client.Head{Thread: "release 7"}, To: "laptop", Payload: query("Which\nbranch?")}
	planner.refused(kinds.NoAgent, "query", ask)
	both("out laptop planner> query Which branch? = no agent is attached that takes a query: on that machine, start a program that acpctl setup has connected, or acpctl serve no_agent", "in desk planner> query Which branch? = no agent is attached that takes a query: on that machine, start a program that acpctl setup has connected, or acpctl serve no_agent")
	notify := client.NotifyParams{To: client.To("laptop"), Payload: wire.Payload(`{"topic":"ci.test","data":"green"}`)}
	planner.must("notify", notify, nil)
	both("out laptop planner> notify ci.test green = held", "in desk planner> notify ci.test green = held")

	worker := laptop.agent(client.AttachParams{Name: "reviewer"}, func(_ context.Context, r *jsonrpc.Request) {
		switch r.Method {
		case "query":
			r.Respond(wire.Payload(`{"summary":"main"}`))
		case "delegate":
			r.Respond(wire.Payload(accepted))
		default:
			r.Respond(nil)
		}
	})
	answer := get[client.Answer](planner, "query", ask)
	both("out laptop planner> query Which branch? = main ok", "in desk planner>reviewer query Which branch? = main ok") // the agent that was chosen
	planner.must("notify", notify, nil)
	both("out laptop planner> notify ci.test green = handed", "in desk planner> notify ci.test green = handed")
	given := delegateTo(planner, "laptop/reviewer", task1(""))
	both("out laptop planner>reviewer delegate mend it = ok", "in desk planner>reviewer delegate mend it = ok")
	// A partial result that no agent took is with its delegation, and is not shown as held.
	worker.must("result", client.ResultParams{Ref: given.ID, Payload: partial("half", "")}, nil)
	both("in laptop reviewer> result partial half = handed", "out desk reviewer> result partial half = handed")
	worker.must("result", client.ResultParams{Ref: given.ID, Payload: completed("mended")}, nil)
	both("in laptop reviewer> result completed mended = handed", "out desk reviewer> result completed mended = handed")
	planner.must("ping", client.PingParams{To: "laptop"}, nil)
	both("out laptop planner> ping = idle ok", "in desk planner> ping = idle ok")

	// All of it again, on a connection that began to watch in time and reads now.
	a := here.read(client.TrafficParams{})
	if len(a.Entries) != 0 || a.Lost != 0 || a.Open != nil {
		t.Errorf("%+v", a)
	}
	here.after -= 8
	want := here.after + 3
	a = here.read(client.TrafficParams{Threads: []string{"release 7"}, Agents: []string{"planner"}, Peers: []string{"laptop"}, Kinds: []string{"query"}, Payload: true})
	if len(a.Entries) != 2 {
		t.Fatalf("%+v", a)
	}
	e := a.Entries[1]
	if e.Seq != want || e.ID != answer.ID || e.Thread != "release 7" || string(e.Payload) != string(ask.Payload) || string(e.AnswerPayload) != `{"summary":"main"}` ||
		e.Bytes != len(ask.Payload) || e.TookUS == 0 || time.Since(e.At) > time.Minute || e.Peer != laptop.ID() {
		t.Errorf("%+v", e)
	}
	here.after -= 8
	if a = here.read(client.TrafficParams{Topics: []string{"ci"}, Limit: 1}); len(a.Entries) != 1 || a.Entries[0].Topic != "ci.test" || a.Entries[0].Payload != nil {
		t.Errorf("%+v", a)
	}
}

// Whoever begins to watch sees the calls that are open already, both ways, and since when.
func TestTrafficShowsOpenCalls(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	taken, release := make(chan *client.Inbound, 4), make(chan struct{})
	worker := laptop.agent(client.AttachParams{Name: "reviewer"}, func(ctx context.Context, r *jsonrpc.Request) {
		if r.Method == "delegate" {
			r.Respond(wire.Payload(accepted))
			return
		}
		taken <- bind(t, r)
		<-release
		r.Respond(wire.Payload(`{"summary":"main"}`))
	})
	planner := desk.agent(client.AttachParams{Name: "planner"}, say(`{}`))
	given := delegateTo(planner, "laptop/reviewer", task1(""))
	asked := later(planner, "query", client.QueryParams{To: "laptop", Payload: query("Which branch?")})
	in := await.Receive(t, "query", taken)
	open := func(w *watcher) (short []string) {
		t.Helper()
		for _, e := range w.read(client.TrafficParams{Open: true}).Open {
			short = append(short, shorten(&e))
			if e.Kind == "query" && e.ID != in.ID || e.Kind == "delegate" && e.ID != given.ID || e.Seq != 0 || e.Bytes == 0 || time.Duration(e.TookUS)*time.Microsecond > time.Since(e.At) || time.Since(e.At) > time.Minute {
				t.Errorf("%+v", e)
			}
		}
		return short
	}
	here, there := desk.watcher(), laptop.watcher()
	if got := open(here); !slices.Equal(got, []string{"out laptop planner>reviewer delegate mend it =", "out laptop planner> query Which branch? ="}) {
		t.Errorf("here %q", got)
	}
	if got := open(there); !slices.Equal(got, []string{"in desk planner>reviewer delegate mend it =", "in desk planner>reviewer query Which branch? ="}) {
		t.Errorf("there %q", got)
	}
	if a := here.read(client.TrafficParams{Open: true, Kinds: []string{"query"}}); len(a.Open) != 1 || a.Open[0].Kind != "query" {
		t.Errorf("%+v", a.Open)
	}
	if a := here.read(client.TrafficParams{Open: true, Agents: []string{"nobody"}}); a.Open == nil || len(a.Open) != 0 {
		t.Errorf("%+v", a.Open)
	}
	close(release)
	if err := await.Receive(t, "answer", asked); err != nil {
		t.Fatal(err)
	}
	// A query that began when nobody watched is an entry all the same, with its duration.
	if got := here.await(1); !slices.Equal(got, []string{"out laptop planner> query Which branch? = main ok"}) {
		t.Errorf("%q", got)
	}
	worker.Close()
	await.Until(t, "the agent is shown as away", func() bool {
		a := there.read(client.TrafficParams{Open: true})
		return len(a.Open) == 1 && !a.Open[0].AgentAwaySince.IsZero()
	})
	worker = laptop.agent(client.AttachParams{Name: "reviewer"}, say(accepted))
	worker.must("result", client.ResultParams{Ref: given.ID, Payload: completed("mended")}, nil)
	await.Until(t, "nothing is open", func() bool { return len(open(here)) == 0 && len(open(there)) == 0 })
}

// It is for the owner alone, its params are bounded, and so is the number of those who watch. With the
// connection the watching ends.
// holds: security.md#at-rest
func TestTrafficIsBounded(t *testing.T) {
	t.Parallel()
	desk := startConfigured(t, "desk", "history: off\n")
	guest, _ := desk.guestAgent(client.AttachParams{Name: "planner"}, say(`{}`))
	guest.refused(kinds.NotAuthorized, "traffic", client.TrafficParams{})
	owner := desk.dial()
	many := slices.Repeat([]string{"query"}, client.MaxTrafficFilter+1)
	for want, p := range map[string]client.TrafficParams{
		"kinds: 65 are too many: at most 64":                       {Kinds: many},
		"topics: 65 are too many: at most 64":                      {Topics: many},
		"peers: 65 are too many: at most 64":                       {Peers: many},
		"threads: 65 are too many: at most 64":                     {Threads: many},
		"agents: 65 are too many: at most 64":                      {Agents: many},
		"limit: -1: expected 1 to 1000":                            {Limit: -1},
		"limit: 1001: expected 1 to 1000":                          {Limit: 1001},
		"wait_ms: 30001: at most 30000; call again to wait longer": {WaitMS: 30_001},
		`kinds: "querry": did you mean query?`:                     {Kinds: []string{"querry"}},
	} {
		if e := owner.refused(kinds.Invalid, "traffic", p); e.Message != want {
			t.Errorf("%q, want %q", e.Message, want)
		}
	}
	owner.refused(kinds.UnknownPeer, "traffic", client.TrafficParams{Peers: []string{"nobody"}})
	if desk.watch.Traffic.IsOn() {
		t.Error("who was refused watches")
	}
	waiting := desk.dial()
	ended := later(waiting, "traffic", client.TrafficParams{WaitMS: 30_000})
	await.Until(t, "somebody watches", desk.watch.Traffic.IsOn)
	waiting.Close()
	if err := await.Receive(t, "the end", ended); err == nil {
		t.Error("it was answered")
	}
	await.Until(t, "nobody watches", func() bool { return !desk.watch.Traffic.IsOn() })
}

// The history is kept until the configuration turns it off, at once and as one whole; then only those who watch
// see anything.
// holds: security.md#what-untrust-does-and-what-it-does-not-undo
// holds: security.md#at-rest
func TestHistory(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	owner := desk.dial()
	kept := func() int { // without watching, so that only the history is there
		t.Helper()
		a, err := desk.watch.Traffic.Read(t.Context(), &traffic.Query{Limit: client.MaxTrafficEntries, Room: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		return len(a.Entries)
	}
	pinged := func(want int) {
		t.Helper()
		for range 2 {
			owner.must("ping", client.PingParams{To: "laptop"}, nil)
		}
		if n := kept(); n != want {
			t.Errorf("%d entries are kept, want %d", n, want)
		}
	}
	changed := func(text, from, to string) {
		t.Helper()
		writeConfig(t, desk.dir, text)
		r, err := desk.reloadConfig()
		if err != nil || len(r.Deferred) > 0 || len(r.Changed) != 1 || r.Changed[0] != (client.SettingChange{Setting: "history", From: from, To: to}) {
			t.Fatalf("%+v %v", r, err)
		}
	}
	pinged(2)
	changed("history: off", "on", "off")
	if desk.watch.Traffic.IsOn() || !laptop.watch.Traffic.IsOn() {
		t.Error("the history of desk is on, or that of laptop is not")
	}
	pinged(0)
	changed("", "off", "on")
	pinged(2)
	owner.must("untrust", client.UntrustParams{Peer: "laptop"}, nil)
	if n := kept(); n != 0 {
		t.Errorf("%d entries are left of a peer that is not trusted any more", n)
	}
}

// What a history keeps is in memory alone: not in the state directory, a backup of state.db or the log.
// holds: security.md#at-rest
func TestHistoryIsNowhereOnDisk(t *testing.T) {
	t.Parallel()
	var log await.Output
	level := slog.LevelDebug
	dir := stateDir(t)
	desk := startWith(t, Options{Home: dir, Listen: "127.0.0.1:0", Name: "desk", NoMDNS: true, Log: &log, Level: &level})
	laptop := start(t, stateDir(t), "laptop")
	befriend(t, desk, laptop)
	const secret = "sunflower"
	desk.agent(client.AttachParams{Name: "reviewer"}, say(`{"summary":"`+secret+`"}`))
	laptop.dial().must("query", client.QueryParams{To: "desk", Payload: query(secret)}, nil)
	w := &watcher{program: desk.dial()}
	if a := w.read(client.TrafficParams{Payload: true}); len(a.Entries) != 1 || a.Entries[0].Text != secret || a.Entries[0].Answer != secret || string(a.Entries[0].Payload) != string(query(secret)) {
		t.Fatalf("%+v", a)
	}
	copied := new(client.StateCopy)
	w.must("backup", nil, copied)
	files := 0
	err := filepath.WalkDir(dir, func(path string, f fs.DirEntry, err error) error {
		if err != nil || !f.Type().IsRegular() {
			return err
		}
		files++
		text, err := os.ReadFile(path)
		if strings.Contains(string(text), secret) {
			t.Errorf("%s has it", path)
		}
		return err
	})
	if err != nil || files < 5 || copied.Path == "" {
		t.Error(files, copied, err)
	}
	if strings.Contains(log.String(), secret) || !strings.Contains(log.String(), "kind=query") {
		t.Errorf("the log: %s", log.String())
	}
}

func TestSubscribeRefusesWhatNeverComes(t *testing.T) {
	t.Parallel()
	desk := start(t, stateDir(t), "desk").dial()
	e := desk.refused(kinds.Invalid, "subscribe", payload(`{"events":["up","nope"]}`))
	if !strings.Contains(e.Message, `"nope"`) || !strings.Contains(e.Message, "up, moved, down, refused") {
		t.Errorf("%v", e)
	}
	desk.must("subscribe", client.SubscribeParams{Events: client.EventFilter{Types: client.EventTypes()}}, nil)
}

func TestSubscriberGetsCopies(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	copies, events := make(chan *client.Message, 16), make(chan *client.Event, 16)
	l := laptop.dialWith(func(_ context.Context, r *jsonrpc.Request) {
		switch r.Method {
		case client.NotificationMessage:
			m := new(client.Message)
			if err := r.ReadParams(m); err != nil {
				t.Error(err)
			}
			copies <- m
		case client.NotificationEvent:
			e := new(client.Event)
			if err := r.ReadParams(e); err != nil {
				t.Error(err)
			}
			events <- e
		}
	})
	l.must("subscribe", client.SubscribeParams{Kinds: []string{"notify", "ping", "pong"}, Peers: []string{"desk"}, Events: client.EventFilter{Types: []client.EventType{"down"}}}, nil)
	asker := desk.dial()
	r := get[client.Receipt](asker, "notify", client.NotifyParams{To: client.To("laptop"), Payload: kinds.EncodePayload(&kinds.Notify{Topic: "t"})})
	if r.State != client.Held {
		t.Errorf("a copy counted as %s", r.State)
	}
	if m := await.Receive(t, "copy", copies); m.Direction != client.In || m.Envelope.ID != r.ID || m.Envelope.From != desk.ID() {
		t.Errorf("%+v", m)
	}
	asker.must("ping", client.PingParams{To: "laptop"}, nil)
	directions := map[string]client.MessageDirection{}
	for range 2 {
		m := await.Receive(t, "copy", copies)
		directions[m.Envelope.Kind] = m.Direction
	}
	if directions["ping"] != client.In || directions["pong"] != client.Out {
		t.Errorf("%v", directions)
	}
	desk.stop()
	if e := await.Receive(t, "event", events); e.Type != client.EventDown || e.Name != "desk" || e.Peer != desk.ID() {
		t.Errorf("%+v", e)
	}
}

// The details of events of one type have one order.
func TestEventDetailsHaveAnOrder(t *testing.T) {
	t.Parallel()
	desk := start(t, stateDir(t), "desk")
	const events = 64 // of which half would have another order
	details := make(chan string, events)
	l := desk.dialWith(func(_ context.Context, r *jsonrpc.Request) {
		e := new(client.Event)
		if err := r.ReadParams(e); err != nil {
			t.Error(err)
		}
		details <- string(e.Details)
	})
	l.must("subscribe", client.SubscribeParams{Events: client.EventFilter{Types: []client.EventType{client.EventRefused}}}, nil)
	for range events {
		desk.handlePeerEvent(peer.Event{Type: peer.EventRefused, Peer: identity.ID{7}, Addr: "192.0.2.1:7117", Detail: "direct", At: time.Now()})
	}
	for range events {
		if got := await.Receive(t, "event", details); got != `{"addr":"192.0.2.1:7117","detail":"direct"}` {
			t.Fatal(got)
		}
	}
}

// The program is told how many peers are connected, each time that it changes.
func TestConnectedIsTold(t *testing.T) {
	t.Parallel()
	told := make(chan int, 16)
	hub := startWith(t, Options{Home: stateDir(t), Listen: "127.0.0.1:0", Name: "hub", NoMDNS: true, Connected: func(peers int) { told <- peers }})
	for n, name := range []string{"desk", "laptop"} {
		d := start(t, stateDir(t), name)
		befriend(t, d, hub)
		d.dial().must("ping", client.PingParams{To: "hub"}, nil)
		if got := await.Receive(t, "number", told); got != n+1 {
			t.Errorf("%d peers are told of when %s came, want %d", got, name, n+1)
		}
	}
	hub.dial().must("untrust", client.UntrustParams{Peer: "desk"}, nil)
	if got := await.Receive(t, "number", told); got != 1 {
		t.Errorf("%d peers are told of when one has gone", got)
	}
}
