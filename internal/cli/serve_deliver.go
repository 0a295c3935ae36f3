package cli

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/pace"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

const (
	firstPause   = time.Second
	longestPause = 30 * time.Second
)

// deliverResult sends a result until the peer has it, refuses it, or does not know the
// delegation any more (not_found). It repeats with the same id: an hour's work must not be
// lost in a minute's outage. It replaces a result that is too large for the peer by one that
// says so.
func deliverResult(ctx context.Context, params client.ResultParams, send func(context.Context, client.ResultParams) (*client.Receipt, error)) error {
	replaced := false
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		_, err := send(ctx, params)
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
			params.Payload = failedResult(kinds.Errorf(kinds.TooLarge, "the task is done, but its result of %d bytes is more than a message may hold here", len(params.Payload)))
			params.ID = wire.NewMessageID() // it is another message
			continue
		case !e.Retryable:
			return err
		}
		wait := max(time.Duration(e.RetryAfterMS)*time.Millisecond, pause*3/4+rand.N(pause/2))
		if err := pace.Sleep(ctx, wait); err != nil {
			return err
		}
	}
}
