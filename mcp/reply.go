package mcp

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/pace"
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

// replyMemory knows who sent the messages of the inbox that were shown last.
type replyMemory struct {
	mu   sync.Mutex
	seen memory[messageKey, sender]
}

// sender is whom a reply to a message of the inbox goes to.
type sender struct {
	to    string // peer, or peer/agent
	topic string // of a notice
}

const maxSenders = 256

func (m *replyMemory) keep(e *wire.Envelope) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seen.most = maxSenders
	who := sender{to: e.From.String()} // not the petname, which can pass to another peer
	if client.IsPlainAgentName(e.FromAgent) {
		who.to += "/" + e.FromAgent
	}
	if n, err := kinds.ParsePayload[kinds.Notify](e.Payload); e.Kind == kinds.KindNotify && err == nil {
		who.topic = n.Topic
	}
	m.seen.keep(keyOf(e), who)
}

func (m *replyMemory) get(key messageKey) (sender, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.seen.get(key)
}

// keysOf returns which messages that were shown have that id.
func (m *replyMemory) keysOf(id wire.MessageID) []messageKey {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.seen.keysOf(func(key messageKey) bool { return key.id == id })
}

// findMessage returns which message of that id the model means, by the sender that it names: zero
// if none is known. If several are meant it returns an error that names their senders: the answer
// to one of them is not for the others.
func (s *Server) findMessage(ctx context.Context, id wire.MessageID, from string) (messageKey, error) {
	s.requests.dropExpired()
	return s.chooseMessage(ctx, append(s.requests.keysOf(id), s.replies.keysOf(id)...), from)
}

// chooseMessage returns the one of messages that is from the peer that from names; "": of any. It
// returns zero if none is, and an error that names the senders if there are several.
func (s *Server) chooseMessage(ctx context.Context, keys []messageKey, from string) (messageKey, error) {
	var of []messageKey
	var names []string
	for _, key := range keys {
		name := s.names.of(ctx, s, key.from)
		if !slices.Contains(of, key) && (from == "" || from == name || from == key.from.String()) {
			of, names = append(of, key), append(names, client.Line(name))
		}
	}
	switch len(of) {
	case 0:
		return messageKey{}, nil
	case 1:
		return of[0], nil
	}
	slices.Sort(names)
	return messageKey{}, kinds.Errorf(kinds.Invalid, "id: %s each sent a message with the id %s: name in from the one that you answer", strings.Join(names, " and "), of[0].id)
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
	return s.reply(ctx, id, &a)
}

// ReplyTo answers a message with a text that the model sent by the agent program's own means, as
// [harness.Environment.Reply] wants it.
func (s *Server) ReplyTo(ctx context.Context, id wire.MessageID, text string) error {
	_, err := s.reply(ctx, id, &replyArguments{Text: text})
	return err
}

func (s *Server) reply(ctx context.Context, id wire.MessageID, a *replyArguments) (*result, error) {
	switch {
	case a.Status == "":
		a.Status = replyCompleted
	case !strings.Contains(" completed failed refused partial ", " "+a.Status+" "):
		return nil, kinds.Errorf(kinds.Invalid, "status: expected completed, failed, refused or partial")
	}
	if a.Progress != nil && (a.Status != replyPartial || *a.Progress < 0 || *a.Progress > 1) {
		return nil, kinds.Errorf(kinds.Invalid, "progress: expected 0 to 1, with status partial")
	}
	key, err := s.findMessage(ctx, id, a.From)
	if err != nil {
		return nil, err
	}
	r, err := s.requests.find(key)
	switch {
	case err != nil:
		return nil, err
	case r == nil:
		return s.replyToMessage(ctx, key, id, a)
	case r.Kind == kinds.KindQuery:
		return s.answerQuery(r, a)
	}
	return s.reportOn(ctx, r, a)
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
		out.err = kinds.Errorf(kinds.NotAuthorized, "%s", a.Text)
	default:
		payload, err := newPayload(kinds.KindResponse, &kinds.Response{Summary: a.Text, Data: a.Data})
		if err != nil {
			return nil, err
		}
		out.payload = payload
	}
	if !s.requests.remove(r, "it was answered") {
		return nil, kinds.Errorf(kinds.NotFound, "%s is not open any more", r.ID)
	}
	r.answer <- out
	s.parents.note(keyOf(&r.Envelope))
	return &result{State: "answered", ID: r.ID, From: r.Name, Text: "The answer goes to " + r.Name + "."}, nil
}

