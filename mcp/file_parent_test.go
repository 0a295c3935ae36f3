package mcp

import (
	"context"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// A file follows from a message as any other call does: from what about names, else from what the session was shown
// last. About may name a delegation that is still to be given, which is no parent.
// holds: security.md#agents-on-this-machine
func TestAFileFollowsFromAMessage(t *testing.T) {
	newFolder(t, "a.txt")
	d, p, _ := newSession(t)
	d.answer(client.MethodSpeak, struct{}{})
	m := heldNotice(1, "Send it to me.")
	var last client.FileSendParams
	d.handleMethod(client.MethodFileSend, func(_ context.Context, r *jsonrpc.Request) (any, error) {
		last = client.FileSendParams{}
		if err := r.ReadParams(&last); err != nil {
			return nil, err
		}
		if !last.Parent.IsZero() && last.Parent != m.Envelope.ID {
			return nil, kinds.Errorf(kinds.NotFound, "parent: not known").WithReason(kinds.ReasonParentUnknown)
		}
		conn, err := r.TakeOver(nil)
		if err != nil {
			return nil, err
		}
		line := endHanded(last)
		text, err := json.Marshal(&line)
		conn.Write(append(text, '\n'))
		return nil, err
	})
	future := wire.NewMessageID()
	send := func(about string, parent, ref wire.MessageID, guessed bool) {
		t.Helper()
		r := p.must("handed", "acp_file", args{"do": "send", "to": "desk", "path": "a.txt", "about": about})
		if last.ID != r.ID || last.Parent != parent || last.Guessed != guessed || last.Ref.IsZero() || !ref.IsZero() && last.Ref != ref {
			t.Errorf("about %q: %+v", about, last)
		}
	}
	none, shown := wire.MessageID{}, m.Envelope.ID
	send("", none, none, false)
	d.inboxOf(m)
	p.must("shown", "acp_inbox", nil)
	send("", shown, none, true)
	send(shown.String(), shown, shown, false)
	send(future.String(), shown, future, true)
	send("user", none, none, false)
	p.fails(kinds.Invalid, "acp_file", args{"do": "send", "to": "desk", "path": "a.txt", "about": "x"})
}

// A session ends although the file system of a file that it sends hangs; what panics is an error.
func TestNothingWaitsForAFileSystemThatHangs(t *testing.T) {
	s := new(Server)
	ctx, cancel := context.WithCancel(t.Context())
	hangs := make(chan struct{})
	defer close(hangs)
	_, err := s.awaitFile(ctx, func() (client.FileSent, error) { cancel(); <-hangs; return client.FileSent{}, nil })
	if err != context.Canceled {
		t.Error(err)
	}
	if _, err := s.awaitFile(t.Context(), func() (client.FileSent, error) { panic("x") }); err != errPanic {
		t.Error(err)
	}
	if sent, err := s.awaitFile(t.Context(), func() (client.FileSent, error) { return client.FileSent{Had: true}, nil }); err != nil || !sent.Had {
		t.Errorf("%+v, %v", sent, err)
	}
}
