package daemon

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/peer"
	"github.com/acpd/acpd/store"
	"github.com/acpd/acpd/wire"
)

// drained begins a drain and returns the channel of its outcome.
func (d *running) drained(p client.DrainParams) <-chan client.Drained {
	l, outcome := d.dial(), make(chan client.Drained, 1)
	go func() {
		var r client.Drained
		if err := l.call("drain", p, &r); err != nil {
			d.t.Errorf("drain: %v", err)
		}
		l.Close()
		outcome <- r
	}()
	await.Until(d.t, "the drain has begun", d.drain.HasBegun)
	return outcome
}

// hasEnded reports whether nothing listens on the daemon's socket any more.
func (d *running) hasEnded() bool {
	c, err := net.Dial("unix", d.home.ownerSocketPath())
	if err == nil {
		c.Close()
	}
	return err != nil
}

// A drain lets a query, a delegation and a call of this daemon's programs end, whose results
// arrive. It refuses whatever else peers and programs begin meanwhile, and tells each to try again.
// Then the daemon ends by itself.
func TestDrainFinishesWhatIsUnderWay(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	began, release := make(chan *client.Inbound, 3), make(chan struct{})
	slow := func(_ context.Context, r *jsonrpc.Request) {
		in := bind(t, r)
		began <- in
		<-release
		r.Respond(wire.Payload(`{"summary":"done","accepted":true}`))
	}
	worker := desk.agent(client.AttachParams{Name: "reviewer", MaxConcurrent: 4}, func(ctx context.Context, r *jsonrpc.Request) {
		if r.Method == "delegate" {
			began <- bind(t, r)
			r.Respond(wire.Payload(`{"accepted":true}`))
			return
		}
		slow(ctx, r)
	})
	laptop.agent(client.AttachParams{Name: "planner", Kinds: []string{"query"}}, slow)
	answers := make(chan error, 2)
	go func() {
		answers <- laptop.dial().call("query", client.QueryParams{To: "desk", Payload: query("slow")}, nil)
	}()
	go func() {
		answers <- desk.dial().call("query", client.QueryParams{To: "laptop", Payload: query("slow")}, nil)
	}()
	task := get[client.DelegateAnswer](laptop.dial(), "delegate", client.DelegateParams{To: "desk", Payload: kinds.EncodePayload(&kinds.Delegate{Task: "work"})})
	for range 3 {
		await.Receive(t, "work at an agent", began)
	}

	outcome := desk.drained(client.DrainParams{})
	for method, params := range map[string]any{
		"query":    client.QueryParams{To: "desk", Payload: query("new")},
		"delegate": client.DelegateParams{To: "desk", Payload: kinds.EncodePayload(&kinds.Delegate{Task: "new"})},
		"notify":   client.NotifyParams{To: client.To("desk"), Payload: wire.Payload(`{"topic":"new","data":1}`)},
	} {
		if e := laptop.dial().refused(kinds.Overloaded, method, params); !e.Retryable || e.RetryAfterMS == 0 {
			t.Errorf("%s of a peer: %+v", method, e)
		}
	}
	own := client.QueryParams{To: "laptop", Payload: query("new")}
	if e := desk.dial().refused(kinds.DaemonUnavailable, "query", own); !e.Retryable {
		t.Errorf("query of a program: %+v", e)
	}
	pong := get[client.Answer](laptop.dial(), "ping", client.PingParams{To: "desk"})
	if said := parse[kinds.Pong](t, pong.Payload); said.Status != "overloaded" {
		t.Errorf("pong says %+v", said)
	}
	s := get[client.Status](desk.dial(), "status", nil)
	if s.State != client.DaemonDraining || s.Drain == nil || len(s.Drain.Open) != 2 ||
		s.Drain.Open[0] != (client.OpenWork{Agent: "reviewer", Count: 2}) || s.Drain.Open[1] != (client.OpenWork{Count: 1}) {
		t.Errorf("the status says %s and %+v", s.State, s.Drain)
	}

	// What an agent does that works is no new work.
	go func() { answers <- worker.call("query", own, nil) }()
	await.Receive(t, "question of an agent that works", began)
	close(release)
	for range 3 {
		if err := await.Receive(t, "answer", answers); err != nil {
			t.Error(err)
		}
	}
	worker.must("result", client.ResultParams{Ref: task.ID, Payload: kinds.EncodePayload(&kinds.Result{Status: "completed", Outcome: "done"})}, nil)
	if r := await.Receive(t, "the end of the drain", outcome); !r.AllEnded || len(r.Open) > 0 {
		t.Errorf("the drain ended with %+v", r)
	}
	await.Until(t, "the daemon has ended", desk.hasEnded)
	end := get[client.Task](laptop.dial(), "wait", client.WaitParams{ID: task.ID})
	if end.State != client.TaskCompleted {
		t.Errorf("the delegation is %s", end.State)
	}
}

