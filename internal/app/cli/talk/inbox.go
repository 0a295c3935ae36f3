package talk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/internal/app/cli/ui"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

func (v *verbs) newInboxCmd() *cobra.Command {
	var ack, after uint64
	var taken bool
	cmd := &cobra.Command{
		Use:   "inbox",
		Short: "Show the messages that no agent has taken yet",
		Example: `  acpctl inbox
  acpctl inbox --after 100          go on where a long list ended
  acpctl inbox --ack 17             remove what was shown up to number 17
  acpctl inbox --taken              what agents removed that was for any agent
  acpctl inbox --for-model          whole messages, for an agent that reads them
  acpctl inbox --json`,
		Long: `It shows the messages that wait in the inbox, the oldest first, and leaves them there. FOR is the agent that a message is for,
or - for any agent. --ack removes messages up to a number, but only those that you, or the agent, have seen since the
daemon started. An agent sees and removes only messages for itself or for any agent; --taken shows for 7 days who took the latter.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := v.checkForModel(); err != nil {
				return err
			}
			switch {
			case v.ForModel && cmd.Flags().Changed("ack"):
				return frame.UsageErrorf("--ack removes, --for-model shows: give one of them")
			case !cmd.Flags().Changed("ack"):
				return v.showInbox(cmd.Context(), after, taken)
			case taken:
				return frame.UsageErrorf("--ack removes from the inbox, --taken shows what is there no more: give one of them")
			case after > 0:
				return frame.UsageErrorf("--ack removes, --after shows: give one of them")
			case ack == 0:
				return frame.UsageErrorf("--ack: expected a number that inbox showed")
			}
			acked, err := v.Daemon.Ack(cmd.Context(), client.AckParams{UpTo: ack})
			if err != nil {
				return v.explainNoInbox(err)
			}
			if acked.Removed == 0 {
				return kinds.Errorf(kinds.NotFound, "--ack: no message up to %d in the inbox was shown since the daemon started: see acpctl inbox first", ack)
			}
			v.SetDoneNote("%d removed", acked.Removed)
			return v.PrintData(acked, func() { v.PrintLine("%d removed", acked.Removed) })
		},
	}
	v.addForModelFlag(cmd)
	cmd.Flags().Uint64Var(&after, "after", 0, "show what follows this number")
	cmd.Flags().BoolVar(&taken, "taken", false, "show what agents took in the last 7 days that was for any of them")
	cmd.Flags().Uint64Var(&ack, "ack", 0, "remove what was shown, up to this number")
	return cmd
}

// explainNoInbox adds to the daemon's refusal of a caller that says of no agent that it is it, how
// that is said.
func (v *verbs) explainNoInbox(err error) error {
	if e, ok := errors.AsType[*kinds.Error](err); ok && e.Code == kinds.NotAuthorized && v.AsGuest && v.Daemon.SpeakAs.Key == "" {
		return frame.WithHint(err, "set ACP_AGENT and ACP_AGENT_KEY, or run this under acpctl serve")
	}
	return err
}

// showInbox prints the inbox, and tells the daemon which messages were shown.
func (v *verbs) showInbox(ctx context.Context, after uint64, taken bool) error {
	inbox, err := v.Daemon.Inbox(ctx, client.InboxParams{After: after, Taken: taken, Peek: !taken})
	if err != nil {
		return v.explainNoInbox(err)
	}
	if err := v.printInbox(ctx, inbox, taken); err != nil || taken || len(inbox.Messages) == 0 {
		return err
	}
	if err := v.CheckOutput(); err != nil { // what was not shown is not to be removed
		return err
	}
	var shown client.ShownParams
	for _, m := range inbox.Messages {
		shown.Seqs = append(shown.Seqs, m.Seq)
	}
	if err := v.Daemon.MarkShown(ctx, shown); err != nil {
		return frame.WithHint(err, "--ack removes none of these before inbox has shown them again")
	}
	return nil
}

func (v *verbs) printInbox(ctx context.Context, inbox *client.Inbox, taken bool) error {
	if v.JSON {
		return v.PrintJSON(inbox)
	}
	names := make(map[identity.ID]string)
	if len(inbox.Messages) > 0 {
		peers, err := v.Daemon.Peers(ctx)
		if err != nil {
			return err
		}
		for _, p := range peers {
			names[p.ID] = p.Name
		}
	}
	if v.ForModel {
		v.printInboxForModel(inbox, names)
		v.tellOfMore(inbox, taken)
		return nil
	}
	var rows [][]string
	for _, m := range inbox.Messages {
		from := cmp.Or(names[m.Envelope.From], m.Envelope.From.Label())
		if client.IsOwnReport(&m.Envelope) {
			from = client.OwnReporter
		}
		sent := time.UnixMilli(int64(m.Envelope.TS))
		rows = append(rows, []string{
			strconv.FormatUint(m.Seq, 10), from, v.FormatAge(sent), client.Line(m.Envelope.Kind), ui.DashIfEmpty(m.Agent), describeHeld(&m),
		})
	}
	agent := "FOR"
	if taken {
		agent = "TAKEN BY"
	}
	v.PrintTable([]string{"NUMBER", "FROM", "SENT", "KIND", agent, "WHAT"}, rows)
	v.tellOfMore(inbox, taken)
	return nil
}

// printInboxForModel prints each message whole, as data for a model.
func (v *verbs) printInboxForModel(inbox *client.Inbox, names map[identity.ID]string) {
	for _, m := range inbox.Messages {
		if client.IsOwnReport(&m.Envelope) {
			v.PrintLine("From %s, not from a peer, %s. No answer is due; it is number %d of the inbox.", client.OwnReporter, client.DescribeOwnReport(&m.Envelope), m.Seq)
			continue
		}
		shown := client.PeerMessage{
			ID: m.Envelope.From, Peer: names[m.Envelope.From], Agent: m.Envelope.FromAgent, Kind: m.Envelope.Kind, Message: m.Envelope.ID, TS: m.Envelope.TS, Payload: m.Envelope.Payload,
			Answer: fmt.Sprintf("No answer is due; it is number %d of the inbox.", m.Seq),
		}
		if f := m.FileReport(); f != nil {
			shown.Answer = fmt.Sprintf("It reports a file that came: acpctl files save %s PATH writes it to a path that you choose. %s", f.ID, shown.Answer)
		}
		if m.Envelope.Ref != nil {
			shown.Ref = *m.Envelope.Ref
		}
		v.PrintForModel(shown)
	}
}

// tellOfMore tells how to see the messages that follow those of inbox, if there are any.
func (v *verbs) tellOfMore(inbox *client.Inbox, taken bool) {
	switch { // also if no person reads: a script must not take this for all
	case inbox.Next == 0:
	case taken:
		v.Warn("there is more: acpctl inbox --taken --after %d shows it", inbox.Next)
	default:
		v.Warn("there is more: acpctl inbox --after %[1]d shows it, acpctl inbox --ack %[1]d removes these", inbox.Next)
	}
}

// describeHeld returns what a message says, on one line; of a file that came, how to get it.
func describeHeld(m *client.HeldMessage) string {
	f := m.FileReport()
	if f == nil {
		return describeEnvelope(&m.Envelope)
	}
	said := "the file " + f.Name + " (" + ui.FormatBytes(f.Size) + ", acpctl files save " + ui.ShortID(f.ID) + ")"
	if f.Text != "" {
		said += ": " + f.Text
	}
	return client.Line(said)
}

// describeEnvelope returns what a message says, on one line.
func describeEnvelope(e *wire.Envelope) string {
	if client.IsOwnReport(e) {
		return client.DescribeOwnReport(e)
	}
	switch e.Kind {
	case kinds.KindNotify:
		if n, err := kinds.ParsePayload[kinds.Notify](e.Payload); err == nil {
			return client.Line(n.Topic + " " + string(n.Data))
		}
	case kinds.KindResult:
		if r, err := kinds.ParsePayload[kinds.Result](e.Payload); err == nil && e.Ref != nil {
			return client.Line(e.Ref.String() + " " + r.Status + ": " + r.Outcome)
		}
	case kinds.KindError:
		if r, err := kinds.ParsePayload[kinds.Error](e.Payload); err == nil && e.Ref != nil {
			return client.Line(e.Ref.String() + " " + r.Message)
		}
	}
	return client.Line(string(e.Payload))
}
