package integration

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
)

// TestThreadsAndCopies: replies carry the thread, subscribers see copies of what
// goes and comes, and events; none of that is delivery.
func TestThreadsAndCopies(t *testing.T) {
	t.Parallel()
	desk, laptop := friends(t)
	desk.attach(client.AttachParams{Name: "reviewer"}, client.Handler{
		Query:    says("here").Query,
		Delegate: func(context.Context, *client.Inbound) (*kinds.Ack, error) { return nil, nil },
	})
	seen := make(chan string, 64)
	laptop.subscribe(client.SubscribeParams{}, func(m *client.Message) {
		seen <- string(m.Direction) + " " + m.Envelope.Kind + " " + m.Envelope.Thread
	}, nil)
	expect := func(want ...string) {
		t.Helper()
		for _, w := range want {
			if got := await.Receive(t, w, seen); got != w {
				t.Errorf("copy %q, want %q", got, w)
			}
		}
	}
	laptop.MustOutput("query", "desk", "there?", "--thread", "release 7", "--deadline", "30s") // else acpctl asks first whom it asks
	expect("out query release 7", "in response release 7")
	d := work("desk", "Tidy up.")
	d.Thread = "chores"
	given, err := laptop.Client.Delegate(await.NewContext(t), d)
	if err != nil {
		t.Fatal(err)
	}
	expect("out delegate chores", "in ack chores")
	if _, err := desk.Client.SendResult(await.NewContext(t), client.ResultParams{Ref: given.ID, Payload: kinds.EncodePayload(&kinds.Result{Status: "completed"})}); err != nil {
		t.Fatal(err)
	}
	expect("in result chores")
	// Whoever looks on has not got it: both are held.
	if said := desk.MustOutput("notify", "laptop", "build.done", "1"); said != "held\n" {
		t.Errorf("notify says %q", said)
	}
	expect("in notify ")
	if said := laptop.MustOutput("inbox"); strings.Count(said, "\n") != 2 {
		t.Errorf("inbox: %s", said)
	}

	events := make(chan *client.Event, 64)
	laptop.subscribe(client.SubscribeParams{Kinds: []string{"none"}, Events: client.EventFilter{All: true}}, nil, func(e *client.Event) { events <- e })
	stranger := running(t, "stranger")
	desk.StopDaemon()
	if e := await.Receive(t, "down", events); e.Type != client.EventDown || e.Peer != desk.ID || e.Name != "desk" {
		t.Errorf("event %+v", e)
	}
	desk.StartDaemon()
	if e := await.Receive(t, "up", events); e.Type != client.EventUp || e.Peer != desk.ID {
		t.Errorf("event %+v", e)
	}
	stranger.MustOutput("trust", laptop.ID.String(), "--name", "laptop", "--addr", laptop.Addr, "--yes")
	if e := await.Receive(t, "pending", events); e.Type != client.EventPending || e.Peer != stranger.ID || e.Name != "stranger" {
		t.Errorf("event %+v", e)
	}
	laptop.MustOutput("trust", stranger.ID.String(), "--yes")
	if e := await.Receive(t, "trust", events); e.Type != client.EventTrust || e.Peer != stranger.ID {
		t.Errorf("event %+v", e)
	}
}

// subscribe subscribes until the test ends, and waits until that counts.
func (m *machine) subscribe(p client.SubscribeParams, message func(*client.Message), event func(*client.Event)) {
	m.T.Helper()
	s := m.dial()
	conn := jsonrpc.NewConn(s.Conn, jsonrpc.Options{Notified: func(method string, params jsontext.Value) {
		copied, happened := new(client.Message), new(client.Event)
		switch {
		case method == client.NotificationMessage && message != nil && json.Unmarshal(params, copied) == nil:
			message(copied)
		case method == client.NotificationEvent && event != nil && json.Unmarshal(params, happened) == nil:
			event(happened)
		default:
			m.T.Errorf("notification %s %s", method, params)
		}
	}})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		conn.Run(context.Background())
	}()
	m.T.Cleanup(func() { conn.Close(); <-ended })
	if err := conn.Call(await.NewContext(m.T), client.MethodSubscribe, &p, nil); err != nil {
		m.T.Fatalf("subscribe: %v", err)
	}
}

// TestClientThatReadsNothing is dropped after 5 s, and nobody else notices.
func TestClientThatReadsNothing(t *testing.T) {
	t.Parallel()
	desk, laptop := friends(t)
	desk.attach(client.AttachParams{Name: "reviewer", MaxConcurrent: 64}, says("here"))
	copies := make(chan client.MessageDirection, 1024)
	desk.subscribe(client.SubscribeParams{Kinds: []string{"query"}}, func(m *client.Message) { copies <- m.Direction }, nil)
	deaf := desk.dial()
	if got := deaf.ask(`{"jsonrpc":"2.0","id":1,"method":"subscribe","params":{}}`); strings.Contains(got, "error") {
		t.Fatal(got)
	}
	begun := time.Now()
	ctx, c := await.NewContext(t), laptop.Client
	large := strings.Repeat("x", 100_000)
	var slowest time.Duration
	dropped := func() bool { // a blank line has no answer
		deaf.SetWriteDeadline(time.Now().Add(time.Second))
		_, err := deaf.Write([]byte("\n"))
		return errors.Is(err, syscall.EPIPE)
	}
	n := 0
	for ; !dropped(); n++ {
		if time.Since(begun) > await.Patience {
			t.Fatal("the client that reads nothing is not dropped")
		}
		asked := time.Now()
		if a, err := c.Query(ctx, question("desk", large)); summary(t, a, err) != "here" {
			t.Fatal("another answer")
		}
		slowest = max(slowest, time.Since(asked))
		if got := await.Receive(t, "copy", copies); got != client.In {
			t.Errorf("a copy of what went %s", got)
		}
	}
	took := time.Since(begun)
	t.Logf("dropped after %s and %d queries, the slowest in %s", took, n, slowest)
	if took < 5*time.Second {
		t.Errorf("dropped after %s, want 5 s", took)
	}
	await.CheckDuration(t, "the slowest query", slowest, 2*time.Second+slack)
}