// When the time is over the daemon ends, and says what was open. A later call changes the time.
func TestDrainEndsWithItsTime(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	began := make(chan struct{})
	desk.agent(client.AttachParams{Name: "reviewer"}, func(ctx context.Context, r *jsonrpc.Request) {
		close(began)
		<-ctx.Done()
	})
	asked := later(laptop.dial(), "query", client.QueryParams{To: "desk", Payload: query("slow")})
	await.Receive(t, "query", began)
	first := desk.drained(client.DrainParams{TimeoutMS: uint64(time.Hour.Milliseconds())})
	second := desk.drained(client.DrainParams{TimeoutMS: 1})
	for _, outcome := range []<-chan client.Drained{first, second} {
		if r := await.Receive(t, "the end of the drain", outcome); r.AllEnded || len(r.Open) != 1 || r.Open[0] != (client.OpenWork{Agent: "reviewer", Count: 1}) {
			t.Errorf("the drain ended with %+v", r)
		}
	}
	if err := await.Receive(t, "the end of the query", asked); err == nil {
		t.Error("a query that nobody has answered succeeded")
	}
}

// An idle daemon ends at once. Who has hung up does not hold it up, and a signal ends a drain.
func TestDrainOfAnIdleDaemon(t *testing.T) {
	t.Parallel()
	desk := start(t, stateDir(t), "desk")
	desk.dial().refused(kinds.Invalid, "drain", client.DrainParams{TimeoutMS: uint64(client.MaxDrain.Milliseconds()) + 1})
	gone := desk.dial()
	ctx, cancel := context.WithCancel(t.Context())
	given := make(chan error, 1)
	go func() { given <- gone.Call(ctx, "drain", nil, nil) }()
	await.Until(t, "the drain has begun", desk.drain.HasBegun)
	cancel()
	if err := await.Receive(t, "the call that is given up", given); err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	gone.Close()
	await.Until(t, "the daemon has ended", desk.hasEnded)

	laptop := start(t, stateDir(t), "laptop")
	laptop.drain.Began(&peer.Passing{}) // a call that never ends
	l, broken := laptop.dial(), make(chan error, 1)
	go func() { broken <- l.call("drain", nil, nil) }()
	await.Until(t, "the drain has begun", laptop.drain.HasBegun)
	laptop.stop()
	if err := await.Receive(t, "the end of the call", broken); err == nil {
		t.Error("a drain that a signal has cut short succeeded")
	}
}

// awaitUnready waits until the daemon is unready for one reason, which has these words, and
// says so in its status.
func (d *running) awaitUnready(words string) {
	d.t.Helper()
	await.Until(d.t, "unready: "+words, func() bool {
		unready := d.readiness.Check(d.t.Context())
		return len(unready) == 1 && strings.Contains(unready[0], words)
	})
	s := get[client.Status](d.dial(), "status", nil)
	if s.Ready || len(s.Unready) != 1 || !strings.Contains(s.Unready[0], words) {
		d.t.Errorf("the status says ready: %t, %q", s.Ready, s.Unready)
	}
}

func (d *running) awaitReady() {
	d.t.Helper()
	await.Until(d.t, "ready", func() bool { return len(d.readiness.Check(d.t.Context())) == 0 })
}

func TestReadyDaemon(t *testing.T) {
	t.Parallel()
	desk := start(t, stateDir(t), "desk")
	desk.awaitReady()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 20 {
				if unready := desk.readiness.Check(t.Context()); len(unready) > 0 {
					t.Errorf("unready: %q", unready)
				}
			}
		})
	}
	for range 50 { // and no connection is lost
		desk.dial().must("whoami", nil, nil)
	}
	all.Wait()
	s := get[client.Status](desk.dial(), "status", nil)
	if !s.Ready || s.Unready == nil || len(s.Unready) > 0 {
		t.Errorf("the status says ready: %t, %q", s.Ready, s.Unready)
	}
}

// A daemon is unready on a low disk, while the writer is stuck, without its socket, and at its end.
func TestUnreadyDaemon(t *testing.T) {
	t.Parallel()
	desk, free := startWithDisk(t)
	desk.awaitReady()
	free.Store(1<<30 - 1)
	desk.awaitUnready("free some space")
	free.Store(1 << 40)
	desk.awaitReady()

	begun, end, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- desk.store.Write(t.Context(), false, func(*store.Tx) error { close(begun); <-end; return nil })
	}()
	<-begun
	desk.awaitUnready("writer of state.db")
	close(end)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	desk.awaitReady()

	caller, path := desk.dial(), desk.home.ownerSocketPath()
	if err := os.Rename(path, path+".away"); err != nil {
		t.Fatal(err)
	}
	s := get[client.Status](caller, "status", nil)
	if s.Ready || len(s.Unready) != 1 || !strings.Contains(s.Unready[0], path) {
		t.Errorf("the status says ready: %t, %q", s.Ready, s.Unready)
	}
	if err := os.Rename(path+".away", path); err != nil {
		t.Fatal(err)
	}
	desk.awaitReady()
	if err := os.Remove(desk.guests.Addr().String()); err != nil { // which an agent may do
		t.Fatal(err)
	}
	desk.awaitReady()
	desk.drain.BeginEnd()
	desk.awaitUnready("shutting down")
}
