package mcp

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

type replyArguments struct {
	ID       string         `json:"id"`
	From     string         `json:"from"` // of several messages of that id
	Text     string         `json:"text"`
	Data     jsontext.Value `json:"data"`
	Status   string         `json:"status"`
	Progress *float64       `json:"progress"`
}

// The values of status.
const (
	replyCompleted = "completed"
	replyFailed    = "failed"
	replyRefused   = "refused"
	replyPartial   = "partial"
)

// newReplyID returns the id of the session's reply to a message that has this content. The same reply has the
// same id, so that it takes effect once, however often the model sends it. Another text is another message, and
// so is another session's reply. Nobody else can compute the id and use it first.
func (t *requestTable) newReplyID(to messageKey, content wire.Payload) wire.MessageID {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %s %s %s", t.secret, to.from, to.id, content))
	id := wire.MessageID(sum[:16])
	id[6], id[8] = id[6]&0x0f|0x80, id[8]&0x3f|0x80 // a UUID of one's own making (RFC 9562, section 5.8)
	return id
}

// findMessage returns the message with that id that the model means, by the sender that it names, or zero
// if the session was shown none with that id. It returns an error that names the senders if several match, or if
// the sender is another one: the answer to one of them is not for the others.
func (s *Server) findMessage(ctx context.Context, id wire.MessageID, from string) (messageKey, error) {
	s.requests.dropExpired()
	keys := append(s.requests.keysOf(id), s.seen.keysOf(id)...)
	var meant []messageKey
	for _, key := range keys {
		if !slices.Contains(meant, key) && s.isFrom(ctx, key, from) {
			meant = append(meant, key)
		}
	}
	switch {
	case len(meant) == 1:
		return meant[0], nil
	case len(meant) > 1:
		return messageKey{}, kinds.Errorf(kinds.Invalid, "id: %s each sent a message with the id %s: name in from the one that you mean", s.listSenders(ctx, meant), id)
	case len(keys) > 0:
		return messageKey{}, kinds.Errorf(kinds.NotFound, "from: the message %s was sent by %s: name that in from", id, s.listSenders(ctx, keys))
	}
	return messageKey{}, nil
}

// isFrom reports whether a message is of the sender that the model names, as the message showed it: by
// the petname, with or without the agent, or by the id or its label. "" is everybody.
func (s *Server) isFrom(ctx context.Context, key messageKey, from string) bool {
	peer, _, _ := strings.Cut(from, "/")
	return peer == "" || peer == s.names.of(ctx, s, key.from) || peer == key.from.String() || peer == key.from.Label()
}

// listSenders returns the petnames of the messages' senders.
func (s *Server) listSenders(ctx context.Context, keys []messageKey) string {
	var names []string
	for _, key := range keys {
		names = append(names, client.Line(s.names.of(ctx, s, key.from)))
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), " and ")
}

// callReply answers a message that acp_inbox has shown.
func (s *Server) callReply(ctx context.Context, call *toolCall) (*result, error) {
	var a replyArguments
	if err := call.readArguments(&a); err != nil {
		return nil, err
	}
	id, err := readID("id", a.ID)
	if err != nil {
		return nil, err
	}
	call.again = "acp_reply again with the same arguments (another text is another message)"
	return s.reply(ctx, id, &a)
}

// ReplyTo answers a message with a text that the model sent by the agent program's own means, as
// [harness.Environment.Reply] wants it.
func (s *Server) ReplyTo(ctx context.Context, id wire.MessageID, text string) error {
	_, err := s.reply(ctx, id, &replyArguments{Text: text})
	return err
}

// reply answers a message as a says.
func (s *Server) reply(ctx context.Context, id wire.MessageID, a *replyArguments) (*result, error) {
	a.Status = cmp.Or(a.Status, replyCompleted)
	if !slices.Contains([]string{replyCompleted, replyFailed, replyRefused, replyPartial}, a.Status) {
		return nil, kinds.Errorf(kinds.Invalid, "status: expected completed, failed, refused or partial")
	}
	if a.Progress != nil && (a.Status != replyPartial || *a.Progress < 0 || *a.Progress > 1) {
		return nil, kinds.Errorf(kinds.Invalid, "progress: expected 0 to 1, with status partial")
	}
	key, err := s.findMessage(ctx, id, a.From)
	if err == nil && key == (messageKey{}) && s.isAgent() {
		if err = s.recallMessages(ctx, id); err == nil {
			key, err = s.findMessage(ctx, id, a.From)
		}
	}
	if err != nil {
		return nil, err
	}
	r, err := s.requests.find(key)
	way := s.seen.get(key).reply
	switch {
	case err != nil:
		return nil, err
	case r != nil && r.Kind == kinds.KindQuery:
		return s.answerQuery(r, a)
	case r != nil:
		return s.reportOn(ctx, r, a)
	case way == replyWay{}:
		return nil, kinds.Errorf(kinds.NotFound, "%s was not shown in this session, or long ago: read it first, with acp_inbox and this id, or a question about a delegation of yours with acp_task", id)
	case way.question:
		return s.answerQuestion(ctx, id, a)
	}
	return s.sendBack(ctx, key, way, a)
}

