package mcp

import (
	"context"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
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

// A busy session gets its line when the turn has ended, and the daemon the answer then, also if it is started
// anew meanwhile. A message that is read before, or that nobody waits for any more, wakes nobody.
func TestWakeOfABusySession(t *testing.T) {
	d := newFakeDaemon(t)
	b := &busySession{newFakeSession(), make(chan struct{}), make(chan error, 9)}
	s := &Server{FindSession: func(context.Context, string, string) (harness.Session, error) { return b, nil }}
	s.timing = shortly
	s.timing.handover = 20 * time.Second
	p, agent := attachedProgram(t, d, s)
	wake := func(in *client.Inbound) <-chan client.WakeAnswer {
		t.Helper()
		said := wakeSoon(t, agent, in)
		if post := await.Receive(t, "a post", b.posts); post.Message != in.ID {
			t.Errorf("%+v", post)
		}
		return said
	}
	ends := func(what string, said <-chan client.WakeAnswer, posted bool) {
		t.Helper()
		if got := await.Receive(t, "the answer", said); got != (client.WakeAnswer{Posted: posted}) {
			t.Errorf("%s: %+v", what, got)
		}
		if err := await.Receive(t, "the end of a post", b.given); (err == nil) != posted {
			t.Errorf("%s: the post ends with %v", what, err)
		}
	}
	read := heldNotice(1, "one")
	d.inboxOf(read)
	said := wake(&client.Inbound{Envelope: read.Envelope, Name: "desk"})
	p.must("shown", "acp_inbox", nil)
	ends("read", said, false)
	asked := newInbound(kinds.KindQuery, &kinds.Query{Question: "?"})
	ctx, giveUp := context.WithCancel(t.Context())
	ask(ctx, agent, asked)
	said = wake(asked)
	giveUp()
	ends("given up", said, false)

	unread := newInbound(kinds.KindNotify, &kinds.Notify{Topic: "two"})
	unread.Wake = &client.WakeGrant{}
	go agent.conn.Call(context.Background(), client.MethodWake, unread, nil) // fails when the daemon ends
	await.Receive(t, "a post", b.posts)
	d.stop()
	d.start()
	agent = await.Receive(t, "the session is attached again", d.attached)
	close(b.idle)
	if err := await.Receive(t, "the end of a post", b.given); err != nil {
		t.Errorf("the daemon was started anew: %v", err)
	}
	ends("not read", wake(newInbound(kinds.KindNotify, &kinds.Notify{Topic: "three"})), true)
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
			if got := await.Receive(t, "the answer to the repeat", wakeSoon(t, agent, in)); got != (client.WakeAnswer{Posted: true}) || len(b.posts) > 0 {
				t.Errorf("the repeat begins a turn of its own: %+v", got)
			}
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
