package talk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

func (v *verbs) newNotifyCmd() *cobra.Command {
	m := messageFlags{kind: kinds.KindNotify}
	var n kinds.Notify
	var noWait, isText bool
	cmd := &cobra.Command{
		Use:   "notify PEER[,PEER…] TOPIC DATA",
		Short: "Send a notice to one or several peers",
		Example: `  acpctl notify desk build.status '{"branch": "main", "ok": true}'
  acpctl notify desk,laptop build.status 'all green' --importance high
  acpctl notify desk log.tail --text @build.log`,
		Long: `A notice needs no answer. DATA may be - (standard input) or @file. It is sent as JSON if it is valid JSON, else as text.
DATA that begins with { or [ and is not valid JSON is an error. With --text it is always text.

It prints what became of the notice: handed (an agent has confirmed it), held (it is stored in the peer's inbox) or, with --no-wait,
sent. With --wait-online acpctl waits for a peer that cannot be reached, and sends the message once.
With --keep the daemon keeps a notice that does not arrive, and sends it later; then the exit code is 8.`,
		Args: m.checkArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if noWait && m.keep != 0 {
				return frame.UsageErrorf("--keep: whether to keep the message is known only when its receipt is waited for: leave out --no-wait")
			}
			if isText && m.payload != "" {
				return frame.UsageErrorf("--text is about DATA, and --payload stands instead of it: leave one of them out")
			}
			ctx := cmd.Context()
			h, p, err := m.composeMessage(ctx, v.Frame, func() (any, error) {
				n.Topic = args[1]
				text, err := v.ReadArgument(ctx, "DATA", args[2])
				if err != nil {
					return nil, err
				}
				n.Data, err = encodeNotifyData(text, isText)
				return &n, err
			})
			if err != nil {
				return err
			}
			wait := !noWait
			params := client.NotifyParams{Head: h, To: client.To(args[0]), Payload: p, Wait: &wait, KeepMS: m.keep.milliseconds()}
			if peers := strings.Split(args[0], ","); len(peers) > 1 {
				if slices.Contains(peers, "") {
					return frame.UsageErrorf("PEER: %q: a name is missing before or after a comma", args[0])
				}
				if m.id != "" {
					return frame.UsageErrorf("--id: each of several peers gets a message with an id of its own")
				}
				if m.patience > 0 {
					return frame.UsageErrorf("--wait-online: it waits for one peer: send the notice to each by itself")
				}
				params.ID, params.To = wire.MessageID{}, client.ToAll(peers...)
				return v.notifyAll(ctx, params)
			}
			return v.notifyPeer(ctx, params, m.patience)
		},
	}
	f := cmd.Flags()
	f.StringVar(&n.Importance, "importance", "", "low, medium or high (default low)")
	cmd.RegisterFlagCompletionFunc("importance", cobra.FixedCompletions([]string{"low", "medium", "high"}, cobra.ShellCompDirectiveNoFileComp))
	f.BoolVar(&isText, "text", false, "DATA is text, also if it looks like JSON")
	f.BoolVar(&noWait, "no-wait", false, "do not wait until it has arrived")
	m.addFlags(cmd)
	return cmd
}

// encodeNotifyData returns DATA as JSON: as it is if it is valid JSON, else as a string. Text that
// begins an object or an array is meant as JSON, so it returns an error if that is not valid.
func encodeNotifyData(text string, isText bool) (jsontext.Value, error) {
	if !isText {
		v, err := frame.ParseJSON("DATA", text)
		if err == nil {
			return v, nil
		}
		if begun := strings.TrimLeft(text, " \t\r\n"); begun != "" && (begun[0] == '{' || begun[0] == '[') {
			return nil, frame.WithHint(err, "--text sends it as text")
		}
	}
	return json.Marshal(text)
}

// notifyPeer prints what became of a message to one peer, for which it waits as long as patience
// says while it is unreachable.
func (v *verbs) notifyPeer(ctx context.Context, params client.NotifyParams, patience time.Duration) error {
	var r *client.Receipt
	err := v.sendOnline(ctx, params.To.Names[0], patience, func() (err error) {
		r, err = v.Daemon.Notify(ctx, params)
		return err
	})
	if err != nil {
		return v.reportKept(params.To.Names[0], false, frame.WithRepeatID(err, params.ID))
	}
	v.SetDoneNote("the message is %s, and its id is %s", client.Line(string(r.State)), r.ID)
	return v.PrintData(r, func() { v.printReceipt(r.State) })
}

// printReceipt prints what became of a message, and what that means for a person.
func (v *verbs) printReceipt(state client.ReceiptState) {
	v.PrintLine("%s", v.ColourState(string(state)))
	if means := receiptMeanings[state]; means != "" {
		v.PrintForPerson("%s", means)
	}
}

// receiptMeanings says what holds after a message, and what is next.
var receiptMeanings = map[client.ReceiptState]string{
	client.Handed:   "An agent there has confirmed it.",
	client.Held:     "It is stored there until an agent takes it. acpctl inbox there shows it.",
	client.Replaced: "A newer partial result was sent instead.",
	client.Sent:     "It is on its way; leave out --no-wait to see whether it arrives.",
}

// notifyAll prints a line for each recipient. The exit code is that of the first error; messages that are kept count as
// errors only if there is no other.
func (v *verbs) notifyAll(ctx context.Context, params client.NotifyParams) error {
	receipts, err := v.Daemon.NotifyAll(ctx, params)
	if err != nil {
		return err
	}
	var sent []string
	for _, r := range receipts {
		if r.Error == nil {
			sent = append(sent, fmt.Sprintf("%s: %s %s", client.Line(r.To), client.Line(string(r.State)), r.ID))
		}
	}
	v.SetDoneNote("what was sent: %s", cmp.Or(strings.Join(sent, ", "), "nothing"))
	var failed error
	isKept := false
	for _, r := range receipts {
		if r.Error != nil && client.FindKept(r.Error) != nil {
			if err := v.reportKept(r.To, true, r.Error); !errors.Is(err, frame.Exit(frame.ExitKept)) {
				return err
			}
			isKept = true
			continue
		}
		if r.Error != nil {
			r.Error, _ = errors.AsType[*kinds.Error](frame.WithRepeatID(r.Error, r.ID))
		}
		if r.Error != nil && failed == nil {
			failed = frame.Exit(frame.FindExitCode(r.Error))
		}
		switch {
		case v.JSON:
			if err := v.PrintJSON(r); err != nil {
				return err
			}
		case r.Error != nil:
			said := strings.TrimPrefix(strings.TrimPrefix(v.DescribeError(ctx, r.Error), "to: "), r.To+": ")
			v.Tell("acpctl notify: %s: %s%s%s", client.Line(r.To), client.Line(said), frame.DescribeDelivery(r.Error), v.DescribeQuoted(r.Error))
		default:
			v.PrintLine("%s\t%s", client.Line(r.To), v.ColourState(string(r.State)))
		}
	}
	if ctx.Err() != nil {
		return frame.Exit(frame.ExitInterrupted)
	}
	if failed == nil && isKept {
		return frame.Exit(frame.ExitKept)
	}
	return failed
}
