package talk

import (
	"context"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/internal/app/cli/clitest"
	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/internal/app/cli/ui"
	"github.com/acpd/acpd/kinds"
)

// peerAnswers lets the daemon's peer answer pings and discover one after the other as given; the
// last one stays. An error is answered as it is.
func peerAnswers(f *clitest.FakeDaemon, method, kind string, answers ...any) *atomic.Int32 {
	calls := new(atomic.Int32)
	f.SetHandler(method, func(*jsonrpc.Request) (any, error) {
		a := answers[min(int(calls.Add(1)), len(answers))-1]
		if err, ok := a.(error); ok {
			return nil, err
		}
		return &client.Answer{ID: clitest.SomeID, From: clitest.DeskID, Kind: kind, RTTUS: 1234, Payload: kinds.EncodePayload(a)}, nil
	})
	return calls
}

func newAway() *kinds.Error {
	return kinds.Errorf(kinds.Unreachable, "desk: nothing listens at 192.0.2.1:7117; start its daemon").WithDelivered(kinds.DeliveredNo)
}

func newPeerError(code kinds.Code) *kinds.Error {
	e := kinds.Errorf(code, "\x1b[2J peer's words")
	e.From = clitest.DeskID.String()
	return e
}

func TestWaitOnline(t *testing.T) {
	f := newDaemon(t)
	idle := &kinds.Pong{Status: "idle"}
	pings := peerAnswers(f, client.MethodPing, kinds.KindPong, newAway(), newPeerError(kinds.Overloaded), kinds.Errorf(kinds.Timeout, "desk gave no answer"), idle)
	f.WantResult(f.Run("wait", "desk", "--online"), 0, "desk is online (1.234 ms)\n", "")
	if n := pings.Load(); n != 4 {
		t.Errorf("%d pings", n)
	}
	found := peerAnswers(f, client.MethodDiscover, kinds.KindCapabilities, newPeerError(kinds.NoAgent), &kinds.Capabilities{AgentName: "reviewer", Sessions: []string{"reviewer"}})
	got := f.Run("wait", "desk/reviewer", "--online", "--timeout", "1h", "--json")
	if got.Code != 0 || !strings.HasPrefix(got.Out, `{"peer":"desk","id":"`+clitest.DeskID.String()+`","agent":"reviewer","status":"idle","rtt_us":1234,"waited_ms":`) || found.Load() != 2 {
		t.Errorf("%+v", got)
	}
}

func TestWaitIdle(t *testing.T) {
	f := newDaemon(t)
	peerAnswers(f, client.MethodPing, kinds.KindPong, &kinds.Pong{Status: "busy", ActiveTasks: 3}, &kinds.Pong{Status: "idle"})
	found := peerAnswers(f, client.MethodDiscover, kinds.KindCapabilities,
		&kinds.Capabilities{AgentName: "desk", Agents: []string{"reviewer"}},                                  // and busy
		&kinds.Capabilities{AgentName: "desk"},                                                                // nobody is attached
		&kinds.Capabilities{AgentName: "desk", Agents: []string{"claude"}, Sessions: []string{"claude"}},      // and cannot be woken
		&kinds.Capabilities{AgentName: "desk", Agents: []string{"claude", "a"}, Sessions: []string{"claude"}}, // one is there
	)
	f.WantResult(f.Run("wait", "desk", "--idle"), 0, "desk is idle (1.234 ms)\n", "")
	if n := found.Load(); n != 4 {
		t.Errorf("%d times it was asked who is there", n)
	}
	peerAnswers(f, client.MethodDiscover, kinds.KindCapabilities, &kinds.Capabilities{AgentName: "claude", Sessions: []string{"claude"}}, &kinds.Capabilities{AgentName: "claude"})
	f.WantResult(f.Run("wait", "desk/claude", "--idle"), 0, "desk/claude is idle (1.234 ms)\n", "")
}

