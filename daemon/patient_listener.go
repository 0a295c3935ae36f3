package daemon

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"time"

	"github.com/acpd/acpd/internal/pace"
)

// The pauses between attempts to accept a connection; they double. net/http has the
// same. A line in the log says why, once in acceptQuiet.
const (
	firstPause  = 5 * time.Millisecond
	longPause   = time.Second
	acceptQuiet = time.Minute
)

// patientListener accepts connections and waits while there is a passing lack, such as of
// descriptors or memory. Accept fails only when the listener is closed. One goroutine may
// accept.
type patientListener struct {
	net.Listener
	log   *slog.Logger
	said  time.Time       // when the last line was logged
	open  context.Context // until Close
	close context.CancelFunc
}

func newPatientListener(l net.Listener, log *slog.Logger) *patientListener {
	open, end := context.WithCancel(context.Background())
	return &patientListener{Listener: l, log: log, open: open, close: end}
}

func (l *patientListener) Accept() (net.Conn, error) {
	for pause := firstPause; ; pause = min(2*pause, longPause) {
		c, err := l.Listener.Accept()
		if err == nil || errors.Is(err, net.ErrClosed) {
			return c, err
		}
		if time.Since(l.said) > acceptQuiet {
			l.said = time.Now()
			l.log.Warn("no connection can be accepted just now: close programs that hold many, or start acpd with a larger ulimit -n", "socket", l.Addr(), "err", err)
		}
		if pace.Sleep(l.open, pause) != nil {
			return nil, net.ErrClosed
		}
	}
}

func (l *patientListener) Close() error {
	l.close()
	return l.Listener.Close()
}
