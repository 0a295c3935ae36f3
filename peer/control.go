package peer

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/wire"
)

// controlWriter writes this node's control stream. A stranger gets none.
type controlWriter struct {
	turn   chan struct{}  // holds one while an item is written
	late   chan wire.Item // of trySendItem, while another item was written
	stream *quic.SendStream
	buf    []byte
}

// maxLate bounds the items that wait for the one that is being written.
const maxLate = 4

func newControlWriter() controlWriter {
	return controlWriter{turn: make(chan struct{}, 1), late: make(chan wire.Item, maxLate)}
}

// sendItem queues an item. It blocks while the peer's window for the stream is full;
// a connection on which that lasts is found dead. It returns no error: if the connection
// has ended, the calls that wait on it say so.
func (w *controlWriter) sendItem(item wire.Item) {
	w.turn <- struct{}{}
	w.writeItem(item, func(b []byte) { w.stream.Write(b) })
	<-w.turn
	w.sendLate()
}

// trySendItem queues an item, and drops it if the peer's window for the stream is full, or if maxLate
// items wait already. It does not block: if another item is being written, whoever does that writes
// this one too.
func (w *controlWriter) trySendItem(item wire.Item) {
	select {
	case w.late <- item:
		w.sendLate()
	default:
	}
}

// sendLate writes what trySendItem has left, unless somebody has the turn, who calls it then.
func (w *controlWriter) sendLate() {
	for len(w.late) > 0 {
		select {
		case w.turn <- struct{}{}:
		default:
			return
		}
		select {
		case item := <-w.late:
			w.writeItem(item, func(b []byte) { w.stream.TryWriteAll(b) })
		default:
		}
		<-w.turn
	}
}

// writeItem encodes an item and calls write with it. The caller has the turn.
func (w *controlWriter) writeItem(item wire.Item, write func([]byte)) {
	if b, err := wire.AppendControlItem(w.buf[:0], item); err == nil {
		w.buf = b
		write(b)
	}
}

// exchangeHellos reads the peer's hello, after it has sent this node's if send is set. Reading
// takes limit at most; the error is context.DeadlineExceeded then. The reader has what follows on
// the control stream.
func (c *conn) exchangeHellos(limit time.Duration, send bool) (*bufio.Reader, error) {
	if send {
		if err := c.sendHello(); err != nil {
			return nil, ownwords.Errorf("send hello: %w", err)
		}
	}
	ctx, cancel := context.WithTimeout(c.qc.Context(), limit)
	defer cancel()
	deadline, _ := ctx.Deadline()
	s, err := c.qc.AcceptUniStream(ctx)
	if err != nil {
		return nil, err
	}
	s.SetReadDeadline(deadline)
	r := bufio.NewReaderSize(s, 512)
	typ, err := r.ReadByte()
	if err != nil {
		return nil, asDeadlineExceeded(err)
	}
	if wire.StreamType(typ) != wire.StreamControl {
		return nil, ownwords.Errorf("the first stream has type %#x and not control", typ)
	}
	item, err := wire.ReadControlItem(r)
	if err != nil {
		return nil, asDeadlineExceeded(err)
	}
	hello, ok := item.(*wire.Hello)
	if !ok {
		return nil, ownwords.New("the first control item is not hello")
	}
	s.SetReadDeadline(time.Time{})
	hello.MaxMessage = min(hello.MaxMessage, wire.MaxMaxMessage)
	c.peerHello = hello
	c.claim = identity.CleanClaim(hello.Name)
	c.markHeard()
	return r, c.verifyHelloPQ()
}

// asDeadlineExceeded returns context.DeadlineExceeded for the error of a read deadline
// that has passed, and any other error as it is.
func asDeadlineExceeded(err error) error {
	if e, ok := errors.AsType[net.Error](err); ok && e.Timeout() {
		return context.DeadlineExceeded
	}
	return err
}

