package kept

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/daemon/admin"
	"github.com/acpd/acpd/daemon/agents"
	"github.com/acpd/acpd/daemon/delegation"
	"github.com/acpd/acpd/daemon/inbox"
	"github.com/acpd/acpd/daemon/known"
	"github.com/acpd/acpd/daemon/registry"
	"github.com/acpd/acpd/daemon/schema"
	"github.com/acpd/acpd/daemon/sessions"
	"github.com/acpd/acpd/disk"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/statedb"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/peer"
	"github.com/acpd/acpd/wire"
)

// nowhere is a socket to which nothing comes and from which nothing leaves.
type nowhere struct {
	closed func() <-chan struct{}
	close  func()
}

func newNowhere() *nowhere {
	c := make(chan struct{})
	return &nowhere{closed: func() <-chan struct{} { return c }, close: sync.OnceFunc(func() { close(c) })}
}

func (n *nowhere) ReadFrom([]byte) (int, net.Addr, error)    { <-n.closed(); return 0, nil, net.ErrClosed }
func (n *nowhere) WriteTo(b []byte, _ net.Addr) (int, error) { return len(b), nil }
func (n *nowhere) Close() error                              { n.close(); return nil }
func (n *nowhere) LocalAddr() net.Addr                       { return &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 7117} }
func (n *nowhere) SetDeadline(time.Time) error               { return nil }
func (n *nowhere) SetReadDeadline(time.Time) error           { return nil }
func (n *nowhere) SetWriteDeadline(time.Time) error          { return nil }
func (n *nowhere) SetReadBuffer(int) error                   { return nil }
func (n *nowhere) SetWriteBuffer(int) error                  { return nil }

// desk is a service whose peers are all away, and what it is made of.
type desk struct {
	*Service
	t      *testing.T
	free   atomic.Uint64
	mu     sync.Mutex
	events []client.KeptEvent
	gives  func(kinds.Checked) (*kinds.Ack, error)
}

var laptop, phone = identity.ID{1}, identity.ID{2}

