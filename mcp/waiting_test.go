package mcp

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// countInbox counts how often the inbox is read, and how many messages of it.
func (d *fakeDaemon) countInbox() (calls, messages *int) {
	calls, messages = new(int), new(int)
	read := d.methods[client.MethodInbox]
	d.handleMethod(client.MethodInbox, func(ctx context.Context, r *jsonrpc.Request) (any, error) {
		inbox, err := read(ctx, r)
		*calls++
		*messages += len(inbox.(*client.Inbox).Messages)
		return inbox, err
	})
	return calls, messages
}

// What one peer sends hides no other peer's message, be it much or long.
// holds: security.md#agents-on-this-machine
func TestPeersTakeTurnsInTheInbox(t *testing.T) {
	for name, text := range map[string]string{"many": "again", "many that fill a page": strings.Repeat("again ", 700), "long ones": strings.Repeat("again ", 2000)} {
		t.Run(name, func(t *testing.T) {
			d, p, _ := newSession(t)
			d.addShelf()
			var all []client.HeldMessage
			for i := range 1000 {
				all = append(all, heldNotice(uint64(i+1), text))
			}
			one := client.HeldMessage{Seq: 1001, Envelope: copyFrom(wire.NewMessageID(), kinds.KindNotify, map[string]any{"topic": "build.done", "data": "I am here"}).Envelope}
			d.inboxOf(append(all, one)...)
			calls, messages := d.countInbox()
			r := p.must("shown", "acp_inbox", nil)
			if !strings.Contains(r.Text, "I am here") || !strings.Contains(r.said, "There is more") || len(r.said) > client.PeerPageSize {
				t.Errorf("%d bytes: %s", len(r.said), r.said)
			}
			first := all[0].Envelope.ID.String()
			if !strings.Contains(r.Text, first) {
				t.Errorf("the first of the others is neither shown nor named: %s", r.said)
			}
			if *calls > 3 || *messages > 3*inboxBatch {
				t.Errorf("%d calls read %d messages", *calls, *messages)
			}
			if r := p.must("shown", "acp_inbox", args{"id": first, "peer": "desk"}); !strings.Contains(r.Text, "again") || strings.Contains(r.Text, "I am here") {
				t.Errorf("by id: %s", r.said)
			}
			if r := p.must("shown", "acp_inbox", args{"peer": "shelf"}); strings.Count(r.Text, "BEGIN PEER TEXT") != 1 || !strings.Contains(r.Text, "I am here") {
				t.Errorf("of one peer: %s", r.said)
			}
			p.fails(kinds.UnknownPeer, "acp_inbox", args{"peer": "attic"})
			p.fails(kinds.NotFound, "acp_inbox", args{"id": one.Envelope.ID.String(), "peer": "desk"})
			if r := p.must("shown", "acp_inbox", args{"peer": "shelf", "ack": []string{one.Envelope.ID.String()}}); r.said != "1 of 1 removed.\nNothing of shelf waits." {
				t.Errorf("%s", r.said)
			}
		})
	}
}

// With many peers, each is shown or named on the first page.
// holds: security.md#agents-on-this-machine
func TestManyPeersInTheInbox(t *testing.T) {
	d := newFakeDaemon(t)
	var peers client.Peers
	var all []client.HeldMessage
	for i := range sendersOfPage {
		id := identity.ID{0xa0, byte(i)}
		peers.Peers = append(peers.Peers, client.Peer{ID: id, Name: fmt.Sprintf("peer-of-a-long-name-%02d", i), State: client.PeerConnected, Addrs: []string{}})
		for range 100 {
			in := copyFrom(wire.NewMessageID(), kinds.KindNotify, map[string]any{"topic": "build.done", "data": strings.Repeat("again ", 10<<(i%8))})
			in.From = id
			all = append(all, client.HeldMessage{Seq: uint64(len(all) + 1), Envelope: in.Envelope})
		}
	}
	d.answer(client.MethodPeers, &peers)
	p, _ := attachedProgram(t, d, &Server{})
	d.inboxOf(all...)
	r := p.must("shown", "acp_inbox", nil)
	if len(r.said) > client.PeerPageSize {
		t.Errorf("a page of %d bytes", len(r.said))
	}
	for _, peer := range peers.Peers {
		if !strings.Contains(r.Text, peer.Name) {
			t.Errorf("nothing of %s: %s", peer.Name, r.said)
		}
	}
}

// Open requests take turns too, with each other and with the inbox.
// holds: security.md#agents-on-this-machine
func TestPeersTakeTurnsWithRequests(t *testing.T) {
	d, p, agent := newSession(t)
	d.addShelf()
	d.inboxOf(heldNotice(1, "all green"))
	for range 8 {
		openQuery(t, agent, strings.Repeat("again ", 900), 0)
	}
	p.awaitOpen(8)
	in := copyFrom(wire.NewMessageID(), kinds.KindQuery, &kinds.Query{Question: "And me?"})
	ask(t.Context(), agent, in)
	p.awaitOpen(9)
	r := p.must("shown", "acp_inbox", nil)
	if !strings.Contains(r.Text, "And me?") || !strings.Contains(r.Text, "There is more") || strings.Count(r.Text, "again again") == 0 && !strings.Contains(r.Text, "From desk: a query of ") {
		t.Errorf("%s", r.said)
	}
}
