package mcp

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/harness"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// inboxOf lets the daemon have an inbox with these messages.
func (d *fakeDaemon) inboxOf(messages ...client.HeldMessage) (shown, acked *[]string) {
	shown, acked = new([]string), new([]string)
	var mu sync.Mutex
	serve(d, client.MethodInbox, func(p client.InboxParams) (any, error) {
		out := &client.Inbox{Messages: []client.HeldMessage{}}
		if !p.Peek {
			d.t.Error("the inbox is read without peek")
		}
		mu.Lock()
		defer mu.Unlock()
		for _, m := range messages {
			if m.Seq <= p.After || slices.Contains(*acked, m.Envelope.ID.String()) ||
				len(p.Peers) > 0 && !slices.Contains(p.Peers, m.Envelope.From.String()) || len(p.IDs) > 0 && !slices.Contains(p.IDs, m.Envelope.ID) {
				continue
			}
			if len(out.Messages) == p.Limit {
				out.Next = out.Messages[p.Limit-1].Seq
				break
			}
			out.Messages = append(out.Messages, m)
		}
		return out, nil
	})
	d.handleMethod(client.MethodShown, func(_ context.Context, r *jsonrpc.Request) (any, error) {
		var p client.ShownParams
		err := r.ReadParams(&p)
		mu.Lock()
		defer mu.Unlock()
		for _, m := range messages {
			if slices.Contains(p.Seqs, m.Seq) {
				*shown = append(*shown, m.Envelope.ID.String())
			}
		}
		return struct{}{}, err
	})
	d.handleMethod(client.MethodAck, func(_ context.Context, r *jsonrpc.Request) (any, error) {
		var p client.AckParams
		err := r.ReadParams(&p)
		out := new(client.Acked)
		mu.Lock()
		defer mu.Unlock()
		for _, m := range messages {
			id := m.Envelope.ID
			switch {
			case !slices.Contains(p.IDs, id) || slices.Contains(*acked, id.String()):
			case slices.Contains(*shown, id.String()):
				*acked = append(*acked, id.String())
				out.IDs = append(out.IDs, id)
				out.Removed++
			default:
				out.NotShown = append(out.NotShown, id)
			}
		}
		return out, err
	})
	return shown, acked
}

func heldNotice(seq uint64, data string) client.HeldMessage {
	in := newInbound(kinds.KindNotify, map[string]any{"topic": "build.done", "data": data})
	return client.HeldMessage{Seq: seq, Envelope: in.Envelope}
}

// The inbox shows as much as a page holds, and only what was shown to its end can be removed.
func TestInboxComesInPages(t *testing.T) {
	d, p, _ := newSession(t)
	var all []client.HeldMessage
	for i := range 40 {
		all = append(all, heldNotice(uint64(i+1), fmt.Sprintf("notice %d ", i)+strings.Repeat("x", 300)))
	}
	long := heldNotice(41, "the long one "+strings.Repeat("word ", 5000))
	shown, _ := d.inboxOf(append(all, long)...)
	seen := 0
	for seen < 40 {
		r := p.must("shown", "acp_inbox", nil)
		if len(r.said) > client.PeerPageSize || len(r.Text) > client.PeerPageSize || !strings.Contains(r.said, "There is more") {
			t.Fatalf("a page of %d bytes: %s", len(r.said), r.said)
		}
		n := strings.Count(r.Text, "BEGIN PEER TEXT")
		if n == 0 || !strings.Contains(r.Text, fmt.Sprintf("notice %d ", seen)) {
			t.Fatalf("from %d on: %s", seen, r.Text)
		}
		var ids []string
		for _, m := range all[seen : seen+n] {
			ids = append(ids, m.Envelope.ID.String())
		}
		seen += n
		if seen < 40 {
			r = p.must("shown", "acp_inbox", args{"ack": ids})
			if !strings.Contains(r.said, fmt.Sprintf("%d of %d removed.", n, n)) {
				t.Fatalf("ack: %s", r.said[:200])
			}
			continue
		}
		p.must("shown", "acp_inbox", args{"ack": ids})
	}
	id := long.Envelope.ID.String()
	r := p.must("shown", "acp_inbox", args{"ack": []string{id}}) // seen in part
	if !strings.Contains(r.said, "0 of 1 removed.") || r.Next != 2 || !strings.Contains(r.Text, "Part 1 of ") {
		t.Errorf("%s", r.said)
	}
	for r.Next > 0 {
		if slices.Contains(*shown, id) {
			t.Error("a message counts as shown before its end")
		}
		r = p.must("shown", "acp_inbox", args{"id": id, "page": r.Next})
		if len(r.said) > client.PeerPageSize {
			t.Errorf("a page of %d bytes", len(r.said))
		}
	}
	if r := p.must("shown", "acp_inbox", args{"ack": []string{id}}); r.said != "1 of 1 removed.\nNothing waits." {
		t.Errorf("%s", r.said)
	}
	p.fails(kinds.NotFound, "acp_inbox", args{"id": id})
}

