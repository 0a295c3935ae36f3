package pipe

import (
	"errors"
	"net"
	"os"

	"github.com/acpd/acpd/internal/ownwords"
)

// runJoined serves a pipe that came in, to its end.
func (l *Link) runJoined(p *pipe, conn net.Conn) {
	err := l.carry(p, conn, true)
	conn.Close()
	switch {
	case p.isUnwanted():
		err = nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = ownwords.Errorf("pipe: nothing has come for %v", l.times.silence)
	case errors.Is(err, errSilent):
		err = ownwords.Errorf("pipe: nothing has come for %v", l.times.firstByte)
	case err != nil:
		err = ownwords.Errorf("pipe: the other end %w", err)
	}
	l.tellNobodyAt(p)
	l.log.Debug("pipe ended", "pipe", p.addr.text, "reason", err)
	p.settle(err)
	l.removePipe(p)
}
