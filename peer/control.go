package peer

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/wire"
)

// controlWriter is our control stream. A stranger gets none.
type controlWriter struct {
	turn   chan struct{} // holds who writes
	stream *quic.SendStream
	buf    []byte
}

func newControlWriter() controlWriter { return controlWriter{turn: make(chan struct{}, 1)} }

// sendItem queues an item. It blocks while the peer's window for the stream is full;
// a connection on which that lasts is found dead. The error of a connection that
// has ended is left to whoever waits on it.
func (w *controlWriter) sendItem(item wire.Item) {
	w.turn <- struct{}{}
	defer func() { <-w.turn }()
	if b, err := wire.AppendItem(w.buf[:0], item); err == nil {
		w.buf = b
		w.stream.Write(b)
	}
}

// trySendItem queues an item only if that takes no waiting.
func (w *controlWriter) trySendItem(item wire.Item) {
	select {
	case w.turn <- struct{}{}:
	default:
		return
	}
	defer func() { <-w.turn }()
	if b, err := wire.AppendItem(w.buf[:0], item); err == nil {
		w.buf = b
		w.stream.TryWriteAll(b)
	}
}

// exchangeHellos sends our hello, unless the peer is a stranger, and reads the peer's.
func (c *conn) exchangeHellos(limit time.Duration, send bool) (*bufio.Reader, error) {
	if send {
		if err := c.sendHello(); err != nil {
			return nil, fmt.Errorf("send hello: %w", err)
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
		return nil, fmt.Errorf("the first stream has type %#x and not control", typ)
	}
	item, err := wire.ReadItem(r)
	if err != nil {
		return nil, asDeadlineExceeded(err)
	}
	hello, ok := item.(*wire.Hello)
	if !ok {
		return nil, errors.New("the first control item is not hello")
	}
	s.SetReadDeadline(time.Time{})
	hello.MaxMessage = min(hello.MaxMessage, wire.MaxMaxMessage)
	c.hello = hello
	c.claim = identity.Claim(hello.Name)
	c.noteHeard()
	return r, c.verifyHelloPQ()
}

// asDeadlineExceeded turns a passed read deadline into context.DeadlineExceeded.
func asDeadlineExceeded(err error) error {
	type timeout interface {
		error
		Timeout() bool
	}
	if e, ok := errors.AsType[timeout](err); ok && e.Timeout() {
		return context.DeadlineExceeded
	}
	return err
}

func (c *conn) sendHello() error {
	exporter, err := c.exporter()
	if err != nil {
		return err
	}
	sig, err := c.node.cfg.Key.SignHello(exporter, c.id)
	if err != nil {
		return err
	}
	hello := &wire.Hello{
		Name:       identity.Claim(c.node.cfg.Name),
		Boot:       c.node.boot,
		Software:   c.node.cfg.Software,
		MaxMessage: uint64(c.node.cfg.MaxMessage),
		Features:   c.node.features,
		PQ:         &wire.HelloPQ{Key: c.node.cfg.Key.PublicPQ(), Sig: sig},
	}
	b, err := wire.AppendItem([]byte{byte(wire.StreamControl)}, hello)
	if err != nil {
		return err
	}
	s, err := c.qc.OpenUniStream()
	if err != nil {
		return err
	}
	s.SetPriority(0, false) // receipts and pings go before payloads
	if _, err := s.Write(b); err != nil {
		return err
	}
	c.control.stream = s
	return nil
}

func (c *conn) exporter() ([]byte, error) { return exportKeyingMaterial(c.qc) }

// exportKeyingMaterial returns what the post-quantum halves sign of a connection.
func exportKeyingMaterial(qc *quic.Conn) ([]byte, error) {
	state := qc.ConnectionState().TLS
	return state.ExportKeyingMaterial(identity.ExporterLabel, nil, 32)
}

// verifyHelloPQ checks the signature in the peer's hello, of which only the key's hash
// is kept; whose key it is, is compared when trust is decided.
func (c *conn) verifyHelloPQ() error {
	pq := c.hello.PQ
	if pq == nil {
		return nil
	}
	c.hello.PQ = nil
	exporter, err := c.exporter()
	if err != nil {
		return err
	}
	if err := identity.VerifyHello(pq.Key, pq.Sig, exporter, c.id, c.node.self); err != nil {
		return fmt.Errorf("hello: %w", err)
	}
	c.pq = identity.HashPQ(pq.Key)
	return nil
}

// readControl serves the peer's control stream until the connection ends; the
// error says what the peer did wrong.
func (c *conn) readControl(r *bufio.Reader) error {
	for {
		item, err := wire.ReadItem(r)
		if err != nil {
			if c.qc.Context().Err() != nil {
				return nil
			}
			if err == io.EOF {
				return errors.New("the control stream ended")
			}
			return err
		}
		c.noteHeard()
		switch item := item.(type) {
		case *wire.Hello:
			return errors.New("a second hello")
		case *wire.Receipt:
			c.handleReceipt(item)
		case *wire.Ping:
			c.control.sendItem(&wire.Pong{N: item.N, Pad: item.Pad})
		case *wire.Pong:
			c.live.handlePong(c, item.N)
		case *wire.Goaway:
			c.mu.Lock()
			c.told = true
			c.mu.Unlock()
			c.stopOpening(quic.ApplicationErrorCode(item.Code))
			c.advanceDrain()
		case *wire.Done:
			c.mu.Lock()
			c.doneReceived = true
			c.mu.Unlock()
			c.advanceDrain()
		}
	}
}
