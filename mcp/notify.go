package mcp

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

func newProgress(token any, seconds float64, message string) *sdk.ProgressNotificationParams {
	return &sdk.ProgressNotificationParams{ProgressToken: token, Progress: seconds, Message: message}
}

type notifyArguments struct {
	To         recipients     `json:"to"`
	Topic      string         `json:"topic"`
	Data       jsontext.Value `json:"data"`
	Importance string         `json:"importance"`
	About      string         `json:"about"`
	ID         string         `json:"id"`
}

// recipients are peers: a list, or one text.
type recipients []string

// UnmarshalJSONFrom reads a list, or one text.
func (r *recipients) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	if dec.PeekKind() == '"' {
		*r = make(recipients, 1)
		return json.UnmarshalDecode(dec, &(*r)[0])
	}
	return json.UnmarshalDecode(dec, (*[]string)(r))
}

// sentTo says what became of a message to one recipient.
type sentTo struct {
	To    string              `json:"to"`
	ID    wire.MessageID      `json:"id,omitzero"`
	State client.ReceiptState `json:"state,omitzero"`
	Error *failure            `json:"error,omitzero"`
}

// callNotify tells peers something and says for each what became of it. It fails only if nobody
// was told.
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
	h, err := s.newHead(call, a.ID, a.About, "")
	if err != nil {
		return nil, err
	}
	payload, err := newPayload(kinds.KindNotify, &kinds.Notify{Topic: a.Topic, Data: a.Data, Importance: a.Importance})
	if err != nil {
		return nil, err
	}
	if len(a.To) == 1 {
		receipt, err := sendWith(ctx, s, h, func(h client.Head) (*client.Receipt, error) {
			return s.Daemon.Notify(ctx, client.NotifyParams{Head: h, To: client.To(a.To[0]), Payload: payload})
		})
		if err != nil {
			return nil, err
		}
		return &result{State: string(receipt.State), ID: receipt.ID, Text: string(receipt.State) + ": " + describeReceipt(receipt.State) + " Id " + receipt.ID.String() + "."}, nil
	}
	call.sent, h.ID = wire.MessageID{}, wire.MessageID{}
	receipts, err := s.notifyAll(ctx, h, a.To, payload)
	if err != nil {
		return nil, err
	}
	return s.describeReceipts(ctx, h, receipts)
}

// notifyAll tells several peers something and returns a receipt for each. If the daemon forgets the
// parent meanwhile, only those are told again who were not told. The error says that nobody was told.
func (s *Server) notifyAll(ctx context.Context, h head, to recipients, payload wire.Payload) ([]client.Receipt, error) {
	var receipts []client.Receipt
	untold := func(r client.Receipt) bool { return r.Error != nil && isParentUnknown(r.Error) }
	_, err := sendWith(ctx, s, h, func(h client.Head) (struct{}, error) {
		got, err := s.Daemon.NotifyAll(ctx, client.NotifyParams{Head: h, To: client.ToAll(to...), Payload: payload})
		if err != nil {
			return struct{}{}, err
		}
		receipts, to = append(slices.DeleteFunc(receipts, untold), got...), nil
		for _, r := range got {
			if untold(r) {
				to, err = append(to, r.To), r.Error
			}
		}
		return struct{}{}, err
	})
	if len(receipts) == 0 {
		return nil, err
	}
	for i, r := range receipts {
		if untold(r) {
			receipts[i] = client.Receipt{To: r.To, Error: kinds.AsError(err)}
		}
	}
	return receipts, nil
}

func (s *Server) describeReceipts(ctx context.Context, h head, receipts []client.Receipt) (*result, error) {
	var all []sentTo
	var text strings.Builder
	var failed error
	n := 0
	for _, r := range receipts {
		row := sentTo{To: r.To, ID: r.ID, State: r.State}
		if r.Error != nil {
			failed = s.explainGuess(ctx, h, r.Error)
			row.Error = s.newFailedResult(ctx, failed, r.ID).Error
			fmt.Fprintf(&text, "%s: %s: %s. %s\n", client.Line(r.To), row.Error.Code, row.Error.Message, row.Error.Remedy)
		} else {
			n++
			fmt.Fprintf(&text, "%s: %s, id %s\n", client.Line(r.To), r.State, r.ID)
		}
		all = append(all, row)
	}
	if n == 0 && failed != nil {
		return nil, failed
	}
	return &result{State: "sent", Detail: map[string]any{"receipts": all}, Text: text.String()}, nil
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
