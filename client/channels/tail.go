package channels

import (
	"context"
	"io"
	"slices"
	"time"

	"github.com/acpd/acpd/internal/pace"
)

// Tail reads the messages of a channel that the caller can see, each once, in their order.
// One goroutine uses it. After an error it continues where it was.
type Tail struct {
	client  *Client
	channel string
	since   string    // id of the last message that was listed
	last    []Message // the last list that was not empty, without what was in the one before
	pause   time.Duration
}

// Tail returns a Tail of a channel. It makes no request.
func (c *Client) Tail(channel string) *Tail { return &Tail{client: c, channel: channel} }

// ReadLast returns the last n messages. [Tail.ReadNext] returns those that follow them.
func (t *Tail) ReadLast(ctx context.Context, n int) ([]Message, error) {
	found, err := t.readNewMessages(ctx, MessagesParams{Limit: max(1, n)})
	return found[:min(n, len(found))], err
}

// ReadNext returns the messages that have come since the last call. It waits
// for the first one, a minute or so, and may return no message. The error is io.EOF if no message is left and the
// channel is closed.
func (t *Tail) ReadNext(ctx context.Context) ([]Message, error) {
	if err := pace.Sleep(ctx, t.pause); err != nil {
		return nil, err
	}
	began := time.Now()
	found, err := t.readNewMessages(ctx, MessagesParams{Since: t.since, Wait: time.Minute})
	if err == nil && len(found) == 0 {
		ch, failed := t.client.Channel(ctx, t.channel)
		if err = failed; err == nil && ch.Status != StatusOpen {
			err = io.EOF
		}
	}
	if err == nil {
		t.pause = nextPollPause(t.pause, len(found), time.Since(began))
	}
	return found, err
}

// readNewMessages returns a list of messages without those of the list before: not every machine
// continues where it was asked to.
func (t *Tail) readNewMessages(ctx context.Context, p MessagesParams) ([]Message, error) {
	found, err := t.client.Messages(ctx, t.channel, p)
	if len(found) > 0 {
		t.since = found[len(found)-1].ID
	}
	found = slices.DeleteFunc(found, func(m Message) bool {
		return slices.ContainsFunc(t.last, func(seen Message) bool { return seen.ID == m.ID })
	})
	if len(found) > 0 {
		t.last = found
	}
	return found, err
}

// nextPollPause returns how long to wait before the next request, after one that has found that
// many news and took so long. If a machine answers at once without news, the pauses grow.
func nextPollPause(before time.Duration, news int, took time.Duration) time.Duration {
	if news > 0 || took >= time.Second {
		return 0
	}
	return min(max(2*before, 20*time.Millisecond), 2*time.Second)
}
