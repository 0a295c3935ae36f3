package talk

import (
	"cmp"
	"context"
	"strings"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/internal/app/cli/ui"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// queryAll asks all connected peers, and prints each outcome as it comes. If nobody answers, the exit code is that of
// the first failure.
func (v *verbs) queryAll(ctx context.Context, params client.QueryParams, q *queryFlags) error {
	peers, err := v.Daemon.Peers(ctx)
	if err != nil {
		return err
	}
	names, skipped := client.ChooseAsked(peers)
	if len(names) > 0 {
		v.PrintForPerson("asking %s", strings.Join(names[:min(len(names), client.MaxAsked)], ", "))
	}
	v.tellSkipped(skipped...)
	isPrinted := v.JSON && len(skipped) > 0
	err = client.AskEach(names, q.query.Domain, func(to string, id wire.MessageID) (*client.Answer, error) {
		own := params
		own.To, own.ID = to, id
		if q.payload == "" && q.query.DeadlineMS == 0 && v.waitsForTurn(ctx, to) {
			query := q.query
			query.DeadlineMS = uint64(kinds.MaxQueryDeadline.Milliseconds())
			own.Payload = kinds.EncodePayload(&query)
		}
		return v.Daemon.Query(ctx, own)
	}, func(a client.Asked) {
		isPrinted = isPrinted || v.JSON || a.Error != nil
		v.printAsked(ctx, a)
	})
	if err != nil && isPrinted {
		err = frame.Exit(frame.FindExitCode(kinds.AsError(err)))
	}
	return cmp.Or(ctx.Err(), err)
}

// tellSkipped tells who was skipped, and why. With --json that is data.
func (v *verbs) tellSkipped(skipped ...client.Asked) {
	if v.JSON {
		for _, a := range skipped {
			v.PrintJSON(a)
		}
		return
	}
	for _, line := range client.FormatSkipped(skipped, len(skipped)) {
		v.Warn("%s", line)
	}
}

// printAsked prints what became of the question at one peer. No line of an answer can be taken for another peer's: who
// said it is before each, or in a heading above lines that are indented.
func (v *verbs) printAsked(ctx context.Context, a client.Asked) {
	switch {
	case ctx.Err() != nil && a.Answer == nil: // it was interrupted, as all that is left
	case v.JSON:
		v.PrintJSON(a)
	case a.Skipped != "":
		v.tellSkipped(a)
	case a.Error != nil && a.Error.From != "" && v.ForModel:
		v.PrintErrorForModel(ctx, a.Error)
	case a.Error != nil:
		said := strings.TrimPrefix(strings.TrimPrefix(v.DescribeError(ctx, a.Error), "to: "), a.To+": ")
		v.Tell("%s: %s: %s%s%s", v.Verb, a.To, client.Line(said), frame.DescribeDelivery(a.Error), v.DescribeQuoted(a.Error))
	default:
		v.printAnswerOf(ctx, a)
	}
}

// printAnswerOf prints what a peer has answered, for printAsked.
func (v *verbs) printAnswerOf(ctx context.Context, a client.Asked) {
	r, err := kinds.ParsePayload[kinds.Response](a.Answer.Payload)
	if err != nil {
		v.Warn("%s: %v", a.To, err)
		return
	}
	who, took := v.formatAnswerer(ctx, a.Answer)
	switch text := v.FormatAnswer(r.Summary, r.Data); {
	case v.ForModel:
		v.printAnswerForModel(ctx, a.Answer)
	case v.OutTTY:
		v.PrintLine("%s · %s", v.ColourText(ui.Bold, who), took)
		for line := range strings.SplitSeq(text, "\n") {
			v.PrintLine("%s", ui.WrapBehind("  ", line, v.OutWidth()))
		}
	default:
		v.PrintLine("%s\t%s", who, strings.ReplaceAll(text, "\n", "\n"+who+"\t"))
	}
	if r.Truncated {
		v.Warn("%s: the answer is not whole, the agent has cut it: ask for less at a time", a.To)
	}
}
