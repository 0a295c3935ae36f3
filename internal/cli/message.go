package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/cli/frame"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// messageFlags is the flags that query, delegate and notify have in common.
type messageFlags struct {
	kind                string
	id, parent, payload string // flags
}

func (m *messageFlags) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&m.id, "id", "", "id of the message, to repeat it safely (default: a new one)")
	f.StringVar(&m.parent, "parent", "", "id of the message that led to this one (default $ACP_ID)")
	f.StringVar(&m.payload, "payload", "", "the whole payload as JSON, @file or -, instead of what follows PEER")
}

// checkArgs checks that there are PEER and, without --payload, these arguments.
func (m *messageFlags) checkArgs(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if cmd.Flags().Changed("payload") {
			if len(args) > 1 {
				return fmt.Errorf("--payload stands instead of %s: leave one of them out", strings.Join(names, " and "))
			}
			return frame.NamedArgs("PEER")(cmd, args)
		}
		return frame.NamedArgs(append([]string{"PEER"}, names...)...)(cmd, args)
	}
}

// readHead returns the head of the message that the flags describe. It draws the id here, so
// that an error can name it if the call ends without an answer.
func (m *messageFlags) readHead() (client.Head, error) {
	h := client.Head{ID: wire.NewMessageID()}
	if m.id != "" {
		id, err := wire.ParseMessageID(m.id)
		if err != nil {
			return h, frame.Usagef("--id: %w", err)
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
			return h, frame.Usagef("%s: %w", from, err)
		}
		h.Parent = id
	}
	return h, nil
}

// encodePayload returns the value of --payload, or encodes what build returns. It checks the
// payload, so that an error is told before anything is sent.
func (m *messageFlags) encodePayload(ctx context.Context, a *app, build func() (any, error)) (wire.Payload, error) {
	var p wire.Payload
	if m.payload != "" {
		given, err := a.ReadObject(ctx, "--payload", m.payload)
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
		return nil, frame.Usagef("%w", errors.New(kinds.AsError(err).Message))
	}
	return p, nil
}
