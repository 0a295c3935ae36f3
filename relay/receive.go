package relay

import (
	"bytes"
	"net"

	"github.com/nats-io/nats.go"

	"github.com/acpd/acpd/identity"
)

const statusNobody = "503" // of a message without a subscriber

// ReadFrom returns the next packet and its sender, as it claims to be. It waits until there is
// one, the deadline passes (os.ErrDeadlineExceeded) or the link is closed (net.ErrClosed). It cuts
// a packet that is longer than p. While nobody calls it, the link also receives no challenge
// of another process with this identity.
func (l *Link) ReadFrom(p []byte) (int, net.Addr, error) {
	packet, err := l.inbound.read()
	if err != nil {
		return 0, nil, &net.OpError{Op: "read", Net: "relay", Source: l.addr, Err: err}
	}
	return copy(p, packet.data), packet.from, nil
}

// parsePayload splits the payload of a message to the own subject. It is refused if it is too
// short or too long, or names no sender, or this daemon.
func parsePayload(payload []byte, self identity.ID) (from identity.ID, packet []byte, ok bool) {
	if len(payload) <= headerLen || len(payload) > headerLen+MTU {
		return identity.ID{}, nil, false
	}
	from = identity.ID(payload[:headerLen])
	if from.IsZero() || from == self {
		return identity.ID{}, nil, false
	}
	return from, payload[headerLen:], true
}

// receive takes a message to the own subject: a packet, or the challenge of another process
// with this identity. It keeps the message's bytes, and does not block.
func (l *Link) receive(s *session, m *nats.Msg) {
	if len(m.Data) == 0 && m.Header == nil {
		l.noteChallenge(s, m.Reply)
		return
	}
	from, packet, ok := parsePayload(m.Data, l.config.Self)
	if !ok {
		if !bytes.HasPrefix(m.Data, l.config.Self[:]) { // as [Link.Test] sends it
			l.counts.droppedIn.Add(1)
		}
		return
	}
	admission := l.config.Admit(from)
	if admission != Trusted && admission != Invited {
		l.counts.droppedIn.Add(1)
		return
	}
	if !l.queues.push(from, admission == Trusted, inPacket{packet, l.findAddr(from, admission)}) {
		l.counts.droppedIn.Add(1)
		return
	}
	l.counts.packetsIn.Add(1)
	l.counts.bytesIn.Add(uint64(len(packet)))
}

// findAddr returns the address of a sender. That of a trusted one is remembered.
func (l *Link) findAddr(id identity.ID, admission Admission) net.Addr {
	if admission == Trusted {
		return l.replies.findTarget(id).addr
	}
	return newAddr(l.config.Name, id)
}

// receiveReply takes a message to a reply subject: a notice that nobody is at an address, the
// answer of another process with this identity, or one to an ask. An answer that this process has not asked for is
// dropped.
func (l *Link) receiveReply(s *session, observer Observer, m *nats.Msg) {
	token, ok := l.replies.parseToken(m.Subject)
	if !ok {
		l.counts.droppedIn.Add(1)
		return
	}
	if token == s.challenge {
		l.takeCloneAnswer(s, m)
		return
	}
	if a := l.asks.find(token); a != nil {
		if !l.receiveAnswer(a, m) {
			l.counts.droppedIn.Add(1)
		}
		return
	}
	peer := l.replies.findPeer(token)
	if peer == nil || len(m.Data) > 0 || m.Header.Get("Status") != statusNobody {
		l.counts.droppedIn.Add(1)
		return
	}
	l.counts.refusals.Add(1)
	observer.NobodyAt(peer.addr)
}