// reportOn sends a result of a delegation. The final one ends it here. If the peer is away, the
// result is sent again and again for as long as a tool call waits, and then on behind it.
func (s *Server) reportOn(ctx context.Context, r *openRequest, a *replyArguments) (*result, error) {
	send, params, err := s.newReport(r, a)
	if err != nil {
		return nil, err
	}
	if a.Status == replyPartial {
		receipt, err := send(ctx, params)
		if err != nil {
			return nil, err
		}
		return &result{State: string(receipt.State), ID: r.ID, From: r.Name, Text: "The partial result is " + string(receipt.State) + ". The delegation goes on."}, nil
	}
	if !s.requests.beginReply(r) {
		return nil, kinds.Errorf(kinds.Invalid, "a result for %s is on its way already", r.ID)
	}
	type sent struct {
		receipt *client.Receipt
		err     error
	}
	ended := make(chan sent, 1)
	s.goOn(func(ctx context.Context) {
		var out sent
		defer func() { ended <- out }()
		out.receipt, out.err = sendPatiently(ctx, s.timing.keep, params, send)
		if out.err == nil || kinds.AsError(out.err).Code == kinds.NotFound {
			s.requests.remove(r, "its result was sent")
		}
		s.requests.endReply(r)
	})
	limit := time.NewTimer(s.timing.wait)
	defer limit.Stop()
	select {
	case out := <-ended:
		if out.err != nil {
			return nil, out.err
		}
		return &result{State: string(out.receipt.State), ID: r.ID, From: r.Name, Text: "The result is " + string(out.receipt.State) + ": " + describeReceipt(out.receipt.State)}, nil
	case <-limit.C:
	case <-ctx.Done():
	}
	return &result{State: "pending", ID: r.ID, From: r.Name, Text: r.Name + " cannot be reached now. The result is sent as soon as it can, while this session lasts."}, nil
}

// newReport returns the message that reports on a delegation, and how it is sent.
func (s *Server) newReport(r *openRequest, a *replyArguments) (send func(context.Context, client.ResultParams) (*client.Receipt, error), _ client.ResultParams, err error) {
	params := client.ResultParams{Head: client.Head{ID: wire.NewMessageID()}, Ref: r.ID}
	if a.Status == replyRefused {
		params.Payload, err = newPayload(kinds.KindError, kinds.Errorf(kinds.NotAuthorized, "%s", a.Text))
		return s.Daemon.SendError, params, err
	}
	report := struct {
		Status   string         `json:"status"`
		Outcome  string         `json:"outcome"`
		Data     jsontext.Value `json:"data,omitzero"`
		Error    string         `json:"error,omitzero"`
		Progress *float64       `json:"progress,omitzero"`
		Message  string         `json:"message,omitzero"`
	}{Status: a.Status, Outcome: a.Text, Data: a.Data}
	switch a.Status {
	case replyFailed:
		report.Error = string(kinds.Internal)
	case replyPartial:
		report.Progress, report.Message = a.Progress, cutText(a.Text, 1024)
	}
	params.Payload, err = newPayload(kinds.KindResult, &report)
	return s.Daemon.SendResult, params, err
}

// sendPatiently sends a final result until the peer has it, refuses it, or limit has passed. It
// repeats it under the same id.
func sendPatiently(ctx context.Context, limit time.Duration, params client.ResultParams, send func(context.Context, client.ResultParams) (*client.Receipt, error)) (*client.Receipt, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for pause := 200 * time.Millisecond; ; pause = min(2*pause, 15*time.Second) {
		receipt, err := send(ctx, params)
		e, ok := errors.AsType[*kinds.Error](err)
		if err == nil || !ok || !e.Retryable || ctx.Err() != nil {
			return receipt, err
		}
		if pace.Sleep(ctx, max(pause, time.Duration(e.RetryAfterMS)*time.Millisecond)) != nil {
			return nil, err
		}
	}
}

// beginReply marks that a final reply is on its way. It reports false if one is already.
func (t *requestTable) beginReply(r *openRequest) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r.replying {
		return false
	}
	r.replying = true
	return true
}

