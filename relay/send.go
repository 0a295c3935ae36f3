package relay

import (
	"context"
	"errors"
	"net"
	"sync"

	"github.com/nats-io/nats.go"
)

const (
	maxWaitingOut = 512 // packets
	headerLen     = 32  // the sender's id
)

// outPacket is a packet that waits to be published: its payload and for whom it is.
type outPacket struct {
	to   *target
	len  int
	data [headerLen + MTU]byte
}

var outPackets = sync.Pool{New: func() any { return new(outPacket) }}

// WriteTo queues a packet for the peer at addr, and never blocks: a packet that the link cannot take is
// dropped, as by a socket, and noted unless there is no connection. It returns net.ErrClosed, or an error if an
// address is not of this relay.
func (l *Link) WriteTo(p []byte, addr net.Addr) (int, error) {
	a, ok := addr.(Addr)
	if !ok || a.relay != l.config.Name {
		return 0, &net.OpError{Op: "write", Net: "relay", Source: l.addr, Addr: addr, Err: net.InvalidAddrError("no address of this relay")}
	}
	select {
	case <-l.closed:
		return 0, net.ErrClosed
	default:
	}
	if l.session.Load() == nil { // the state has the reason
		return len(p), nil
	}
	if len(p) > MTU {
		l.counts.droppedOut.Add(1)
		return len(p), nil
	}
	packet := outPackets.Get().(*outPacket)
	packet.to = l.replies.findTarget(a.id)
	copy(packet.data[:headerLen], l.config.Self[:])
	packet.len = headerLen + copy(packet.data[headerLen:], p)
	select {
	case l.out <- packet:
	default:
		outPackets.Put(packet)
		l.counts.droppedOut.Add(1)
	}
	return len(p), nil
}

// publishLoop hands to the server what WriteTo and Ask queued, until ctx ends.
func (l *Link) publishLoop(ctx context.Context) {
	for {
		select {
		case packet := <-l.out:
			l.publish(l.session.Load(), packet)
		case a := <-l.asksOut:
			if s := l.session.Load(); s != nil {
				l.noteSent(s.conn.PublishRequest(nameSubject+a.name, l.replies.prefix+a.token, a.payload))
			}
		case <-ctx.Done():
			return
		}
	}
}

// publish hands one packet to a connection to the server; nil: drops it. It blocks while the
// server takes none.
func (l *Link) publish(s *session, packet *outPacket) {
	defer outPackets.Put(packet)
	if s == nil || !l.noteSent(s.conn.PublishRequest(packet.to.subject, packet.to.reply, packet.data[:packet.len])) {
		return
	}
	l.counts.packetsOut.Add(1)
	l.counts.bytesOut.Add(uint64(packet.len - headerLen))
}

// noteSent reports whether nats.go has taken a message. If not, it notes a drop, unless the connection
// has ended.
func (l *Link) noteSent(err error) bool {
	if err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
		l.counts.droppedOut.Add(1)
	}
	return err == nil
}

// publishWaiting hands what is queued to a connection that is about to end; nil: drops it.
func (l *Link) publishWaiting(s *session) {
	for {
		select {
		case packet := <-l.out:
			l.publish(s, packet)
		default:
			return
		}
	}
}
