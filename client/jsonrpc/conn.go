package jsonrpc

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
)

// Options configure a connection. The zero value is one that only calls.
type Options struct {
	// MaxLine is the limit of a line in bytes, both ways. A longer one that comes
	// in is answered with too_large and ends the connection; a longer one that
	// would go out is an error of its call. 0: the largest that any daemon takes.
	MaxLine int

	// Unfinished, if set, bounds the lines that come in and are not whole, of all
	// connections that have it. One that takes too much of it or too long is told so,
	// as overloaded or timeout, and the connection ends. nil: MaxLine alone bounds them.
	Unfinished *Unfinished

	// Underway, if set, bounds the requests that are served or wait, of all connections
	// that have it. One that has no room is answered with overloaded. nil: MaxInFlight and
	// what waits beyond it bound those of this connection alone.
	Underway *Underway

	// Handler is called for each request and notification, in a goroutine of its
	// own, which it may block. ctx ends when the caller gives up (rpc.cancel) and
	// when the connection ends. A request that it has not replied to when it
	// returns is answered with internal. nil: there are no methods.
	Handler func(ctx context.Context, c *Conn, r *Request)

	// Notified, if set, gets the notifications instead, one after the other in
	// their order. Nothing is read while it runs. params is not validated.
	Notified func(method string, params jsontext.Value)

	// MaxInFlight bounds the handlers that run at once, 1,024 unless set. Requests
	// beyond wait for their turn, up to 16,384 of them or 16 MiB; beyond that they
	// are answered with overloaded.
	MaxInFlight int

	// PushBack makes Call and Notify fail with ErrFull when the outgoing queue is
	// at its bound, 1,024 lines or 4 MiB, instead of waiting.
	PushBack bool
}

const (
	defaultInFlight = 1024
	maxParked       = 64 // goroutines that wait for a handler to run
	maxWaiting      = 16384
	maxWaitingBytes = 16 << 20
	methodCancel    = "rpc.cancel"
)

// Conn is one end of a JSON-RPC 2.0 connection with one object per line. Both
// ends may call. Any number of goroutines may use it.
//
// What differs from the text of JSON-RPC 2.0: batches are refused as invalid
// requests, a request's id is not null, params by position are for the handler to
// take, and the notification rpc.cancel {id} gives up a request. The inside of
// params is validated when it is read, by [Request.Bind].
type Conn struct {
	conn     net.Conn
	opts     Options
	out      outbox
	done     chan struct{}
	handlers sync.WaitGroup
	active   atomic.Int32  // calls and handlers under way
	work     chan *Request // for parked goroutines; closed when nothing more is read

	mu       sync.Mutex
	err      error
	lastID   uint64
	calls    map[uint64]*call
	requests map[string]*Request // by id, running or waiting
	running  int
	parked   int // goroutines that wait on work
	waiting  []*Request
	bytes    int // of the waiting requests' params

	load load // in Options.Underway, which guards it
}

// NewConn makes a connection over a stream and starts nothing: see [Conn.Run].
func NewConn(conn net.Conn, o Options) *Conn {
	o.MaxLine = defaultMaxLine(o.MaxLine)
	if o.MaxInFlight <= 0 {
		o.MaxInFlight = defaultInFlight
	}
	c := &Conn{
		conn:     conn,
		opts:     o,
		done:     make(chan struct{}),
		work:     make(chan *Request, maxParked),
		calls:    make(map[uint64]*call),
		requests: make(map[string]*Request),
	}
	c.out.init(conn, c.end)
	return c
}

// Run reads until the connection or ctx ends, or Close is called. When the other
// end has only finished writing (a half-close), what it has asked for is still
// answered. Run returns when all handlers have; nil where the other end finished
// or Close was called. It is called once.
func (c *Conn) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, func() { c.end(context.Cause(ctx)) })()

	err := c.read(ctx)
	close(c.work)
	refused, isRefused := err.(unread)
	switch {
	case err == io.EOF:
		c.abandon(err)
		c.linger(cancel)
	case isRefused:
		c.abandon(err)
		c.refuse(refused)
	}
	c.end(err)
	cancel()
	c.handlers.Wait()
	if u := c.opts.Underway; u != nil {
		u.end(&c.load) // those that waited
	}
	c.out.drain()
	if err := c.Err(); err != io.EOF && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// Close ends the connection at once: calls in flight fail, handlers' contexts
// end. It does not wait for Run.
func (c *Conn) Close() error {
	c.end(net.ErrClosed)
	return nil
}

// Busy reports whether calls or handlers are under way.
func (c *Conn) Busy() bool { return c.active.Load() > 0 }