// recallMessages looks in the inbox for messages of that id, which an earlier process of the session may
// have shown. Whether it did is left to the daemon, which keeps what was not shown to its end.
func (s *Server) recallMessages(ctx context.Context, id wire.MessageID) error {
	inbox, err := s.Daemon.Inbox(ctx, client.InboxParams{IDs: []wire.MessageID{id}, Limit: inboxBatch, Peek: true})
	if err != nil {
		return err
	}
	for i := range inbox.Messages {
		e := &inbox.Messages[i].Envelope
		s.seen.keepReply(keyOf(e), newReplyWay(e))
	}
	return nil
}

// answerQuery gives the answer to the daemon, which has the query still open.
func (s *Server) answerQuery(r *openRequest, a *replyArguments) (*result, error) {
	var out outcome
	switch a.Status {
	case replyPartial:
		return nil, kinds.Errorf(kinds.Invalid, "status: a query has one answer: partial is for delegations")
	case replyFailed:
		out.err = kinds.Errorf(kinds.Internal, "%s", a.Text)
	case replyRefused:
		out.err = kinds.NewDeclined(a.Text)
	default:
		payload, err := newPayload(kinds.KindResponse, &kinds.Response{Summary: a.Text, Data: a.Data})
		if err != nil {
			return nil, err
		}
		out.payload = payload
	}
	if !s.requests.give(r, out) {
		return nil, kinds.Errorf(kinds.NotFound, "%s is not open any more", r.ID)
	}
	s.seen.show(keyOf(&r.Envelope))
	return &result{State: "answered", ID: r.ID, From: r.Name, Text: "The answer goes to " + r.Name + "."}, nil
}

// sendBack sends a message back to the sender of one that acp_inbox has shown, and removes that from
// the inbox.
func (s *Server) sendBack(ctx context.Context, key messageKey, way replyWay, a *replyArguments) (*result, error) {
	if a.Status == replyPartial {
		return nil, kinds.Errorf(kinds.Invalid, "status: partial is for delegations")
	}
	var said any = a.Text
	if len(a.Data) > 0 {
		said = struct { // which is always written alike, so that a repeat is one
			Text string         `json:"text"`
			Data jsontext.Value `json:"data"`
		}{a.Text, a.Data}
	}
	data, err := json.Marshal(said)
	if err != nil {
		return nil, kinds.Errorf(kinds.Invalid, "text, data: expected text and JSON in UTF-8")
	}
	payload, err := newPayload(kinds.KindNotify, &kinds.Notify{Topic: way.topic, Data: data})
	if err != nil {
		return nil, err
	}
	receipt, err := s.notify(ctx, head{Head: client.Head{ID: s.requests.newReplyID(key, payload), Parent: key.id}}, way.to, payload, 0)
	if err != nil {
		return nil, err
	}
	r := &result{State: string(receipt.State), ID: receipt.ID, Text: "The reply is " + string(receipt.State) + ": " + describeReceipt(receipt.State)}
	acked, err := s.Daemon.Ack(ctx, client.AckParams{IDs: []wire.MessageID{key.id}, Peers: []string{key.from.String()}})
	switch {
	case err != nil:
		r.Text += " The message stays in the inbox: " + client.Line(ownwords.Of(err))
	case acked.Removed == 0:
		r.Text += " The message was not removed from the inbox: it was not shown to its end, or is gone already."
	}
	return r, nil
}

// answerQuestion answers a question about a delegation of the session's, which acp_task has shown.
func (s *Server) answerQuestion(ctx context.Context, id wire.MessageID, a *replyArguments) (*result, error) {
	if a.Status != replyCompleted {
		return nil, kinds.Errorf(kinds.Invalid, "status: a question takes only an answer: leave status out")
	}
	payload, err := newPayload(kinds.KindResponse, &kinds.Response{Summary: a.Text, Data: a.Data})
	if err != nil {
		return nil, err
	}
	if _, err = s.Daemon.Answer(ctx, client.AnswerParams{Ref: id, Payload: payload}); err != nil {
		return nil, err
	}
	return &result{State: "answered", ID: id, Text: "The question is answered; the work continues."}, nil
}
