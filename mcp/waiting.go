package mcp

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/wire"
)

// waitingMessage is a message that waits for the session.
type waitingMessage struct {
	*wire.Envelope
	open *openRequest // the request that the message is, or nil if it is in the inbox
	seq  uint64       // its number in the inbox
	file bool         // the daemon reports a file by it
	turn int          // how many messages of the same peer are before it
}

// remaining returns how long the message can still be answered, or 0 if it has no deadline.
func (w *waitingMessage) remaining() time.Duration {
	if w.open == nil {
		return 0
	}
	return w.open.remaining()
}

// describeDeadline returns a line that says how long the message can still be answered, or "" if it
// has no deadline. since is the start of that time, such as " of its arrival", or "" if it is this moment.
func (w *waitingMessage) describeDeadline(since string) string {
	left := w.remaining()
	if left == 0 {
		return ""
	}
	return "Answer within " + describeDuration(left.Round(time.Second)) + since + ".\n"
}

const (
	inboxBatch    = 10 // messages that are read at a time; each may be as long as a message can be
	sendersOfPage = 16 // peers whose messages are looked for
)

// waitingFilter selects messages. A zero field selects all.
type waitingFilter struct {
	id   wire.MessageID
	from identity.ID
}

// listWaiting returns what waits, the peers taking turns: the first message of each, then the
// second of each, and so on. Of a peer the open requests are first, then the oldest messages of
// the inbox. In a turn the shortest message is first, so that no peer can hide another's behind a
// long one. more reports that not all is returned: of a peer that has much, the beginning is.
func (s *Server) listWaiting(ctx context.Context, f waitingFilter) (all []waitingMessage, more bool, err error) {
	l := waitingList{server: s, turns: make(map[identity.ID]int), read: make(map[string]bool)}
	for _, open := range s.requests.list() {
		if (f.id.IsZero() || f.id == open.ID) && (f.from.IsZero() || f.from == open.From) {
			l.add(waitingMessage{Envelope: &open.Envelope, open: open})
		}
	}
	var p client.InboxParams
	if !f.id.IsZero() {
		p.IDs = []wire.MessageID{f.id}
	}
	if !f.from.IsZero() {
		p.Peers = []string{f.from.String()}
	}
	more, err = l.readInbox(ctx, p)
	if err == nil && more && f == (waitingFilter{}) {
		err = l.readOtherPeers(ctx)
	}
	if err != nil {
		return nil, false, err
	}
	slices.SortStableFunc(l.all, func(a, b waitingMessage) int {
		return cmp.Or(cmp.Compare(a.turn, b.turn), cmp.Compare(len(a.Payload), len(b.Payload)))
	})
	return l.all, more, nil
}

// waitingList collects what waits.
type waitingList struct {
	server *Server
	all    []waitingMessage
	turns  map[identity.ID]int // messages of each peer
	read   map[string]bool     // peers whose oldest messages in the inbox were read
}

func (l *waitingList) add(w waitingMessage) {
	w.turn = l.turns[w.From]
	l.turns[w.From]++
	l.all = append(l.all, w)
}

// readInbox adds the oldest messages of the inbox that match, a batch. It reports whether there are
// more.
func (l *waitingList) readInbox(ctx context.Context, p client.InboxParams) (more bool, err error) {
	p.Limit, p.Peek = inboxBatch, true
	inbox, err := twice(ctx, func(ctx context.Context) (*client.Inbox, error) { return l.server.Daemon.Inbox(ctx, p) })
	if err != nil {
		return false, err
	}
	for i := range inbox.Messages {
		m := &inbox.Messages[i]
		l.read[m.Envelope.From.String()] = true
		l.add(waitingMessage{Envelope: &m.Envelope, seq: m.Seq, file: m.FileReport() != nil})
	}
	return inbox.Next != 0, nil
}

// readOtherPeers adds the oldest messages of peers without any so far, until there is one of
// each, or of as many peers as a page is for. Each call to the daemon finds a peer, or rules out as
// many.
func (l *waitingList) readOtherPeers(ctx context.Context) error {
	peers, err := twice(ctx, l.server.Daemon.Peers)
	if err != nil {
		return err
	}
	var others []string
	for _, p := range peers {
		if p.State == client.PeerConnected || p.State == client.PeerTrusted {
			others = append(others, p.ID.String())
		}
	}
	for len(l.read) < sendersOfPage {
		others = slices.DeleteFunc(others, func(id string) bool { return l.read[id] })
		if len(others) == 0 {
			break
		}
		some := others[:min(len(others), sendersOfPage)]
		more, err := l.readInbox(ctx, client.InboxParams{Peers: some})
		if err != nil {
			return err
		}
		if !more {
			others = others[len(some):]
		}
	}
	return nil
}