// open opens a service in which planner is attached nowhere, and laptop and phone are peers without an address.
func open(t *testing.T) *desk {
	t.Helper()
	d := &desk{t: t}
	d.free.Store(1 << 40)
	key, err := identity.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	trust := identity.NewMemoryTrustStore()
	for id, name := range map[identity.ID]string{laptop: "laptop", phone: "phone"} {
		if _, err := trust.Trust(identity.Peer{ID: id, Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	node, err := peer.Listen(peer.Config{Key: key, Trust: trust, Conn: newNowhere()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	serving.Go(func() { node.Serve(ctx) })
	t.Cleanup(func() { cancel(); serving.Wait() })

	db, book, log := statedb.New(t, schema.Migrate), new(budget.Book), slog.New(slog.NewTextHandler(io.Discard, nil))
	in, err := inbox.OpenInbox(t.Context(), db, &budget.Book{Peers: func() int { return 4 }}, 1<<20, nil)
	if err != nil {
		t.Fatal(err)
	}
	known := known.Deps{Self: key.ID(), Inbox: in, Repeats: inbox.NewRepeats(book), Calls: new(sync.WaitGroup)}
	attached := registry.NewRegistry()
	agentDeps := agents.Deps{
		Deps: known, Name: "desk", Registry: attached, Drain: admin.NewDrain(attached, log), Trust: trust, Node: node, Sessions: new(sessions.Service), Budget: book, Log: log,
		Space: admin.OpenSpace(admin.SpaceConfig{Home: t.TempDir(), MailHome: t.TempDir(), Budget: book, Log: log, Calls: new(sync.WaitGroup), Look: func(string) (disk.Space, error) {
			return disk.Space{Free: d.free.Load(), Total: 1 << 41}, nil
		}}),
	}
	d.Service = &Service{Deps: Deps{
		Deps: agentDeps, DB: db, MayCall: func(registry.Credential, identity.Peer) error { return nil },
		Give: func(_ context.Context, request kinds.Checked, _ registry.Credential) (*kinds.Ack, error) {
			return d.gives(request)
		},
		Publish: func(_ client.EventType, _ identity.ID, _ string, _ time.Time, details any) {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.events = append(d.events, details.(client.KeptEvent))
		},
	}}
	d.reopen()
	return d
}

// reopen reads what is kept anew, as after a restart.
func (d *desk) reopen() {
	d.t.Helper()
	table, err := delegation.OpenTable(d.t.Context(), d.DB, d.Registry, d.Budget, func(*delegation.Delegation) {}, d.Log)
	if err != nil {
		d.t.Fatal(err)
	}
	deps := d.Deps
	deps.Delegations = table
	deps.Agents = agents.New(deps.Deps)
	if d.Service, err = Open(d.t.Context(), deps); err != nil {
		d.t.Fatal(err)
	}
}

// run runs the service until the caller calls stop.
func (d *desk) run() (stop func()) {
	ctx, cancel := context.WithCancel(d.t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := d.Run(ctx); err != nil {
			d.t.Error(err)
		}
	})
	return func() { cancel(); running.Wait() }
}

// away is why a message does not arrive.
var away = kinds.Errorf(kinds.Unreachable, "laptop is away").WithDelivered(kinds.DeliveredNo)

func (d *desk) envelope(to identity.ID, agent, kind string, payload wire.Payload) *wire.Envelope {
	env := wire.NewEnvelope(d.Self, to, kind, payload)
	env.Agent = agent
	return env
}

func question(size int) wire.Payload {
	return kinds.EncodePayload(&kinds.Query{Question: "?" + strings.Repeat("x", size)})
}

// of returns the credential of an agent, or of the owner if agent is "".
func of(agent string) registry.Credential {
	if agent == "" {
		return registry.Credential{}
	}
	return registry.Credential{Name: agent, KeyHash: registry.KeyHash{byte(len(agent) + 1)}}
}

// sendOrKeep sends a message, which fails with why.
func (d *desk) sendOrKeep(env *wire.Envelope, by registry.Credential, ms uint64, why error) error {
	return d.SendOrKeep(d.t.Context(), env, by, ms, func() error { return why })
}

// keep keeps a query as an agent, for an hour.
func (d *desk) keep(to identity.ID, agent, by string, size int) (wire.MessageID, error) {
	d.t.Helper()
	env := d.envelope(to, agent, kinds.KindQuery, question(size))
	err := d.sendOrKeep(env, of(by), uint64(time.Hour.Milliseconds()), away)
	if errors.Is(err, &kinds.Error{Code: kinds.Kept}) {
		return env.ID, nil
	}
	return env.ID, err
}

func (d *desk) mustKeep(to identity.ID, agent, by string, size int) wire.MessageID {
	d.t.Helper()
	id, err := d.keep(to, agent, by, size)
	if err != nil {
		d.t.Fatal(err)
	}
	return id
}

func (d *desk) task(id wire.MessageID) *client.Task {
	d.t.Helper()
	task, err := d.Describe(d.t.Context(), nil, id)
	if err != nil {
		d.t.Fatal(err)
	}
	return task
}

// is fails the test unless a message has a state, also on the disk.
func (d *desk) is(id wire.MessageID, want client.TaskState) *client.Task {
	d.t.Helper()
	task := d.task(id)
	if task == nil || task.State != want {
		d.t.Fatalf("%s is %+v, want %s", id, task, want)
	}
	var written string
	statedb.Query(d.t, d.DB, &written, "SELECT state FROM daemon_kept WHERE id = ?", id[:])
	if written != string(want) {
		d.t.Errorf("on the disk, %s is %s, want %s", id, written, want)
	}
	return task
}

// inbox returns what is in the inbox, oldest first.
func (d *desk) inbox() []wire.Envelope {
	d.t.Helper()
	got, err := d.Inbox.List(d.t.Context(), &client.InboxParams{Limit: 1000}, nil, nil, 1<<20)
	if err != nil {
		d.t.Fatal(err)
	}
	var all []wire.Envelope
	for _, m := range got.Messages {
		all = append(all, m.Envelope)
	}
	return all
}

func (d *desk) rows() (n int) {
	d.t.Helper()
	statedb.Query(d.t, d.DB, &n, "SELECT count(*) FROM daemon_kept")
	return n
}

// full makes every change of a sort to the table fail, until the caller calls mend.
func (d *desk) full(change string) (mend func()) {
	d.t.Helper()
	statedb.Exec(d.t, d.DB, "CREATE TRIGGER full BEFORE "+change+" ON daemon_kept BEGIN SELECT RAISE(ABORT, 'full'); END")
	return func() { statedb.Exec(d.t, d.DB, "DROP TRIGGER full") }
}

// TestWhatMayBeKept: only what certainly did not arrive, and may arrive later.
func TestWhatMayBeKept(t *testing.T) {
	fromPeer := func(e *kinds.Error) *kinds.Error { e.From = laptop.String(); return e }
	for _, row := range kinds.ListCodes() {
		for _, delivered := range []kinds.Delivered{"", kinds.DeliveredNo, kinds.DeliveredUnknown} {
			e := kinds.Errorf(row.Code, "it failed")
			if delivered != "" {
				e.WithDelivered(delivered)
			}
			isForNow := row.Retryable || row.Code == kinds.IdentityConflict // of another machine at its address
			want := isForNow && (delivered == kinds.DeliveredNo || delivered == "" && row.Code == kinds.Overloaded)
			if got := MayKeep(e); got != want {
				t.Errorf("%s here, delivered %q: %v, want %v", row.Code, delivered, got, want)
			}
			want = isForNow && delivered == kinds.DeliveredNo
			if got := MayKeep(fromPeer(e)); got != want {
				t.Errorf("%s of the peer, delivered %q: %v, want %v", row.Code, delivered, got, want)
			}
		}
	}
}

// TestEndsOfFailedTries: a message that may have arrived is never said to be refused, and one that was refused never to
// be unknown.
func TestEndsOfFailedTries(t *testing.T) {
	unknown := map[bool][]kinds.Code{ // if nothing is said of the delivery, by whether the error is the peer's
		false: {kinds.Internal, kinds.Timeout, kinds.Cancelled, kinds.Unreachable},
		true:  {kinds.Internal, kinds.Timeout, kinds.Cancelled, kinds.NoAgent, kinds.Overloaded},
	}
	busy := []kinds.Code{kinds.NoAgent, kinds.Overloaded} // an agent that says so has not begun with a delegation
	stopped, cause := context.WithCancelCause(t.Context())
	cause(errStopped)
	check := func(kind string, isOfPeer bool, code kinds.Code, delivered kinds.Delivered) {
		t.Helper()
		e := kinds.Errorf(code, "said by somebody")
		if isOfPeer {
			e.From = laptop.String()
		}
		if delivered != "" {
			e.WithDelivered(delivered)
		}
		isBusy := isOfPeer && kind == kinds.KindDelegate && slices.Contains(busy, code)
		want := client.TaskRefused
		if delivered == kinds.DeliveredUnknown || delivered == "" && (slices.Contains(unknown[isOfPeer], code) || isOfPeer && kind == kinds.KindQuery && code == kinds.TooLarge) && !isBusy {
			want = client.TaskUnknown
		}
		for _, ctx := range []context.Context{t.Context(), stopped} {
			end := newFailedEnding(ctx, &message{kind: kind}, e)
			switch report := parseError(t, end.payload); {
			case end.state != want || end.kind != kinds.KindError:
				t.Errorf("%s of a %s, of the peer: %v, delivered %q: %s by a %s, want %s", code, kind, isOfPeer, delivered, end.state, end.kind, want)
			case (end.state == client.TaskUnknown) != strings.Contains(end.outcome, mayHaveArrived):
				t.Errorf("%s is told as %q", end.state, end.outcome)
			case isOfPeer && strings.Contains(end.outcome, "somebody"):
				t.Errorf("the peer's words are in %q", end.outcome)
			case report.Code.Info().Local || report.Code != codeOfEnd[end.state]:
				t.Errorf("%s is reported with %s", code, report.Code)
			case ctx == stopped && want == client.TaskUnknown && !strings.Contains(end.outcome, "withdrawn"):
				t.Errorf("the end of what was withdrawn while it was sent: %q", end.outcome)
			}
		}
	}
	for _, row := range kinds.ListCodes() {
		for _, kind := range []string{kinds.KindQuery, kinds.KindNotify, kinds.KindDelegate} {
			for _, isOfPeer := range []bool{false, true} {
				for _, delivered := range []kinds.Delivered{"", kinds.DeliveredNo, kinds.DeliveredUnknown} {
					check(kind, isOfPeer, row.Code, delivered)
				}
			}
		}
	}
}

// TestRepeats: a call under the id of a message that is kept does not keep or send another one, and gets what is kept.
func TestRepeats(t *testing.T) {
	d := open(t)
	env := d.envelope(laptop, "reviewer", kinds.KindQuery, wire.Payload(`{"question":"?","deadline_ms":1000}`))
	err := kinds.AsError(d.sendOrKeep(env, of("planner"), 60_000, away))
	if kept := client.FindKept(err); kept == nil || kept.ID != env.ID || kept.Tries != 1 || kept.LastError != away.Message || err.Delivered() != kinds.DeliveredNo || err.Retryable {
		t.Fatalf("%v: %s", err, err.Details)
	}
	// isSent calls for a message, and reports whether it is sent. That fails, and it is not kept.
	isSent := func(env *wire.Envelope, ms uint64) (sent bool, e *kinds.Error) {
		failed := kinds.Errorf(kinds.Invalid, "no")
		e = kinds.AsError(d.SendOrKeep(t.Context(), env, of("planner"), ms, func() error { sent = true; return failed }))
		return sent, e
	}
	for _, ms := range []uint64{0, 60_000} {
		repeat := *env
		repeat.Payload = wire.Payload(`{"question":"?","deadline_ms":5000}`) // what is kept has a deadline of its own
		if sent, e := isSent(&repeat, ms); sent || client.FindKept(e) == nil || client.FindKept(e).ID != env.ID {
			t.Errorf("a repeat is sent: %v, %v", sent, e)
		}
		for what, change := range map[string]func(*wire.Envelope){
			"another question": func(env *wire.Envelope) { env.Payload = wire.Payload(`{"question":"!","deadline_ms":1000}`) },
			"another kind":     func(env *wire.Envelope) { env.Kind = kinds.KindNotify },
			"another peer":     func(env *wire.Envelope) { env.To = phone },
			"another agent":    func(env *wire.Envelope) { env.Agent = "tester" },
		} {
			other := *env
			change(&other)
			if sent, e := isSent(&other, ms); sent || e.Code != kinds.Invalid {
				t.Errorf("%s under the id is sent: %v, %v", what, sent, e)
			}
		}
	}
	// One that is to be kept goes behind those before it; one that is not does not.
	later := d.envelope(laptop, "reviewer", kinds.KindQuery, question(0))
	if sent, e := isSent(later, 0); !sent || e.Code != kinds.Invalid {
		t.Errorf("one that is not to be kept is sent: %v, %v", sent, e)
	}
	if sent, e := isSent(later, 60_000); sent || client.FindKept(e) == nil || client.FindKept(e).Tries != 0 {
		t.Errorf("one that is to be kept is sent: %v, %v", sent, e)
	}
	for _, free := range []*wire.Envelope{
		d.envelope(laptop, "", kinds.KindQuery, question(0)), d.envelope(phone, "reviewer", kinds.KindQuery, question(0)),
		d.envelope(laptop, "reviewer", kinds.KindNotify, wire.Payload(`{"topic":"t"}`)),
	} {
		if sent, e := isSent(free, 1); !sent || e.Code != kinds.Invalid {
			t.Errorf("one for another recipient, or of another kind, is sent: %v, %v", sent, e)
		}
	}
	// After its end, a repeat is sent as ever, and is not kept under the id again.
	if _, err := d.Withdraw(t.Context(), nil, "", env.ID, ""); err != nil {
		t.Fatal(err)
	}
	if sent, _ := isSent(env, 0); !sent {
		t.Error("a repeat is not sent after the end")
	}
	if sent, e := isSent(env, 1); sent || e.Code != kinds.Invalid {
		t.Errorf("it is to be kept again: %v, %v", sent, e)
	}
}

// TestWhatIsNotKept: what the caller does not want kept, or what may have arrived, fails as ever; what cannot be kept
// fails with an error that says so.
func TestWhatIsNotKept(t *testing.T) {
	d := open(t)
	env := d.envelope(laptop, "", kinds.KindQuery, question(0))
	stranger := d.envelope(identity.ID{9}, "", kinds.KindQuery, question(0))
	unsure := kinds.Errorf(kinds.Unreachable, "gone").WithDelivered(kinds.DeliveredUnknown)
	for what, err := range map[string][2]error{
		"not wanted":        {d.sendOrKeep(env, of(""), 0, away), away},
		"may have arrived":  {d.sendOrKeep(env, of(""), 1000, unsure), unsure},
		"nobody knows whom": {d.sendOrKeep(stranger, of(""), 1000, away), away},
	} {
		if err[0] != err[1] {
			t.Errorf("%s: %v", what, err[0])
		}
	}
	isNotKept := func(what, words string, err error) {
		t.Helper()
		if e := kinds.AsError(err); e.Code != kinds.Overloaded || e.Delivered() != kinds.DeliveredNo || !strings.Contains(e.Message, "not kept") || !strings.Contains(e.Message, words) {
			t.Errorf("%s: %v", what, err)
		}
		if n := d.rows() + len(d.List(nil)) + len(d.events) + len(d.schedules); n != 0 {
			t.Errorf("%s: something is left", what)
		}
	}
	mend := d.full("INSERT")
	isNotKept("a full disk", "", d.sendOrKeep(env, of("planner"), 1000, away))
	mend()
	d = open(t)
	d.free.Store(0)
	isNotKept("a low disk", "budget: free_space", d.sendOrKeep(env, of("planner"), 1000, away))
	d = open(t)
	most := uint64(client.MaxKeep.Milliseconds())
	for ms, want := range map[uint64]kinds.Code{1: kinds.Kept, most: kinds.Kept, most + 1: kinds.Invalid, 1 << 63: kinds.Invalid} {
		sent := false
		env := d.envelope(laptop, fmt.Sprint("agent-", ms), kinds.KindQuery, question(0))
		err := kinds.AsError(d.SendOrKeep(t.Context(), env, of(""), ms, func() error { sent = true; return away }))
		if err.Code != want || sent != (want == kinds.Kept) {
			t.Errorf("for %d ms: sent %v, %v", ms, sent, err)
		}
	}
}
