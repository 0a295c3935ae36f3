package mcp

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

type inboxArguments struct {
	Ack  []string `json:"ack"`
	ID   string   `json:"id"`
	Page int      `json:"page"`
}

// inboxRow tells of one message that is shown.
type inboxRow struct {
	ID        wire.MessageID  `json:"id"`
	Kind      string          `json:"kind"`
	From      string          `json:"from"`
	Ref       *wire.MessageID `json:"ref,omitempty"`
	Open      bool            `json:"open,omitzero"` // it waits for acp_reply
	DeadlineS int             `json:"deadline_s,omitzero"`
	Part      bool            `json:"part,omitzero"` // the rest is on the next page

	key messageKey
}

// errNoInbox is what a session hears that is no agent.
var errNoInbox = &kinds.Error{Code: kinds.NotAuthorized, Message: "this session is not attached as an agent, so it has no inbox: its user starts acpctl mcp with --attach (acpctl setup asks)"}

// callInbox acknowledges what the model names, and shows what waits: open requests first, then
// the messages of the inbox.
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
	r := &result{State: "shown"}
	acknowledged, err := s.acknowledge(ctx, a.Ack)
	if err != nil {
		return nil, err
	}
	page := inboxPage{server: s, result: r, room: pageSize}
	if len(a.Ack) > 0 {
		fmt.Fprintf(&page.text, "%d of %d removed.\n", acknowledged, len(a.Ack))
		if acknowledged < len(a.Ack) {
			page.text.WriteString("The others are not in the inbox, were not shown to their end, or wait for acp_reply.\n")
		}
	}
	var only wire.MessageID
	if a.ID != "" {
		if only, err = readID("id", a.ID); err != nil {
			return nil, err
		}
	} else if a.Page > 1 {
		return nil, kinds.Errorf(kinds.Invalid, "page: give it with the id of the message that it is of")
	}
	if err := page.fill(ctx, only, a.Page); err != nil {
		return nil, err
	}
	if len(page.rows) == 0 {
		if a.ID != "" {
			return nil, kinds.Errorf(kinds.NotFound, "%s is not in the inbox", only)
		}
		page.text.WriteString("Nothing waits.")
	}
	r.Text = strings.TrimRight(page.text.String(), "\n")
	r.Detail = map[string]any{"messages": page.rows, "acknowledged": acknowledged}
	return r, nil
}

// acknowledge removes messages that were shown, and returns how many.
func (s *Server) acknowledge(ctx context.Context, texts []string) (int, error) {
	var ids []wire.MessageID
	for _, text := range texts {
		id, err := readID("ack", text)
		if err != nil {
			return 0, err
		}
		ids = append(ids, id)
	}
	if len(ids) == 0 {
		return 0, nil
	}
	s.seen.remove(ids...)
	acked, err := twice(ctx, func(ctx context.Context) (*client.Acked, error) { return s.Daemon.Ack(ctx, client.AckParams{IDs: ids}) })
	if err != nil {
		return 0, err
	}
	return acked.Removed, nil
}

// inboxPage is filled with messages until it is full.
type inboxPage struct {
	server *Server
	result *result
	text   strings.Builder
	room   int // characters that are left
	rows   []inboxRow
	shown  []uint64 // numbers of the messages that were shown to their end
	full   bool
	err    error
}

// inboxBatch is how many messages are read at a time. Each may be as long as a message can be.
const inboxBatch = 10

// fill shows what waits, or one message alone, of which it shows the page of that number.
func (p *inboxPage) fill(ctx context.Context, only wire.MessageID, number int) error {
	for _, open := range p.server.requests.list() {
		if only.IsZero() || open.ID == only {
			p.addRequest(open, number)
		}
	}
	for after := uint64(0); !p.full; {
		inbox, err := twice(ctx, func(ctx context.Context) (*client.Inbox, error) {
			return p.server.Daemon.Inbox(ctx, client.InboxParams{After: after, Limit: inboxBatch, Peek: true})
		})
		if err != nil {
			return err
		}
		for i := range inbox.Messages {
			m := &inbox.Messages[i]
			if only.IsZero() || m.Envelope.ID == only {
				p.addMessage(ctx, m, number)
			}
		}
		if after = inbox.Next; after == 0 || !only.IsZero() && len(p.rows) > 0 {
			break
		}
	}
	if p.err != nil {
		return p.err
	}
	if len(p.shown) > 0 {
		if err := p.server.Daemon.MarkShown(ctx, client.ShownParams{Seqs: p.shown}); err != nil {
			return err
		}
	}
	var whole []wire.MessageID
	for _, row := range p.rows {
		if !row.Part && !row.Open {
			whole = append(whole, row.ID)
		}
	}
	p.server.seen.add(whole, !p.full && only.IsZero())
	// What is open is what the session works on, so it counts as newer than what lies there.
	for _, open := range []bool{false, true} {
		for _, row := range p.rows {
			if row.Open == open {
				p.server.parents.note(row.key)
			}
		}
	}
	return nil
}

func (p *inboxPage) addRequest(r *openRequest, number int) {
	left := r.remaining()
	head := ""
	if left > 0 {
		head = "Answer within " + describeDuration(left.Round(time.Second)) + ".\n"
	}
	if p.add(&r.Envelope, r.Name, head, inboxRow{Open: true, DeadlineS: int(left.Seconds())}, number) {
		p.server.reading.end(keyOf(&r.Envelope))
		p.server.requests.markShown(r)
	}
}

func (p *inboxPage) addMessage(ctx context.Context, m *client.HeldMessage, number int) {
	if p.full {
		return
	}
	s := p.server
	name := s.names.of(ctx, s, m.Envelope.From)
	s.replies.keep(&m.Envelope)
	if p.add(&m.Envelope, name, "", inboxRow{}, number) {
		p.shown = append(p.shown, m.Seq)
		s.reading.end(keyOf(&m.Envelope)) // the session needs not be woken for it
	}
}

// add shows one message, or as much of it as fits if it is the first. It reports whether the
// message was shown to its end.
func (p *inboxPage) add(e *wire.Envelope, name, head string, row inboxRow, number int) (whole bool) {
	if p.full {
		return false
	}
	m := newPeerMessage(e, name)
	text, pages := "", 1
	if number <= 1 {
		text = client.RenderPeerMessage(m)
	}
	number = max(number, 1)
	if text == "" || len(head)+len(text)*pageSize/sizePages(e.Payload) > p.room {
		if len(p.rows) > 0 {
			p.full = true
			p.text.WriteString("There is more: call acp_inbox when these are answered or acknowledged.\n")
			return false
		}
		if text, pages = client.RenderPeerPage(m, number, sizePages(m.Payload)-len(head)); number > pages {
			p.err = kinds.Errorf(kinds.Invalid, "page: there are %d", pages)
			return false
		}
	}
	p.text.WriteString(head + text + "\n")
	p.room -= len(head) + len(text)*pageSize/sizePages(e.Payload)
	row.ID, row.Kind, row.From, row.Ref, row.Part, row.key = e.ID, e.Kind, name, e.Ref, number < pages, keyOf(e)
	p.rows = append(p.rows, row)
	p.result.payloads = append(p.result.payloads, exact{e.ID, e.Payload})
	if row.Part {
		p.full, p.result.Next = true, number+1
		fmt.Fprintf(&p.text, "There is more of it: acp_inbox with id %s, page %d.\n", e.ID, number+1)
		return false
	}
	return true
}