// A session that is about to be attached hears so, and not that its user has to change something.
func TestInboxWhileAttaching(t *testing.T) {
	d := newFakeDaemon(t)
	s := &Server{Attach: &client.AttachParams{}, FindSession: func(ctx context.Context, _, _ string) (harness.Session, error) {
		<-ctx.Done()
		return nil, nil
	}}
	p := startProgram(t, d, s)
	if r := p.fails(kinds.NoAgent, "acp_inbox", nil); !r.Error.Retryable || !strings.Contains(r.Error.Message, "is being attached") {
		t.Errorf("%+v", r.Error)
	}
}

// A message counts as shown only if the page with it is returned: not if the daemon cannot note that it
// is shown, nor if the program gives up the call.
func TestAPageThatIsNotReturnedShowsNothing(t *testing.T) {
	d := newFakeDaemon(t)
	f := newFakeSession()
	s := &Server{FindSession: func(context.Context, string, string) (harness.Session, error) { return f, nil }}
	p, agent := attachedProgram(t, d, s)
	notice := heldNotice(1, "one")
	d.inboxOf(notice)
	marks := d.methods[client.MethodShown]
	check := func(how string) {
		t.Helper()
		if s.seen.newest() != (messageKey{}) || len(s.seen.keysOf(notice.Envelope.ID)) > 0 {
			t.Errorf("%s: the notice counts as shown", how)
		}
		if _, unseen := s.requests.count(); unseen != 1 {
			t.Errorf("%s: the query counts as shown", how)
		}
		if !await.Receive(t, "the answer", wakeSoon(t, agent, &client.Inbound{Envelope: notice.Envelope, Name: "desk"})).Posted {
			t.Errorf("%s: the notice wakes nobody", how)
		}
		s.seen.last.forget(keyOf(&notice.Envelope)) // which the wake has noted
		await.Receive(t, "a post", f.posts)
	}
	openQuery(t, agent, "?", 0)
	p.awaitOpen(1)
	d.answer(client.MethodShown, kinds.Errorf(kinds.Internal, "the disk is full"))
	p.fails(kinds.Internal, "acp_inbox", nil)
	check("not noted")

	ctx, giveUp := context.WithCancel(t.Context())
	noted := make(chan struct{})
	d.handleMethod(client.MethodShown, func(ctx context.Context, r *jsonrpc.Request) (any, error) {
		giveUp()
		<-ctx.Done()
		close(noted)
		return marks(ctx, r)
	})
	if r, err := p.callIn(ctx, &sdk.CallToolParams{Name: "acp_inbox", Arguments: args{}}); err == nil {
		t.Fatalf("not given up: %s", r.said)
	}
	await.Receive(t, "word of it at the daemon", noted)
	check("given up")
	d.handleMethod(client.MethodShown, marks)
	p.must("shown", "acp_inbox", nil)
	if s.seen.newest() == (messageKey{}) || len(s.seen.keysOf(notice.Envelope.ID)) != 1 {
		t.Error("what is shown does not count")
	}
}