func TestWaitForPeerThatNeverComes(t *testing.T) {
	f := newDaemon(t)
	peerAnswers(f, client.MethodPing, kinds.KindPong, newAway())
	f.WantResult(f.Run("wait", "desk", "--online", "--timeout", "300ms"), frame.ExitTimeout, "",
		"acpctl wait: desk was not online within 300ms: desk: nothing listens at 192.0.2.1:7117; start its daemon\n")
	peerAnswers(f, client.MethodPing, kinds.KindPong, newPeerError(kinds.Overloaded)) // whose words are not ours
	f.WantResult(f.Run("wait", "desk", "--online", "--timeout", "300ms"), frame.ExitTimeout, "",
		"acpctl wait: desk was not online within 300ms: it answers overloaded\n")
	silent := make(chan struct{})
	f.SetHandler(client.MethodPing, func(*jsonrpc.Request) (any, error) { <-silent; return nil, newAway() })
	f.WantResult(f.Run("wait", "desk", "--online", "--timeout", "50ms"), frame.ExitTimeout, "",
		"acpctl wait: desk was not online within 50ms: there was no answer yet\n")
	close(silent)
	for _, c := range []struct {
		err  *kinds.Error
		code int
	}{
		{kinds.Errorf(kinds.UnknownPeer, "to: no peer"), 5},
		{kinds.Errorf(kinds.NotTrusted, "desk does not trust this daemon"), frame.ExitRefused},
		{newPeerError(kinds.NotAuthorized), frame.ExitRefused},
		{kinds.Errorf(kinds.DaemonUnavailable, "no daemon"), 6},
	} {
		pings := peerAnswers(f, client.MethodPing, kinds.KindPong, c.err)
		if got := f.Run("wait", "desk", "--online"); got.Code != c.code || pings.Load() != 1 {
			t.Errorf("%s: %+v after %d pings", c.err.Code, got, pings.Load())
		}
	}
}

// TestWaitIsPaced: a peer of which there is news all the time is not asked all the time.
func TestWaitIsPaced(t *testing.T) {
	f := newDaemon(t)
	done := make(chan struct{})
	defer close(done)
	f.SetHandler(client.MethodSubscribe, func(*jsonrpc.Request) (any, error) {
		conn := f.SubscribedConn()
		go func() {
			for {
				select {
				case <-done:
					return
				case <-time.After(time.Millisecond): // the pace of what happens
					conn.Notify(client.NotificationEvent, &client.Event{Type: client.EventUp, Name: "desk"})
				}
			}
		}()
		return struct{}{}, nil
	})
	pings := peerAnswers(f, client.MethodPing, kinds.KindPong, newAway())
	if got := f.Run("wait", "desk", "--online", "--timeout", "1s"); got.Code != frame.ExitTimeout || pings.Load() > 11 {
		t.Errorf("%d pings in a second: %+v", pings.Load(), got)
	}
}