func (t *requestTable) endReply(r *openRequest) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r.replying = false
}

// replyToMessage sends a message back to the sender of one that acp_inbox has shown, and removes
// that from the inbox.
func (s *Server) replyToMessage(ctx context.Context, key messageKey, id wire.MessageID, a *replyArguments) (*result, error) {
	who, ok := s.replies.get(key)
	if !ok && a.Status == replyCompleted {
		if r, err := s.answerQuestion(ctx, id, a); r != nil || err != nil {
			return r, err
		}
	}
	if !ok {
		var err error
		if key, who, err = s.findSender(ctx, id, a.From); err != nil {
			return nil, err
		}
	}
	if a.Status == replyPartial {
		return nil, kinds.Errorf(kinds.Invalid, "status: partial is for delegations")
	}
	data, err := json.Marshal(a.Text)
	if err != nil {
		return nil, kinds.Errorf(kinds.Invalid, "text: %v", err)
	}
	if len(a.Data) > 0 {
		data, err = json.Marshal(map[string]jsontext.Value{"text": data, "data": a.Data})
		if err != nil {
			return nil, kinds.Errorf(kinds.Invalid, "data: %v", err)
		}
	}
	topic := who.topic
	if topic == "" {
		topic = "reply"
	}
	payload, err := newPayload(kinds.KindNotify, &kinds.Notify{Topic: topic, Data: data})
	if err != nil {
		return nil, err
	}
	receipt, err := withParent(client.Head{ID: wire.NewMessageID(), Parent: id}, false, "", func(h client.Head) (*client.Receipt, error) {
		return s.Daemon.Notify(ctx, client.NotifyParams{Head: h, To: client.To(who.to), Payload: payload})
	})
	if err != nil {
		return nil, err
	}
	s.seen.remove(id)
	r := &result{State: string(receipt.State), ID: receipt.ID, Text: "The reply is " + string(receipt.State) + ": " + describeReceipt(receipt.State)}
	if _, err := s.Daemon.Ack(ctx, client.AckParams{IDs: []wire.MessageID{id}, Peers: []string{key.from.String()}}); err != nil {
		r.Text += " The message stays in the inbox: " + client.Line(kinds.AsError(err).Message)
	}
	return r, nil
}

// findSender looks in the inbox for a message that an earlier process of the session has shown.
func (s *Server) findSender(ctx context.Context, id wire.MessageID, from string) (messageKey, sender, error) {
	unknown := kinds.Errorf(kinds.NotFound, "%s was not shown in this session and is not in the inbox", id)
	if !s.isAgent() {
		return messageKey{}, sender{}, unknown
	}
	found := make(map[messageKey]client.HeldMessage)
	for after := uint64(0); ; {
		inbox, err := s.Daemon.Inbox(ctx, client.InboxParams{After: after, Limit: inboxBatch, Peek: true})
		if err != nil {
			return messageKey{}, sender{}, err
		}
		for _, m := range inbox.Messages {
			if m.Envelope.ID == id {
				found[keyOf(&m.Envelope)] = m
			}
		}
		if after = inbox.Next; after == 0 {
			break
		}
	}
	key, err := s.chooseMessage(ctx, slices.Collect(maps.Keys(found)), from)
	if err != nil {
		return key, sender{}, err
	}
	m, ok := found[key]
	if !ok {
		return key, sender{}, unknown
	}
	s.replies.keep(&m.Envelope)
	who, _ := s.replies.get(key)
	return key, who, s.Daemon.MarkShown(ctx, client.ShownParams{Seqs: []uint64{m.Seq}})
}

// answerQuestion answers a question about a delegation of the session's, which acp_task has shown.
// It returns nil and no error if there is no question of that id.
func (s *Server) answerQuestion(ctx context.Context, id wire.MessageID, a *replyArguments) (*result, error) {
	payload, err := newPayload(kinds.KindResponse, &kinds.Response{Summary: a.Text, Data: a.Data})
	if err != nil {
		return nil, err
	}
	_, err = s.Daemon.Answer(ctx, client.AnswerParams{Ref: id, Payload: payload})
	switch {
	case err == nil:
		return &result{State: "answered", ID: id, Text: "The question is answered; the work goes on."}, nil
	case kinds.AsError(err).Code == kinds.NotFound:
		return nil, nil
	}
	return nil, err
}
