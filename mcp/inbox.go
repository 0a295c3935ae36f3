package mcp

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

type inboxArguments struct {
	Ack  []string `json:"ack"`
	ID   string   `json:"id"`
	Peer string   `json:"peer"`
	Page int      `json:"page"`
}

// inboxRow describes one message that is shown.
type inboxRow struct {
	ID        wire.MessageID  `json:"id"`
	Kind      string          `json:"kind"`
	From      string          `json:"from"`
	Ref       *wire.MessageID `json:"ref,omitempty"`
	Open      bool            `json:"open,omitzero"` // it waits for acp_reply
	DeadlineS int             `json:"deadline_s,omitzero"`
	Part      bool            `json:"part,omitzero"` // the rest is on the next page

	message *waitingMessage
}

// errNoInbox is the error for a session that is not an agent.
var errNoInbox = &kinds.Error{Code: kinds.NotAuthorized, Message: "this session is not attached as an agent, so it has no inbox: its user starts acpctl mcp with --attach (acpctl setup asks)"}

// callInbox acknowledges what the model names, and shows what waits: open requests, and the messages
// of the inbox.
func (s *Server) callInbox(ctx context.Context, call *toolCall) (*result, error) {
	var a inboxArguments
	if err := call.readArguments(&a); err != nil {
		return nil, err
	}
	if err := s.agent.whyNotAttached(); err != nil {
		return nil, err
	}
	if !s.isAgent() {
		return nil, errNoInbox
	}
	filter, err := s.readFilter(ctx, &a)
	if err != nil {
		return nil, err
	}
	removed, said, err := s.acknowledge(ctx, a.Ack, filter.from)
	if err != nil {
		return nil, err
	}
	r := &result{State: "shown"}
	page := inboxPage{server: s, result: r, room: pageSize - len(said)}
	page.text.WriteString(said)
	if err := page.fill(ctx, filter, a.Page); err != nil {
		return nil, err
	}
	switch {
	case len(page.rows) > 0 || page.named > 0:
	case !filter.id.IsZero() && said != "": // the call has done something
		page.text.WriteString(filter.id.String() + " is not in the inbox.")
	case !filter.id.IsZero():
		return nil, kinds.Errorf(kinds.NotFound, "%s is not in the inbox", filter.id)
	case !filter.from.IsZero():
		page.text.WriteString("Nothing of " + client.Line(cutText(a.Peer, 100)) + " waits.")
	default:
		page.text.WriteString("Nothing waits.")
	}
	if err := page.noteShown(ctx); err != nil {
		return nil, err
	}
	r.Text = strings.TrimRight(page.text.String(), "\n")
	r.Detail = map[string]any{"messages": page.rows, "acknowledged": removed}
	return r, nil
}

// readFilter reads which messages the model wants to see.
func (s *Server) readFilter(ctx context.Context, a *inboxArguments) (f waitingFilter, err error) {
	if a.ID != "" {
		if f.id, err = readID("id", a.ID); err != nil {
			return f, err
		}
	} else if a.Page > 1 {
		return f, kinds.Errorf(kinds.Invalid, "page: give it with the id of the message that it is of")
	}
	if a.Peer != "" {
		if f.from, _ = s.names.find(ctx, s, a.Peer); f.from.IsZero() {
			return f, kinds.Errorf(kinds.UnknownPeer, "peer: no peer has this name: acp_peers lists them")
		}
	}
	return f, nil
}

// inboxPage is filled with messages until it is full.
type inboxPage struct {
	server *Server
	result *result
	text   strings.Builder
	room   int // characters that are left
	rows   []inboxRow
	named  int // messages that are not shown, but named
}

// nameSize is the most that the name of a message takes, in characters.
const nameSize = 200

// fill shows the messages that wait. If only one is shown in part, number is its page. A message that does
// not fit is named if nothing else of its peer is shown, so that every peer that waits is seen.
func (p *inboxPage) fill(ctx context.Context, f waitingFilter, number int) error {
	all, more, err := p.server.listWaiting(ctx, f)
	if err != nil {
		return err
	}
	ahead := make(map[identity.ID]bool) // peers with nothing on the page yet
	for _, w := range all {
		ahead[w.From] = true
	}
	alone := len(ahead) == 1
	full := make(map[identity.ID]bool) // peers with nothing more to be shown
	for _, w := range all {
		first := ahead[w.From]
		delete(ahead, w.From)
		switch {
		case full[w.From]:
			continue
		case p.add(ctx, &w, p.room-nameSize*len(ahead), number):
			continue
		}
		more, full[w.From] = true, true
		switch {
		case !first:
		case !alone:
			p.name(ctx, &w)
		default:
			if err := p.addPart(ctx, &w, max(number, 1)); err != nil {
				return err
			}
		}
	}
	if more && p.result.Next == 0 && f.id.IsZero() {
		p.text.WriteString("There is more: call acp_inbox when these are answered or acknowledged.\n")
	}
	return nil
}

