package relay

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// inbound is the way of packets from the server to ReadFrom. nats.go keeps what comes to the own
// subject, up to the bounds of its subscription; ReadFrom takes all of it into the queues
// before each packet. So there is no goroutine in between, a flood is dropped as it comes, and a
// link that nobody reads keeps no more than these bounds.
type inbound struct {
	link    *Link
	reading chan struct{} // full while somebody reads

	mu       sync.Mutex // guards what follows
	source   source     // what is read
	closed   bool
	deadline time.Time
	timer    *time.Timer
	changed  context.Context // ends when any of these changes
	wake     context.CancelFunc
}

// source is a subscription of the own subject; zero: none.
type source struct {
	session *session
	packets *nats.Subscription
}

func newInbound(l *Link) *inbound {
	in := &inbound{link: l, reading: make(chan struct{}, 1)}
	in.changed, in.wake = context.WithCancel(context.Background())
	return in
}

// read waits for a packet. The error is net.ErrClosed or os.ErrDeadlineExceeded.
func (in *inbound) read() (inPacket, error) {
	in.reading <- struct{}{}
	defer func() { <-in.reading }()
	for {
		from, changed, err := in.look()
		if err != nil {
			return inPacket{}, err
		}
		in.takeWaiting(changed, from)
		if p, ok := in.link.queues.pop(); ok {
			return p, nil
		}
		if from.packets == nil {
			<-changed.Done()
			continue
		}
		in.takeNext(changed, from)
	}
}

// look returns what to read, and a context that ends when that is another one, or an error is due.
func (in *inbound) look() (source, context.Context, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	switch {
	case in.closed:
		return source{}, nil, net.ErrClosed
	case !in.deadline.IsZero() && !time.Now().Before(in.deadline):
		return source{}, nil, os.ErrDeadlineExceeded
	}
	return in.source, in.changed, nil
}

// takeWaiting takes what the source has now: nats.go's bound at most, so that a flood keeps no
// packet back that is in the queues.
func (in *inbound) takeWaiting(changed context.Context, from source) {
	if from.packets == nil {
		return
	}
	for waiting, _, _ := from.packets.Pending(); waiting > 0 && in.takeNext(changed, from); waiting-- {
	}
}

// takeNext waits for the next message of the source, or until changed ends. It reports whether there may
// be more.
func (in *inbound) takeNext(changed context.Context, from source) bool {
	m, err := from.packets.NextMsgWithContext(changed)
	switch {
	case err == nil:
		in.link.receive(from.session, m)
	case errors.Is(err, nats.ErrConnectionClosed), errors.Is(err, nats.ErrBadSubscription):
		in.leave(from.packets)
		return false
	case errors.Is(err, nats.ErrNoResponders): // a message that says 503, which nats.go has taken
		in.link.counts.droppedIn.Add(1)
	case changed.Err() != nil:
		return false
	}
	return true // also after ErrSlowConsumer, which [session.noteError] gets
}

// enter has ReadFrom read what comes on a subscription of the own subject.
func (in *inbound) enter(from source) { in.change(func() { in.source = from }) }

// leave has ReadFrom read nothing more of a subscription.
func (in *inbound) leave(packets *nats.Subscription) {
	in.change(func() {
		if in.source.packets == packets {
			in.source = source{}
		}
	})
}

// setDeadline has read end from t on; the zero time: never.
func (in *inbound) setDeadline(t time.Time) {
	in.change(func() {
		in.stopTimer()
		in.deadline = t
		if wait := time.Until(t); !t.IsZero() && wait > 0 && !in.closed {
			in.timer = time.AfterFunc(wait, func() { in.change(func() {}) })
		}
	})
}

// close drops what waits, and ends every read.
func (in *inbound) close() {
	in.change(func() {
		in.stopTimer()
		in.closed, in.source = true, source{}
	})
	in.link.queues.close()
}

// change has whoever reads look again.
func (in *inbound) change(f func()) {
	in.mu.Lock()
	defer in.mu.Unlock()
	f()
	in.wake()
	in.changed, in.wake = context.WithCancel(context.Background())
}

// stopTimer ends the timer of the deadline before. The caller holds mu.
func (in *inbound) stopTimer() {
	if in.timer != nil {
		in.timer.Stop()
		in.timer = nil
	}
}
