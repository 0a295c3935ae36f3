package mcp

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/harness"
	"github.com/acpd/acpd/kinds"
)

// inboxOf lets the daemon have an inbox with these messages.
func (d *fakeDaemon) inboxOf(messages ...client.HeldMessage) (shown, acked *[]string) {
	shown, acked = new([]string), new([]string)
	d.handleMethod(client.MethodInbox, func(_ context.Context, r *jsonrpc.Request) (any, error) {
		var p client.InboxParams
		if err := r.ReadParams(&p); err != nil {
			return nil, err
		}
		out := &client.Inbox{Messages: []client.HeldMessage{}}
		if !p.Peek {
			d.t.Error("the inbox is read without peek")
		}
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
		n := 0
		for _, id := range p.IDs {
			if slices.Contains(*shown, id.String()) {
				*acked = append(*acked, id.String())
				n++
			}
		}
		return &client.Acked{Removed: n}, err
	})
	return shown, acked
}

func heldNotice(seq uint64, data string) client.HeldMessage {
	in := newInbound(kinds.KindNotify, map[string]any{"topic": "build.done", "data": data})
	return client.HeldMessage{Seq: seq, Envelope: in.Envelope}
}

// The inbox shows as much as a page holds, and only what was shown to its end can be removed.
func TestInboxComesInPages(t *testing.T) {
	d := newFakeDaemon(t)
	p, _ := attachedProgram(t, d, &Server{})
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