// sendHello opens the control stream and sends this node's hello. It blocks while the peer grants
// no window for it, for helloTimeout at most; the error is context.DeadlineExceeded then.
func (c *conn) sendHello() error {
	sig, err := c.node.signPQ(c.qc, c.id)
	if err != nil {
		return err
	}
	cert := c.node.ownCertificate()
	hello := &wire.Hello{
		Name:       identity.CleanClaim(c.node.cfg.Name),
		Boot:       c.node.boot,
		Software:   c.node.cfg.Software,
		MaxMessage: uint64(c.node.cfg.MaxMessage),
		Features:   c.node.features,
		PQ:         &wire.HelloPQ{Key: c.node.cfg.Key.PublicPQ(), Sig: sig},
		Cert:       cert,
	}
	c.renewal.sent.Store(&cert) // without the rest of the hello, whose signature has 3 KB
	b, err := wire.AppendControlItem([]byte{byte(wire.StreamControl)}, hello)
	if err != nil {
		return err
	}
	s, err := c.qc.OpenUniStream()
	if err != nil {
		return err
	}
	s.SetPriority(0, false) // receipts and pings go before payloads
	s.SetWriteDeadline(time.Now().Add(helloTimeout))
	if _, err := s.Write(b); err != nil {
		return asDeadlineExceeded(err)
	}
	s.SetWriteDeadline(time.Time{})
	c.control.stream = s
	return nil
}

// exportKeyingMaterial returns the connection's secret that the post-quantum halves sign
// (RFC 8446, section 7.5).
func exportKeyingMaterial(qc *quic.Conn) ([]byte, error) {
	state := qc.ConnectionState().TLS
	return state.ExportKeyingMaterial(identity.ExporterLabel, nil, 32)
}

// verifyHelloPQ checks the post-quantum signature in the peer's hello and keeps the hash
// of its key, which is compared with the pin when trust is decided.
func (c *conn) verifyHelloPQ() (err error) {
	pq := c.peerHello.PQ
	if pq == nil {
		return nil
	}
	c.peerHello.PQ = nil
	if c.peerPQ, err = c.node.verifyPQ(c.qc, pq.Key, pq.Sig, c.id); err != nil {
		return ownwords.Errorf("hello: %w", err)
	}
	return nil
}

// readControlItems handles the items of the peer's control stream until the connection ends.
// The error says what the peer did wrong.
func (c *conn) readControlItems(r *bufio.Reader) error {
	for {
		// An idle connection waits here, where the stack is less deep than in ReadControlItem:
		// it fits the 2 KB with which a goroutine begins.
		var item wire.Item
		_, err := r.Peek(1)
		if err == nil {
			item, err = wire.ReadControlItem(r)
		}
		if err != nil {
			if c.qc.Context().Err() != nil {
				return nil
			}
			if err == io.EOF {
				return ownwords.New("the control stream ended")
			}
			return err
		}
		c.markHeard()
		switch item := item.(type) {
		case *wire.Hello:
			return ownwords.New("a second hello")
		case *wire.Receipt:
			c.handleReceipt(item)
		case *wire.Ping:
			c.control.sendItem(&wire.Pong{N: item.N, Pad: item.Pad})
		case *wire.Pong:
			c.live.handlePong(c, item.N)
		case *wire.Renewal:
			c.handleRenewal(item.Cert)
		case *wire.Goaway:
			c.mu.Lock()
			c.goawayReceived = true
			c.mu.Unlock()
			c.markLeaving(quic.ApplicationErrorCode(item.Code))
			c.advanceDrain()
		case *wire.Paths:
			c.handlePaths(item)
		case *wire.Agents:
			c.node.emitEvent(Event{Type: EventAgents, Peer: c.id})
		case *wire.Done:
			c.mu.Lock()
			c.doneReceived = true
			c.mu.Unlock()
			c.advanceDrain()
		}
	}
}
