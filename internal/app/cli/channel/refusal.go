package channel

import (
	"context"
	"errors"
	"strings"

	"github.com/acpd/acpd/client/channels"
	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/kinds"
)

// explainRefusal replaces the error of a refusal by one that names flags instead of fields.
func explainRefusal(err error) error {
	if errors.Is(err, channels.ErrNoOperator) {
		return frame.UsageErrorf("--as: %v", err)
	}
	refusal, ok := errors.AsType[*channels.Refusal](err)
	if !ok {
		return err
	}
	r := *refusal
	r.Message = replaceFieldByFlag(r.Message)
	e := r.ProtocolError()
	switch {
	case e.Code != kinds.NotFound:
	case r.Host != "":
		return frame.WithHint(e, "an open intent there is open to agents of this machine where its owner names it in channels.open_to, any intent where they are granted access with their home")
	default:
		return frame.WithHint(e, "acpctl channel list shows the ids of channels and intents, acpctl channel tail those of messages")
	}
	return e
}

// describeError returns the message of an error, with the name of the machine that raised it.
func (c *verbs) describeError(ctx context.Context, err error) string {
	e, ok := errors.AsType[*kinds.Error](explainRefusal(err))
	if !ok {
		return err.Error()
	}
	return c.DescribeError(ctx, e)
}

// replaceFieldByFlag replaces the header or field that a message begins with by its name on the
// command line.
func replaceFieldByFlag(message string) string {
	for _, names := range [][2]string{
		{"X-Agent-ID: ", "--as: "}, {"Idempotency-Key: ", "--key: "}, {"members: ", "--member: "}, {"name: ", "NAME: "}, {"correlation_id: ", "MESSAGE: "}, {"min_responses: ", "--min: "},
		{"expires_at: ", "--expires: "}, {"task_id: ", "--task: "}, {"options: max_messages: ", "--keep: "}, {"options: ttl_seconds: ", "--ttl: "},
	} {
		if rest, ok := strings.CutPrefix(message, names[0]); ok {
			return names[1] + rest
		}
	}
	return message
}
