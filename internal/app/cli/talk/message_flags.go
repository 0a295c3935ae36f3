package talk

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// messageFlags holds the flags that query, delegate and notify have in common.
type messageFlags struct {
	kind                string
	id, parent, payload string // flags
	thread              string // the flag of query
	patience            time.Duration
	keep                keepFlag
	flags               *pflag.FlagSet
}

func (m *messageFlags) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	m.flags = f
	f.StringVar(&m.id, "id", "", "id of the message, to repeat it safely (default: a new one)")
	f.StringVar(&m.parent, "parent", "", "id of the message that led to this one, with whose end this ends; '' for none (default $ACP_ID)")
	f.StringVar(&m.payload, "payload", "", "the whole payload as JSON, @file or -, instead of what follows PEER")
	m.keep.addTo(cmd)
	f.DurationVar(&m.patience, "wait-online", 0, "how long to wait for a peer that is unreachable, before the message is sent")
}

// checkArgs checks that there are PEER and, without --payload, the other arguments of the usage.
func (m *messageFlags) checkArgs(cmd *cobra.Command, args []string) error {
	names := frame.ListArgNames(cmd)
	if cmd.Flags().Changed("payload") {
		switch {
		case m.payload == "":
			return frame.UsageErrorf("--payload: empty: give a value, or leave the flag out")
		case len(args) > 1:
			return fmt.Errorf("--payload stands instead of %s: leave one of them out", strings.Join(names[1:], " and "))
		}
		names = names[:1]
	}
	return frame.NamedArgs(names...)(cmd, args)
}

// readHead returns the head of the message that the flags describe. It draws the id here, so
// that an error can name it if the call ends without an answer.
func (m *messageFlags) readHead() (h client.Head, err error) {
	h = client.Head{ID: wire.NewMessageID()}
	if m.id != "" {
		h.ID, err = frame.ParseMessageID("--id", m.id)
	}
	parentOf := os.Getenv("ACP_ID")
	switch {
	case err != nil:
	case m.parent != "":
		h.Parent, err = frame.ParseMessageID("--parent", m.parent)
	case parentOf != "" && !m.flags.Changed("parent"):
		h.Parent, err = frame.ParseMessageID("ACP_ID", parentOf)
	}
	if h.Thread = m.thread; err == nil && m.thread != "" && !h.Parent.IsZero() {
		err = frame.UsageErrorf("--thread: the conversation is that of the message that led here (--parent, ACP_ID): leave it out")
	}
	return h, err
}

// composeMessage returns the head and the payload of a message: the value of --payload, or
// what build returns. It checks the payload, so that an error is reported before anything is sent.
func (m *messageFlags) composeMessage(ctx context.Context, f *frame.Frame, build func() (any, error)) (h client.Head, p wire.Payload, err error) {
	if m.patience < 0 {
		return h, nil, frame.UsageErrorf("--wait-online: expected a duration like 30s")
	}
	if m.keep != 0 && m.patience != 0 {
		return h, nil, frame.UsageErrorf("--keep: with it the daemon waits for the peer, as acpctl does with --wait-online: leave one of them out")
	}
	if h, err = m.readHead(); err != nil {
		return h, nil, err
	}
	if m.payload != "" {
		given, err := f.ReadObject(ctx, "--payload", m.payload)
		if err != nil {
			return h, nil, err
		}
		p = wire.Payload(given)
	} else {
		v, err := build()
		if err != nil {
			return h, nil, err
		}
		p = kinds.EncodePayload(v)
	}
	if err := kinds.CheckPayload(m.kind, p); err != nil {
		return h, nil, frame.UsageErrorf("%s", kinds.AsError(err).Message)
	}
	return h, p, nil
}
