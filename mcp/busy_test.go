package mcp

import (
	"context"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/harness"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
)

// busySession has a turn that does not end before idle is closed.
type busySession struct {
	*fakeSession
	idle  chan struct{}
	given chan error // how each post has ended
}

func (b *busySession) Post(ctx context.Context, p harness.Post) (harness.Posted, error) {
	b.posts <- p
	select {
	case <-b.idle:
		b.given <- nil
		return harness.Posted{}, nil
	case <-ctx.Done():
		b.given <- ctx.Err()
		return harness.Posted{}, ctx.Err()
	}
}

// A busy session gets its line when the turn has ended, although the daemon waits less long for
// word of it; a message that is read before then wakes nobody.
func TestWakeOfABusySession(t *testing.T) {
	d := newFakeDaemon(t)
	unposted := make(chan client.UnpostedParams, 9)
	d.handleMethod(client.MethodUnposted, func(_ context.Context, r *jsonrpc.Request) (any, error) {
		var p client.UnpostedParams
		err := r.ReadParams(&p)
		unposted <- p
		return struct{}{}, err
	})
	b := &busySession{newFakeSession(), make(chan struct{}), make(chan error, 9)}
	s := &Server{FindSession: func(context.Context, string, string) (harness.Session, error) { return b, nil }}
	s.timing = shortly
	s.timing.wake, s.timing.handover = 200*time.Millisecond, 20*time.Second
	_, agent := attachedProgram(t, d, s)
	wake := func(in *client.Inbound) {
		t.Helper()
		if a := await.Receive(t, "the answer", wakeSoon(t, agent, in)); a != (client.WakeAnswer{Posted: true}) {
			t.Errorf("%+v", a)
		}
		if post := await.Receive(t, "a post", b.posts); post.Message != in.ID {
			t.Errorf("%+v", post)
		}
	}
	read := newInbound(kinds.KindNotify, &kinds.Notify{Topic: "one"})
	wake(read)
	s.reading.end(keyOf(&read.Envelope), read.TS)
	if err := await.Receive(t, "the end of a post", b.given); err == nil {
		t.Error("a message that was read wakes the session")
	}
	if got := await.Receive(t, "word that it was not posted", unposted); got.ID != read.ID || got.Peer != read.From {
		t.Errorf("%+v", got)
	}
	asked := newInbound(kinds.KindQuery, &kinds.Query{Question: "?"})
	ctx, giveUp := context.WithCancel(t.Context())
	ask(ctx, agent, asked)
	wake(asked)
	giveUp()
	await.Receive(t, "the end of a post", b.given)
	if got := await.Receive(t, "word that it was not posted", unposted); got.ID != asked.ID {
		t.Errorf("%+v", got)
	}
	unread := newInbound(kinds.KindNotify, &kinds.Notify{Topic: "two"})
	wake(unread)
	close(b.idle)
	if err := await.Receive(t, "the end of a post", b.given); err != nil {
		t.Errorf("a message that was not read does not wake the session: %v", err)
	}
	await.Until(t, "nothing is left", func() bool {
		s.reading.mu.Lock()
		defer s.reading.mu.Unlock()
		return len(s.reading.open) == 0
	})
	if len(unposted) > 0 {
		t.Error("what was posted is not said to be so")
	}
}

// A query that comes again while the session is busy stays open if the first is given up: the session is woken for it when the turn has ended, unless it was read before.
func TestARepeatedQueryOutlastsTheFirst(t *testing.T) {
	for name, read := range map[string]bool{"read": true, "not read": false} {
		t.Run(name, func(t *testing.T) {
			d := newFakeDaemon(t)
			b := &busySession{newFakeSession(), make(chan struct{}), make(chan error, 9)}
			p, agent := attachedProgram(t, d, &Server{FindSession: func(context.Context, string, string) (harness.Session, error) { return b, nil }})
			in := newInbound(kinds.KindQuery, &kinds.Query{Question: "?"})
			in.DeadlineMS = 60_000
			ctx, giveUp := context.WithCancel(t.Context())
			first := ask(ctx, agent, in)
			said := wakeSoon(t, agent, in)
			await.Receive(t, "a post", b.posts)
			ask(t.Context(), agent, in) // again, under the same id
			p.awaitWaiting(in, 2)
			giveUp()
			await.Receive(t, "the end of the first", first)
			if read {
				p.must("shown", "acp_inbox", args{})
			} else {
				close(b.idle)
			}
			if err := await.Receive(t, "the end of the post", b.given); (err != nil) != read {
				t.Errorf("the post ends with %v", err)
			}
			if got := await.Receive(t, "the answer", said); got.Posted == read {
				t.Errorf("%+v", got)
			}
		})
	}
}
