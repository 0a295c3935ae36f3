package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// message is what query, delegate and notify have in common.
type message struct {
	kind                string
	id, parent, payload string // flags
}

func (m *message) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&m.id, "id", "", "id of the message, to repeat it safely (default: a new one)")
	f.StringVar(&m.parent, "parent", "", "id of the message that led to this one (default $ACP_ID)")
	f.StringVar(&m.payload, "payload", "", "the whole payload as JSON, @file or -, instead of what follows PEER")
}

// args are PEER and the words that --payload replaces.
func (m *message) args(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if cmd.Flags().Changed("payload") {
			if len(args) > 1 {
				return fmt.Errorf("--payload stands instead of %s: leave one of them out", strings.Join(names, " and "))
			}
			return words("PEER")(cmd, args)
		}
		return words(append([]string{"PEER"}, names...)...)(cmd, args)
	}
}

// head reads the flags. The id is drawn here so that it can be told where a call
// ends without an answer.
func (m *message) head() (client.Head, error) {
	h := client.Head{ID: wire.NewMessageID()}
	if m.id != "" {
		id, err := wire.ParseMessageID(m.id)
		if err != nil {
			return h, usagef("--id: %w", err)
		}
		h.ID = id
	}
	from, parent := "--parent", m.parent
	if parent == "" {
		from, parent = "ACP_ID", os.Getenv("ACP_ID")
	}
	if parent != "" {
		id, err := wire.ParseMessageID(parent)
		if err != nil {
			return h, usagef("%s: %w", from, err)
		}
		h.Parent = id
	}
	return h, nil
}

// encode makes the payload of the words, or takes that of --payload, and checks
// it, so that what is wrong with it is said before anything is sent.
func (m *message) encode(ctx context.Context, a *app, build func() (any, error)) (wire.Payload, error) {
	var p wire.Payload
	if m.payload != "" {
		given, err := a.object(ctx, "--payload", m.payload)
		if err != nil {
			return nil, err
		}
		p = wire.Payload(given)
	} else {
		v, err := build()
		if err != nil {
			return nil, err
		}
		p = kinds.Encode(v)
	}
	row, _ := kinds.Lookup(m.kind)
	if err := row.CheckPayload(p); err != nil {
		return nil, usageError{errors.New(kinds.AsError(err).Message)}
	}
	return p, nil
}

// arrival is what the details of an error say of a message that it ended.
type arrival struct {
	Delivered kinds.Delivered `json:"delivered"`
	ID        wire.MessageID  `json:"id,omitzero"` // under which it can be repeated
}

// repeatable names, in an error that says whether a message was delivered, the id under
// which it can be repeated.
func repeatable(err error, id wire.MessageID) error {
	e, ok := errors.AsType[*kinds.Error](err)
	if !ok || e.Delivered() == "" || id.IsZero() {
		return err
	}
	told := *e
	told.Message = strings.Replace(e.Message, "the same id", "--id "+id.String(), 1)
	if details, err := json.Marshal(arrival{e.Delivered(), id}); err == nil {
		told.Details = details
	}
	return &told
}

// arrived is the end of an error's text, which says whether the message was delivered
// and how it is repeated; "" where the daemon does not say, or where it was refused or never sent.
func arrived(e *kinds.Error) string {
	var a arrival
	if len(e.Details) == 0 || json.Unmarshal(e.Details, &a) != nil || a.Delivered == "" {
		return ""
	}
	lost := e.Code == kinds.Unreachable || e.Code == kinds.Timeout || a.Delivered == kinds.DeliveredUnknown
	if !lost && (a.ID.IsZero() || a.Delivered == kinds.DeliveredNo) {
		return ""
	}
	said := "; delivered: " + string(a.Delivered)
	if remedy := "--id " + a.ID.String(); !a.ID.IsZero() && !strings.Contains(e.Message, remedy) {
		said += "; repeat it with " + remedy
	}
	return said
}

// retry repeats a call, which cannot have arrived, while again says so, for as
// long as limit; the pauses grow up to most.
func retry(ctx context.Context, limit, most time.Duration, again func(error) bool, call func() error) error {
	end := time.Now().Add(limit)
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, most) {
		err := call()
		left := time.Until(end)
		if err == nil || ctx.Err() != nil || !again(err) || left <= 0 {
			return err
		}
		select {
		case <-time.After(min(pause, left)):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