// TestNewsEndsAPause: who waits does not sit out the pause when the peer comes.
func TestNewsEndsAPause(t *testing.T) {
	f := newDaemon(t)
	subscribed := make(chan *jsonrpc.Conn, 1)
	f.SetHandler(client.MethodSubscribe, func(*jsonrpc.Request) (any, error) {
		subscribed <- f.SubscribedConn()
		return struct{}{}, nil
	})
	slow := newAway()
	slow.RetryAfterMS = 60_000 // the longest pause
	pings := peerAnswers(f, client.MethodPing, kinds.KindPong, slow, &kinds.Pong{Status: "idle"})
	ended := make(chan int, 1)
	go func() {
		ended <- f.RunWithoutHome(t.Context(), ui.Terminal{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard}, "--home", f.Home, "wait", "desk", "--online")
	}()
	conn := <-subscribed
	await.Until(t, "the first ping", func() bool { return pings.Load() == 1 })
	conn.Notify(client.NotificationEvent, &client.Event{Type: client.EventUp, Name: "desk"})
	if code := await.Receive(t, "the end", ended); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// TestSendOnline: a message is sent again only while every failure proves that nothing was sent, and the
// peer has answered a ping meanwhile.
func TestSendOnline(t *testing.T) {
	for _, verb := range []struct {
		args   []string
		method string
		answer any
		out    string
	}{
		{[]string{"query", "desk", "hi"}, client.MethodQuery, &client.Answer{ID: clitest.SomeID, From: clitest.DeskID, Kind: kinds.KindResponse, Payload: kinds.EncodePayload(&kinds.Response{Summary: "here"})}, "here\n"},
		{[]string{"delegate", "desk", "build"}, client.MethodDelegate, &client.DelegateAnswer{ID: clitest.SomeID, From: clitest.DeskID, Payload: kinds.EncodePayload(&kinds.Ack{Accepted: true})}, clitest.SomeID.String() + "\n"},
		{[]string{"notify", "desk", "built", "true"}, client.MethodNotify, &client.Receipt{ID: clitest.SomeID, State: client.Held}, "held\n"},
	} {
		f := newDaemon(t)
		sends := func(answers ...any) *atomic.Int32 {
			calls := new(atomic.Int32)
			f.SetHandler(verb.method, func(*jsonrpc.Request) (any, error) {
				a := answers[min(int(calls.Add(1)), len(answers))-1]
				if err, ok := a.(error); ok {
					return nil, err
				}
				return a, nil
			})
			return calls
		}
		waiting := append(verb.args, "--wait-online", "20s")
		pings := peerAnswers(f, client.MethodPing, kinds.KindPong, newAway(), newAway(), &kinds.Pong{Status: "idle"})
		sent := sends(newAway(), newAway(), verb.answer)
		f.WantResult(f.Run(waiting...), 0, verb.out, "")
		if sent.Load() != 3 || pings.Load() != 4 {
			t.Errorf("%s: sent %d times after %d pings", verb.method, sent.Load(), pings.Load())
		}

		unknown := kinds.Errorf(kinds.Unreachable, "desk: gone").WithDelivered(kinds.DeliveredUnknown)
		late := kinds.Errorf(kinds.Timeout, "desk: late").WithDelivered(kinds.DeliveredUnknown)
		silent := kinds.Errorf(kinds.Unreachable, "desk: away") // says nothing of delivery
		for _, end := range []*kinds.Error{unknown, late, silent, newPeerError(kinds.Unreachable).WithDelivered(kinds.DeliveredNo), newPeerError(kinds.NoAgent), kinds.Errorf(kinds.UnknownPeer, "who?")} {
			if sent := sends(end); f.Run(waiting...).Code != frame.FindExitCode(end) || sent.Load() != 1 {
				t.Errorf("%s: %v: sent %d times", verb.method, end, sent.Load())
			}
			if sent := sends(newAway(), end); f.Run(waiting...).Code != frame.FindExitCode(end) || sent.Load() != 2 {
				t.Errorf("%s: %v at last: sent %d times", verb.method, end, sent.Load())
			}
		}

		peerAnswers(f, client.MethodPing, kinds.KindPong, newAway())
		sent = sends(newAway())
		got := f.Run(append(verb.args, "--wait-online", "300ms")...)
		if got.Code != 5 || sent.Load() != 1 || !strings.Contains(got.Err, "desk: nothing listens at 192.0.2.1:7117; start its daemon; waited 300ms for it, and nothing was sent") {
			t.Errorf("%s: sent %d times: %+v", verb.method, sent.Load(), got)
		}
		if sent = sends(newAway()); f.Run(verb.args...).Code != 5 || sent.Load() != 1 {
			t.Errorf("%s: without --wait-online: sent %d times", verb.method, sent.Load())
		}
		f.WantResult(f.Run(append(verb.args, "--wait-online", "-1s")...), frame.ExitUsage, "", "acpctl "+verb.args[0]+": --wait-online: expected a duration like 30s\nSee: acpctl "+verb.args[0]+" --help\n")

		// Who gives up while it waits hears that nothing was sent.
		ctx, cancel := context.WithCancel(t.Context())
		pings = peerAnswers(f, client.MethodPing, kinds.KindPong, newAway())
		var stderr strings.Builder
		ended := make(chan int, 1)
		go func() {
			ended <- f.RunWithoutHome(ctx, ui.Terminal{In: strings.NewReader(""), Out: io.Discard, Err: &stderr}, append([]string{"--home", f.Home}, waiting...)...)
		}()
		await.Until(t, "it waits", func() bool { return pings.Load() > 0 })
		cancel()
		if code := await.Receive(t, "the end", ended); code != frame.ExitInterrupted || stderr.String() != "acpctl "+verb.args[0]+": interrupted; nothing was sent\n" {
			t.Errorf("%s: exit code %d: %s", verb.method, code, &stderr)
		}
	}
}