// Done is closed when the connection has ended.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Err returns why the connection ended, nil while it lives: io.EOF if the other
// end closed it, net.ErrClosed after Close.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// end closes the connection for a reason; the first one stays.
func (c *Conn) end(cause error) {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	c.err = cause
	waiting := c.waiting
	c.waiting, c.bytes = nil, 0
	close(c.done)
	c.mu.Unlock()

	for _, r := range waiting {
		r.cancel(nil)
	}
	c.out.close(cause)
	c.conn.Close()
	c.abandon(cause)
}

// abandon fails the calls in flight: no response can come any more. What the other
// end said of a line that it could not read is for the one call that there is; of
// several it could be any.
func (c *Conn) abandon(cause error) {
	c.mu.Lock()
	calls := c.calls
	c.calls = nil
	c.mu.Unlock()
	said, ok := errors.AsType[*kinds.Error](cause)
	for _, w := range calls {
		w.err = closed(cause, kinds.DeliveredUnknown)
		if len(calls) == 1 && ok {
			w.err = said
		}
		close(w.done)
	}
}

// linger answers what the other end asked for before it finished writing. If it
// has closed altogether there is nobody to answer.
func (c *Conn) linger(cancel context.CancelFunc) {
	idle := make(chan struct{})
	go func() {
		defer close(idle)
		c.handlers.Wait()
		c.out.drain()
		c.conn.SetReadDeadline(time.Unix(1, 0)) // ends the wait below
	}()
	awaitHangup(c.conn)
	c.end(io.EOF)
	cancel()
	<-idle
}

// refuse tells the other end why it is cut off, which it can read only when its
// own writing is not broken off at once.
func (c *Conn) refuse(cause unread) {
	c.respond(identity.ID{}, nil, nil, cause.error)
	c.out.drain()
	if half, ok := c.conn.(interface{ CloseWrite() error }); ok {
		half.CloseWrite()
	}
	c.conn.SetReadDeadline(time.Now().Add(time.Second))
	io.Copy(io.Discard, c.conn)
}

// read serves lines until there are no more.
func (c *Conn) read(ctx context.Context) error {
	in := lines{r: c.conn, max: c.opts.MaxLine}
	if c.opts.Unfinished != nil {
		in.part = c.opts.Unfinished.Open(c.conn.SetReadDeadline)
		defer in.part.Finish()
	}
	for {
		line, err := in.next()
		if err == errLong {
			err = kinds.Errorf(kinds.TooLarge, "more than the %d bytes that one call may have: send less, or a reference to it", c.opts.MaxLine)
		}
		if e, ok := err.(*kinds.Error); ok {
			return unread{e}
		}
		if err != nil {
			return err
		}
		if space(line, 0) == len(line) {
			continue
		}
		// One copy, which the message's values alias for as long as they live.
		m := messagePool.Get().(*message)
		fail := m.parse(append([]byte(nil), line...))
		switch {
		case m.isResponse:
			err = c.resolve(m, fail)
		case fail != nil:
			err = c.respond(identity.ID{}, m.id, nil, fail)
		case m.id != nil || m.method != methodCancel && c.opts.Notified == nil:
			err = c.accept(ctx, m, len(line))
		case m.method == methodCancel:
			c.cancelRequest(m)
		default:
			c.opts.Notified(m.method, m.params)
		}
		if err != nil {
			return err
		}
	}
}

// respond writes a response, for a peer or for nobody; id nil is null.
func (c *Conn) respond(peer identity.ID, id []byte, result any, err error) error {
	name, value := `,"result":`, result
	if err != nil {
		name, value = `,"error":`, toRPC(err)
	}
	return c.write(context.Background(), peer, wait, func(b []byte) ([]byte, error) {
		b = append(b, `{"jsonrpc":"2.0","id":`...)
		if id == nil {
			b = append(b, "null"...)
		}
		b = append(b, id...)
		return AppendValue(append(b, name...), value)
	})
}

// write sends the line that fill appends but for its end.
func (c *Conn) write(ctx context.Context, peer identity.ID, mode putMode, fill func([]byte) ([]byte, error)) error {
	line := batchPool.Get().(*batch)
	text, err := fill(line.text)
	line.text, line.lines = append(text, "}\n"...), 1
	switch n := len(line.text); {
	case err != nil:
		err = kinds.Errorf(kinds.Invalid, "%v", err)
	case n > c.opts.MaxLine:
		err = kinds.Errorf(kinds.TooLarge, "%d bytes are over the socket's limit of %d: send less in one message", n, c.opts.MaxLine)
	default:
		return c.out.put(ctx, peer, line, mode, c.active.Load() > 1)
	}
	line.release()
	return err
}
