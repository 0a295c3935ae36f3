package local

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"sync/atomic"
	"time"

	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/internal/pace"
)

// The pauses between attempts to accept a connection; they double. net/http has the
// same. A line in the log says why, once in acceptQuiet.
const (
	firstPause  = 5 * time.Millisecond
	longPause   = time.Second
	acceptQuiet = time.Minute
)

// acceptState shows from outside whether a loop accepts connections.
type acceptState struct {
	rounds  pace.Rounds
	asked   pace.Signal                   // somebody awaits a round, where the loop may wait for more than a connection; may be nil
	failure atomic.Pointer[acceptFailure] // of the last attempt, or nil
}

type acceptFailure struct {
	at  time.Time
	err error
}

// awaitRound blocks until the loop that accepts from l has come round, or returns ctx's error. It
// interrupts an Accept that waits for a connection. Nobody who connects can feign or hinder
// that, since no connection is made.
func (s *acceptState) awaitRound(ctx context.Context, l net.Listener) error {
	next := s.rounds.Next()
	s.asked.Set()
	setAcceptDeadline(l, time.Unix(1, 0)) // the patient listener takes it back
	select {
	case <-next:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// setAcceptDeadline sets when Accept stops waiting; zero means never. It does
// nothing if l is closed, because nobody accepts then.
func setAcceptDeadline(l net.Listener, from time.Time) {
	if d, ok := l.(interface{ SetDeadline(time.Time) error }); ok {
		d.SetDeadline(from)
	}
}

// lack returns an error if the last attempt to accept a connection has failed, a moment ago.
func (s *acceptState) lack() error {
	f := s.failure.Load()
	if f == nil || time.Since(f.at) > 2*longPause { // what it failed for has gone
		return nil
	}
	return ownwords.Errorf("no connection can be accepted just now: %w: "+acceptRemedy, f.err)
}

const acceptRemedy = "close programs that hold many, or start acpd with a larger ulimit -n"

// PatientListener accepts connections and waits while there is a passing lack, such as of
// descriptors or memory. Accept fails only when the listener is closed. One goroutine may
// accept.
type PatientListener struct {
	net.Listener
	log   *slog.Logger
	said  time.Time       // when the last line was logged
	state *acceptState    // of the loop that accepts
	open  context.Context // until Close
	close context.CancelFunc
}

// NewPatientListener returns a listener that accepts from l. log gets why no connection can be accepted.
func NewPatientListener(l net.Listener, log *slog.Logger) *PatientListener {
	open, end := context.WithCancel(context.Background())
	return &PatientListener{Listener: l, log: log, state: &acceptState{asked: pace.NewSignal()}, open: open, close: end}
}

// AwaitRound blocks until the loop that accepts from l has come round, or returns ctx's error.
func (l *PatientListener) AwaitRound(ctx context.Context) error {
	return l.state.awaitRound(ctx, l.Listener)
}

func (l *PatientListener) Accept() (net.Conn, error) {
	for pause := firstPause; ; {
		l.state.rounds.ComeRound()
		c, err := l.Listener.Accept()
		switch {
		case err == nil:
			l.state.failure.Store(nil)
			return c, nil
		case errors.Is(err, net.ErrClosed):
			return nil, err
		case errors.Is(err, os.ErrDeadlineExceeded): // awaitRound asks whether the loop still runs
			setAcceptDeadline(l.Listener, time.Time{})
			continue
		}
		l.state.failure.Store(&acceptFailure{time.Now(), err})
		if time.Since(l.said) > acceptQuiet {
			l.said = time.Now()
			l.log.Warn("no connection can be accepted just now: "+acceptRemedy, "socket", l.Addr(), "err", err)
		}
		if pace.Sleep(l.open, pause) != nil {
			return nil, net.ErrClosed
		}
		pause = min(2*pause, longPause)
	}
}

func (l *PatientListener) Close() error {
	l.close()
	return l.Listener.Close()
}