// noteShown notes that the messages of the page are shown. The caller returns the page: what is noted is
// known to the model. After an error nothing is noted here.
func (p *inboxPage) noteShown(ctx context.Context) error {
	s := p.server
	var seqs []uint64
	for _, row := range p.rows {
		if !row.Part && !row.Open {
			seqs = append(seqs, row.message.seq)
		}
	}
	if len(seqs) > 0 {
		mark := func(ctx context.Context) (struct{}, error) {
			return struct{}{}, s.Daemon.MarkShown(ctx, client.ShownParams{Seqs: seqs})
		}
		if _, err := twice(ctx, mark); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return err // nobody gets the page
	}
	// An open request is newer than a message of the inbox, and what the session was woken for is newest:
	// its peer has caused the turn.
	rank := func(row inboxRow) (n int) {
		if s.seen.get(keyOf(row.message.Envelope)).woke {
			n += 2
		}
		if row.Open {
			n++
		}
		return n
	}
	byRank := func(a, b inboxRow) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.message.seq, b.message.seq))
	}
	for _, row := range slices.SortedStableFunc(slices.Values(p.rows), byRank) {
		e := row.message.Envelope
		s.seen.show(keyOf(e))
		if !row.Open {
			s.seen.keepReply(keyOf(e), newReplyWay(e))
		}
		if !row.Part {
			s.markRead(e, row.message.open)
		}
	}
	return nil
}

// add shows a message to its end, if it fits into the room. It reports whether it did. Of a page
// that is not the first it shows nothing.
func (p *inboxPage) add(ctx context.Context, w *waitingMessage, room, number int) bool {
	if number > 1 {
		return false
	}
	head := w.describeDeadline("")
	text := ""
	if client.IsOwnReport(w.Envelope) {
		text = describeOwnReport(w.Envelope) + " acp_inbox with ack, id " + w.ID.String() + ", removes it.\n"
	} else {
		text = client.RenderPeerMessage(p.makeMessage(ctx, w))
	}
	if sizeShown(w, head+text) > room {
		return false
	}
	if w.open == nil || w.open.claim() {
		p.write(ctx, w, head+text, false)
	}
	return true
}

// addPart shows a page of a message that is longer than one.
func (p *inboxPage) addPart(ctx context.Context, w *waitingMessage, number int) error {
	head := w.describeDeadline("")
	text, pages := client.RenderPeerPage(p.makeMessage(ctx, w), number, sizePages(w.Payload)-len(head))
	if number > pages {
		return kinds.Errorf(kinds.Invalid, "page: expected at most %d", pages)
	}
	if w.open != nil && !w.open.claim() {
		return nil
	}
	p.write(ctx, w, head+text, number < pages)
	if number < pages {
		p.result.Next = number + 1
		fmt.Fprintf(&p.text, "There is more of it: acp_inbox with id %s, page %d.\n", w.ID, number+1)
	}
	return nil
}

// name writes a line about a message that waits, without its text.
func (p *inboxPage) name(ctx context.Context, w *waitingMessage) {
	peer := p.nameOf(ctx, w)
	line := fmt.Sprintf("From %s: a %s of %d bytes. acp_inbox with id %s and peer %[1]s shows it.\n", peer, w.Kind, len(w.Payload), w.ID)
	p.text.WriteString(line)
	p.room -= len(line)
	p.named++
}

// write writes a message, or a part of it.
func (p *inboxPage) write(ctx context.Context, w *waitingMessage, text string, part bool) {
	p.text.WriteString(text + "\n")
	p.room -= sizeShown(w, text)
	p.rows = append(p.rows, inboxRow{
		ID: w.ID, Kind: w.Kind, From: p.nameOf(ctx, w), Ref: w.Ref, Open: w.open != nil, DeadlineS: int(w.remaining().Seconds()), Part: part, message: w,
	})
	p.result.payloads = append(p.result.payloads, exact{w.ID, w.Payload})
}

// makeMessage returns a message as it is rendered. The header of an inbox message says how to remove it.
func (p *inboxPage) makeMessage(ctx context.Context, w *waitingMessage) client.PeerMessage {
	m := newPeerMessage(w.Envelope, p.nameOf(ctx, w))
	if w.file {
		m.Answer = describeTaking(w.ID)
	}
	if w.open == nil {
		m.Answer += " acp_inbox with ack removes it."
	}
	return m
}

// nameOf returns the petname of a message's sender.
func (p *inboxPage) nameOf(ctx context.Context, w *waitingMessage) string {
	switch {
	case w.open != nil:
		return w.open.Name
	case client.IsOwnReport(w.Envelope):
		return client.OwnReporter
	}
	return p.server.names.of(ctx, p.server, w.From)
}

// sizeShown returns what a text of a message takes of a page.
func sizeShown(w *waitingMessage, text string) int {
	return len(text) * pageSize / sizePages(w.Payload)
}
