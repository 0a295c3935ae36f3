package mcp

import (
	"context"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/sync/errgroup"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

type notifyArguments struct {
	To         []string       `json:"to"`
	Topic      string         `json:"topic"`
	Data       jsontext.Value `json:"data"`
	Importance string         `json:"importance"`
	About      string         `json:"about"`
	ID         string         `json:"id"`
	Keep       string         `json:"keep"`
}

// sentTo is the outcome of a message to one recipient.
type sentTo struct {
	To    string              `json:"to"`
	ID    wire.MessageID      `json:"id,omitzero"`
	State client.ReceiptState `json:"state,omitzero"`
	Kept  *client.Kept        `json:"kept,omitzero"`
	Error *failure            `json:"error,omitzero"`
}

// callNotify sends a notification to peers and reports the outcome for each. It fails only if no peer
// received it.
func (s *Server) callNotify(ctx context.Context, call *toolCall) (*result, error) {
	var a notifyArguments
	if err := call.readArguments(&a); err != nil {
		return nil, err
	}
	if len(a.To) == 0 || len(a.To) > client.MaxRecipients {
		return nil, kinds.Errorf(kinds.Invalid, "to: expected 1 to %d peers", client.MaxRecipients)
	}
	if a.ID != "" && len(a.To) > 1 {
		return nil, kinds.Errorf(kinds.Invalid, "id: each of several peers gets an id of its own: repeat it for one")
	}
	keep, err := readKeep(a.Keep)
	if err != nil {
		return nil, err
	}
	h, err := s.newHead(call, a.ID, a.About, "")
	if err != nil {
		return nil, err
	}
	payload, err := newPayload(kinds.KindNotify, &kinds.Notify{Topic: a.Topic, Data: a.Data, Importance: a.Importance})
	if err != nil {
		return nil, err
	}
	if len(a.To) == 1 {
		receipt, err := s.notify(ctx, h, a.To[0], payload, keep)
		if err != nil {
			return nil, err
		}
		return &result{State: string(receipt.State), ID: receipt.ID, Text: string(receipt.State) + ": " + describeReceipt(receipt.State) + " Id " + receipt.ID.String() + "."}, nil
	}
	call.sent, call.again = wire.MessageID{}, "" // each has an id of its own
	return s.notifyAll(ctx, h, a.To, payload, keep), nil
}

// parallelNotices is how many peers a call notifies at the same time.
const parallelNotices = 16

// notifyAll notifies several peers, each with a message of its own, and reports the outcome for each. It
// fails if no peer received its message.
func (s *Server) notifyAll(ctx context.Context, h head, to []string, payload wire.Payload, keep uint64) *result {
	rows := make([]sentTo, len(to))
	var g errgroup.Group
	g.SetLimit(parallelNotices)
	for i, name := range to {
		g.Go(func() error {
			own := h
			own.ID = wire.NewMessageID()
			row := sentTo{To: name, ID: own.ID}
			receipt, err := s.notify(ctx, own, name, payload, keep)
			if row.Kept = client.FindKept(err); row.Kept != nil {
				row.State = client.ReceiptState(client.TaskKept)
			} else if err != nil {
				row.Error = s.newFailure(ctx, err, describeRepeat("acp_notify to "+client.Line(cutText(name, 100))+" alone,", own.ID))
			} else {
				row.State = receipt.State
			}
			rows[i] = row
			return nil
		})
	}
	g.Wait()
	r := &result{State: "sent", Detail: map[string]any{"receipts": rows}}
	var text strings.Builder
	told := false
	for _, row := range rows {
		if row.Error != nil {
			fmt.Fprintf(&text, "%s: %s: %s. %s\n", client.Line(row.To), row.Error.Code, row.Error.Message, row.Error.Remedy)
			continue
		}
		told = true
		fmt.Fprintf(&text, "%s: %s, id %s\n", client.Line(row.To), row.State, row.ID)
		if row.Kept != nil {
			fmt.Fprintf(&text, "  %s\n", s.newKeptResult(row.Kept, client.TaskKept).Text)
		}
	}
	if !told {
		r.State, r.Error = "", rows[0].Error
	}
	r.Text = text.String()
	return r
}

// notify tells one peer something.
func (s *Server) notify(ctx context.Context, h head, to string, payload wire.Payload, keep uint64) (*client.Receipt, error) {
	return sendWith(ctx, s, h, func(h client.Head) (*client.Receipt, error) {
		return s.Daemon.Notify(ctx, client.NotifyParams{Head: h, To: client.To(to), Payload: payload, KeepMS: keep})
	})
}

func describeReceipt(state client.ReceiptState) string {
	switch state {
	case client.Handed:
		return "an agent there has it."
	case client.Held:
		return "it waits in the peer's inbox."
	}
	return "it was sent, and nothing more is known."
}