// An ack says which messages it has not removed, and why.
func TestAnAckNamesWhatItKeeps(t *testing.T) {
	d, p, agent := newSession(t)
	read, long := heldNotice(1, "one"), heldNotice(2, strings.Repeat("long ", 5000))
	d.inboxOf(read, long)
	open, _ := openQuery(t, agent, "?", 0)
	p.awaitOpen(1)
	p.must("shown", "acp_inbox", nil)
	p.must("shown", "acp_inbox", args{"id": long.Envelope.ID.String()})
	never, gone := wire.NewMessageID(), read.Envelope.ID
	ids := []string{open.ID.String(), long.Envelope.ID.String(), gone.String(), gone.String(), never.String()}
	want := fmt.Sprintf("1 of 4 removed. Not removed: %s: waits for acp_reply; %s: not shown to its end: read it, by id; %s: not in the inbox, or not any more.\n", ids[0], ids[1], never)
	if r := p.must("shown", "acp_inbox", args{"ack": ids}); !strings.HasPrefix(r.said, want) {
		t.Errorf("got\n%s\nwant\n%s", r.said, want)
	}
	want = fmt.Sprintf("0 of 2 removed. Not removed: %s, %s: not in the inbox, or not any more.\n", gone, never)
	if r := p.must("shown", "acp_inbox", args{"ack": ids[3:]}); !strings.HasPrefix(r.said, want) {
		t.Errorf("got\n%s\nwant\n%s", r.said, want)
	}
	p.must("answered", "acp_reply", args{"id": ids[0], "text": "42"})
	want = fmt.Sprintf("0 of 1 removed. Not removed: %s: no message of the inbox, and not open any more.\n", ids[0])
	if r := p.must("shown", "acp_inbox", args{"ack": ids[:1]}); !strings.HasPrefix(r.said, want) {
		t.Errorf("got\n%s\nwant\n%s", r.said, want)
	}
	ids = nil
	for range maxAcks {
		ids = append(ids, wire.NewMessageID().String())
	}
	if r := p.must("shown", "acp_inbox", args{"ack": ids}); !strings.Contains(r.said, fmt.Sprintf("; and %d more.", maxAcks-maxNamedAcks)) || len(r.said) > client.PeerPageSize {
		t.Errorf("%d bytes: %s", len(r.said), r.said)
	}
	p.fails(kinds.Invalid, "acp_inbox", args{"ack": append(ids, gone.String())})
	if r := p.must("shown", "acp_inbox", args{"ack": []string{gone.String()}, "id": gone.String()}); !strings.HasPrefix(r.said, "0 of 1 removed.") || !strings.Contains(r.said, gone.String()+" is not in the inbox.") {
		t.Errorf("%s", r.said)
	}
}

// Of an older daemon only the number of messages that an ack removes is known.
func TestAnAckOfAnOlderDaemonNamesNothing(t *testing.T) {
	d, p, _ := newSession(t)
	d.answer(client.MethodAck, &client.Acked{Removed: 1})
	r := p.must("shown", "acp_inbox", args{"ack": []string{wire.NewMessageID().String(), wire.NewMessageID().String()}})
	if r.said != "1 of 2 removed.\nNothing waits." {
		t.Errorf("%s", r.said)
	}
}

// A message of before its daemon checked numbers is left out of what a program reads: it would refuse the
// whole line, with the messages of others.
func TestNumbersThatProgramsRefuseAreInNoMeta(t *testing.T) {
	d, p, _ := newSession(t)
	bad, good := heldNotice(1, "x"), heldNotice(2, "y")
	bad.Envelope.Payload = wire.Payload(`{"topic":"build.done","data":[1e999]}`)
	d.inboxOf(bad, good)
	r := p.must("shown", "acp_inbox", nil)
	exact := fmt.Sprint(r.meta[metaExact])
	if !strings.Contains(r.said, "1e999") || strings.Contains(exact, "1e999") || strings.Contains(exact, bad.Envelope.ID.String()) || !strings.Contains(exact, good.Envelope.ID.String()) {
		t.Errorf("shown: %s\nexact: %s", r.said, exact)
	}
}
