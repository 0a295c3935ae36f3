package serve

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"sort"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// makeResponse returns the answer to a query. Output that is a response stays as it is; any
// other output becomes the summary.
func (o *commandOutput) makeResponse() wire.Payload {
	if p, ok := o.payloadOfKind(kinds.KindResponse); ok {
		return p
	}
	return o.encodeTextToFit(func(text string, cut bool) wire.Payload {
		return kinds.EncodePayload(&kinds.Response{Summary: text, Truncated: cut})
	})
}

// makeResult returns the final report on a delegation. Output that is a final report stays as
// it is. Of a response, the summary becomes the outcome. Any other output becomes the outcome.
func (o *commandOutput) makeResult() wire.Payload {
	if p, ok := o.payloadOfKind(kinds.KindResult); ok {
		if r, err := kinds.ParsePayload[kinds.Result](p); err == nil && r.Status != "partial" {
			return p
		}
	}
	if p, ok := o.payloadOfKind(kinds.KindResponse); ok {
		if r, err := kinds.ParsePayload[kinds.Response](p); err == nil {
			return kinds.EncodePayload(&resultPayload{Status: "completed", Outcome: r.Summary, Data: r.Data, Truncated: r.Truncated})
		}
	}
	return o.encodeTextToFit(func(text string, cut bool) wire.Payload {
		return kinds.EncodePayload(&resultPayload{Status: "completed", Outcome: text, Truncated: cut})
	})
}

// resultPayload holds a result. Like a response, it can say that it was truncated.
type resultPayload struct {
	Status    string         `json:"status"`
	Outcome   string         `json:"outcome"`
	Data      jsontext.Value `json:"data,omitzero"`
	Error     string         `json:"error,omitzero"`
	Truncated bool           `json:"truncated,omitzero"`
}

// newFailedResult returns the final report on a delegation that failed with err, nil if err is
// nil.
func newFailedResult(err error) wire.Payload {
	if err == nil {
		return nil
	}
	e := kinds.AsError(err)
	return kinds.EncodePayload(&resultPayload{Status: "failed", Outcome: e.Message, Error: string(e.Code)})
}

// payloadOfKind returns the output if it is a payload of that kind.
func (o *commandOutput) payloadOfKind(kind string) (wire.Payload, bool) {
	text := wire.Payload(bytes.TrimSpace(o.text))
	if o.cut || len(text) == 0 || text[0] != '{' || kinds.CheckPayload(kind, text) != nil {
		return nil, false
	}
	return text, true
}

// encodeTextToFit encodes the output as text, without the line break at its end. It cuts the text if
// its encoding is too long for a message.
func (o *commandOutput) encodeTextToFit(encode func(text string, cut bool) wire.Payload) wire.Payload {
	text := bytes.TrimSuffix(o.text, []byte("\n"))
	if p := encode(string(text), o.cut); len(p) <= maxPayload {
		return p
	}
	// How long a character's encoding is depends on the character.
	n := sort.Search(len(text), func(n int) bool { return len(encode(string(text[:n+1]), true)) > maxPayload })
	return encode(string(trimPartialRune(text[:n])), true)
}

// trimPartialRune returns text without an incomplete character at its end.
func trimPartialRune(text []byte) []byte {
	for n := 1; n <= min(utf8.UTFMax, len(text)); n++ {
		if at := len(text) - n; utf8.RuneStart(text[at]) {
			if !utf8.FullRune(text[at:]) {
				return text[:at]
			}
			break
		}
	}
	return text
}

const (
	firstPause   = time.Second
	longestPause = 30 * time.Second
)

// resultDelivery is how a result gets to whoever owns the delegation.
type resultDelivery struct {
	send func(context.Context, client.ResultParams) (*client.Receipt, error)

	// attached returns a channel that is closed when the agent is attached the next time: its daemon is back then.
	attached func() <-chan struct{}
	delayed  func(why *kinds.Error) // it will be sent again; called when the code is another than the time before
}

// deliver sends a result until the peer has it, refuses it, or does not know the
// delegation any more (not_found). It repeats the result under the same id, because an hour's
// work must not be lost in a minute's outage. While the daemon is away it also sends it as soon as
// that is back. If the result is too large for the peer, it sends a short one with that reason.
func (d resultDelivery) deliver(ctx context.Context, params client.ResultParams) error {
	replaced := false
	var told kinds.Code
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		attached := d.attached()
		_, err := d.send(ctx, params)
		e, ok := errors.AsType[*kinds.Error](err)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case !ok:
			return err
		case e.Code == kinds.TooLarge && !replaced:
			replaced = true
			params.Payload = newFailedResult(kinds.Errorf(kinds.TooLarge, "the task is done, but its result of %d bytes is more than a message may hold here", len(params.Payload)))
			params.ID = wire.NewMessageID() // it is another message
			continue
		case !e.Retryable:
			return err
		}
		if e.Code != told {
			told = e.Code
			d.delayed(e)
		}
		if e.Code != kinds.DaemonUnavailable {
			attached = nil
		}
		wait := max(time.Duration(e.RetryAfterMS)*time.Millisecond, pause*3/4+rand.N(pause/2))
		select {
		case <-time.After(wait):
		case <-attached:
			pause = firstPause / 2 // doubled at once
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
