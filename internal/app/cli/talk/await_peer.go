package talk

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/internal/pace"
	"github.com/acpd/acpd/kinds"
)

// The pauses between attempts to reach a peer. They grow from the first to the second; news of
// the peer ends one early, but not before the first has passed.
const (
	shortestPeerPause = 100 * time.Millisecond
	longestPeerPause  = 5 * time.Second
)

// notYetError says that a peer answers, and is not what is waited for.
type notYetError string

func (e notYetError) Error() string { return string(e) }

// awaitPeer calls attempt until it succeeds, again returns false for its error, or limit has passed; 0
// means no limit. It blocks between the attempts. It returns the error of the last attempt that
// ended by itself, or nil, and whether limit has passed. After the end of ctx the
// error is that of ctx.
func (v *verbs) awaitPeer(ctx context.Context, to string, limit time.Duration, again func(error) bool, attempt func(ctx context.Context) error) (last error, isOver bool) {
	bounded, cancel := ctx, context.CancelFunc(func() {})
	if limit > 0 {
		bounded, cancel = context.WithTimeout(ctx, limit)
	}
	defer cancel()
	news, stop := v.followPeer(bounded, to)
	defer stop()
	for pause := shortestPeerPause; ; pause = min(2*pause, longestPeerPause) {
		err := attempt(bounded)
		switch {
		case err == nil:
			return nil, false
		case ctx.Err() != nil:
			return ctx.Err(), false
		case bounded.Err() != nil && errors.Is(err, bounded.Err()):
			return last, true
		case !again(err):
			return err, false
		}
		if last == nil {
			v.PrintForPerson("waiting for %s: %s", client.Line(to), describeWaiting(err))
		}
		last = err
		if pace.Sleep(bounded, shortestPeerPause) == nil {
			select {
			case <-time.After(max(pause, findRetryAfter(err)) - shortestPeerPause):
			case <-news:
			case <-bounded.Done():
			}
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err(), false
		case bounded.Err() != nil:
			return last, true
		}
	}
}

// followPeer returns a signal that is set when the daemon reports an event of a peer, until stop
// is called. It is never set for an agent, which gets no events.
func (v *verbs) followPeer(ctx context.Context, to string) (news pace.Signal, stop func()) {
	news = pace.NewSignal()
	name, _, _ := strings.Cut(to, "/")
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		wanted := client.SubscribeParams{
			Kinds: []string{client.NoKind}, Peers: []string{name},
			Events: client.EventFilter{Types: []client.EventType{client.EventUp, client.EventTrust, client.EventRefused}},
		}
		v.Daemon.Subscribe(ctx, wanted, nil, func(*client.Event) { news.Set() }) // without it, the pauses pass
	}()
	return news, func() { cancel(); <-ended }
}

// isPeerAway reports whether an error says that a peer cannot be reached now, or has too much to
// do to answer.
func isPeerAway(err error) bool {
	e, ok := errors.AsType[*kinds.Error](err)
	return ok && (e.Code == kinds.Unreachable || e.Code == kinds.Timeout || e.Code == kinds.Overloaded)
}

// isUnsent reports whether an error proves that nothing of a message has reached the peer because
// it could not be reached, so that nothing runs twice if the message is sent again.
func isUnsent(err error) bool {
	e, ok := errors.AsType[*kinds.Error](err)
	return ok && e.From == "" && (e.Code == kinds.Unreachable || e.Code == kinds.Timeout) && e.Delivered() == kinds.DeliveredNo
}

// findRetryAfter returns the time after which an error says that a repeat makes sense, at most a
// minute, 0 if it does not say.
func findRetryAfter(err error) time.Duration {
	e, ok := errors.AsType[*kinds.Error](err)
	if !ok {
		return 0
	}
	return time.Duration(min(e.RetryAfterMS, 60_000)) * time.Millisecond
}

// describeWaiting returns why a peer is waited for. For an error that the peer has raised it
// returns only the code: the words are the peer's.
func describeWaiting(err error) string {
	e, ok := errors.AsType[*kinds.Error](err)
	switch {
	case err == nil:
		return "there was no answer yet"
	case ok && e.From != "" && e.Code == kinds.NoAgent:
		return "no such agent is attached there"
	case ok && e.From != "":
		return "it answers " + client.Line(string(e.Code))
	case ok:
		return client.Line(e.Message)
	}
	return client.Line(err.Error())
}

// sendOnline calls send. If that fails, and the error proves that nothing was sent, sendOnline
// waits until the peer answers a ping and calls it again, for as long as patience says. It
// never calls send after an error that leaves open whether the message has arrived. An attempt
// that is under way when patience ends is finished. If the peer stays away the error is
// unreachable.
func (v *verbs) sendOnline(ctx context.Context, to string, patience time.Duration, send func() error) error {
	first := send()
	if patience <= 0 || ctx.Err() != nil || !isUnsent(first) {
		return first
	}
	name, _, _ := strings.Cut(to, "/")
	var outcome error
	last, isOver := v.awaitPeer(ctx, to, patience, func(error) bool { return true }, func(bounded context.Context) error {
		_, err := v.Daemon.Ping(bounded, client.PingParams{To: name})
		if bounded.Err() != nil || isPeerAway(err) {
			return err
		}
		if outcome = send(); isUnsent(outcome) { // what else is wrong, send says
			return outcome
		}
		return nil
	})
	switch {
	case isOver:
		return kinds.Errorf(kinds.Unreachable, "%s; waited %s for it, and nothing was sent", describeWaiting(cmp.Or(last, first)), kinds.FormatDuration(patience)).WithDelivered(kinds.DeliveredNo)
	case last != nil:
		return unsentError{frame.WithHint(last, "nothing was sent")}
	}
	return outcome
}

// unsentError is the error of a message that was given up before it was sent.
type unsentError struct{ error }

func (e unsentError) Unwrap() error { return e.error }
