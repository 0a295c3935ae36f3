package jsonrpc

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/jsonscan"
	"github.com/acpd/acpd/internal/workers"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// Options configure a connection. The zero value is one that only calls.
type Options struct {
	// MaxLine is the limit of a line in bytes, both ways. A longer one that comes
	// in is answered with too_large and ends the connection; a longer one that
	// would go out is an error of its call. 0: the largest that any daemon takes.
	MaxLine int

	// InputLimit, if set, bounds the unfinished lines of all connections that share it.
	// A line that takes too much room or time is answered with overloaded or timeout, and
	// its connection ends. nil: only MaxLine bounds the line.
	InputLimit *InputLimit

	// RequestLimit, if set, bounds the requests under way of all connections that share
	// it. A request without room is answered with overloaded. nil: MaxInFlight and what
	// waits beyond it are the only bounds.
	RequestLimit *RequestLimit

	// UnreadRoom, if set, is shared with other connections. An answer over 1 KiB without room is
	// replaced by overloaded. With PushBack, other lines fail with ErrFull. nil: the queue of
	// each connection is the only bound, and answers wait beyond it.
	UnreadRoom *UnreadRoom

	// MaxUnread is the most that this connection takes of UnreadRoom, in bytes, so that others
	// have room. Its first line is not included.
	MaxUnread int64

	// Handler is called for each request and notification, in a goroutine of its
	// own, which it may block. ctx ends when the caller gives up (rpc.cancel) and
	// when the connection ends. If Handler returns without a reply, the caller gets
	// internal. nil: there are no methods.
	Handler func(ctx context.Context, c *Conn, r *Request)

	// Notified, if set, gets the notifications instead of Handler, one after the other
	// in their order. The connection reads nothing while it runs. params is not validated.
	Notified func(method string, params jsontext.Value)

	// MaxInFlight bounds the handlers that run at once, 1,024 unless set. Requests
	// beyond wait for their turn, up to 16,384 of them or 16 MiB; beyond that they
	// are answered with overloaded.
	MaxInFlight int

	// PushBack makes Call and Notify fail with ErrFull when the outgoing queue is
	// at its bound, 1,024 lines or 4 MiB, instead of waiting.
	PushBack bool

	// SplicePayloads has large payloads written from where they lie, without a copy. Nobody may
	// change the bytes of any payload that is sent, not even after a call has returned.
	SplicePayloads bool
}

const (
	defaultInFlight = 1024
	maxWaiting      = 16384
	maxWaitingBytes = 16 << 20
	methodCancel    = "rpc.cancel"
)

// Conn is one end of a JSON-RPC 2.0 connection with one object per line. Both ends may
// call. Any number of goroutines may use it.
//
// It differs from JSON-RPC 2.0 in four points: it refuses batches as invalid requests,
// the id of a request is not null, handlers decide about params by position, and the
// notification rpc.cancel {id} gives up a request. [Request.ReadParams] validates the inside of
// params.
type Conn struct {
	conn     net.Conn
	opts     Options
	queue    lineQueue
	values   context.Context // those of Run, for the contexts of handlers
	done     chan struct{}
	handlers sync.WaitGroup
	underWay atomic.Int32 // calls and handlers under way
	workers  workers.Pool // run the handlers

	mu              sync.Mutex
	err             error
	lastID          uint64
	calls           map[uint64]*pendingCall
	requests        *Request            // the first of those that run or wait, and of those that waited when the connection ended
	requestsByID    map[string]*Request // those of them that have an id
	handlersRunning int
	waiting         []*Request
	waitingBytes    int // of the waiting requests' params

	takenOver atomic.Bool // see Request.TakeOver; it is set with mu held

	requestLoad requestLoad // guarded by Options.RequestLimit

	readEnded chan struct{} // closed when nothing more is read
	readErr   error         // why; set before readEnded is closed
}

// NewConn returns a connection over conn and starts nothing: see [Conn.Run].
func NewConn(conn net.Conn, o Options) *Conn {
	o.MaxLine = cmp.Or(o.MaxLine, wire.MaxMaxMessage+LineMargin)
	o.MaxInFlight = cmp.Or(o.MaxInFlight, defaultInFlight)
	c := &Conn{
		conn:         conn,
		opts:         o,
		done:         make(chan struct{}),
		readEnded:    make(chan struct{}),
		calls:        make(map[uint64]*pendingCall),
		requestsByID: make(map[string]*Request),
	}
	c.workers = workers.NewPool(c.readEnded)
	c.queue.initQueue(conn, c.closeWithCause)
	c.queue.room, c.queue.maxRoom = o.UnreadRoom, o.MaxUnread
	return c
}

// Run reads until the connection or ctx ends, or until Close is called. If the other end
// has only finished writing (a half-close), Run still answers its requests. Run returns
// when all handlers have returned; the error is nil if the other end finished or Close
// was called. It is called once.
func (c *Conn) Run(ctx context.Context) error {
	c.values = context.WithoutCancel(ctx)
	defer context.AfterFunc(ctx, func() { c.closeWithCause(context.Cause(ctx)) })()

	err := c.readLines()
	c.readErr = err
	close(c.readEnded)
	refused, isRefused := err.(unreadError)
	switch {
	case err == errTakenOver:
		c.handlers.Wait()
		err = io.EOF
	case err == io.EOF:
		c.failCalls(err)
		c.answerRemaining()
	case isRefused:
		c.failCalls(err)
		c.reportReadError(refused)
	}
	c.closeWithCause(err)
	c.handlers.Wait()
	c.opts.RequestLimit.adjustLoad(&c.requestLoad, requestLoad{-c.requestLoad.requests, -c.requestLoad.bytes}) // of those that waited
	c.queue.waitUntilWritten()
	c.queue.dropUnwritten()
	if err := c.Err(); err != io.EOF && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// Close ends the connection at once: calls under way fail and the contexts of handlers
// end. It does not wait for Run.
func (c *Conn) Close() error {
	c.closeWithCause(net.ErrClosed)
	return nil
}

// IsBusy reports whether calls or handlers are under way.
func (c *Conn) IsBusy() bool { return c.underWay.Load() > 0 }

// Done is closed when the connection has ended.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Err returns why the connection ended, or nil while it lives: io.EOF if the other end
// closed it, net.ErrClosed after Close.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// closeWithCause closes the connection with cause as its error, unless it has one already, and
// ends the contexts of handlers.
func (c *Conn) closeWithCause(cause error) {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	c.err = cause
	c.waiting, c.waitingBytes = nil, 0
	var requests []*Request
	for r := c.requests; r != nil; r = r.next {
		requests = append(requests, r)
	}
	c.mu.Unlock()

	c.queue.failFurtherSends(cause) // before others learn of the end, and send
	close(c.done)
	for _, r := range requests {
		r.ctx.end(context.Canceled)
	}
	c.conn.Close()
	c.failCalls(cause)
}

// failCalls fails the calls under way, because no response can come any more. If the
// other end reported a line that it could not read, and there is one call, that call gets
// the report. With several calls it could concern any of them.
func (c *Conn) failCalls(cause error) {
	c.mu.Lock()
	calls := c.calls
	c.calls = nil
	c.mu.Unlock()
	said, ok := errors.AsType[*kinds.Error](cause)
	for _, w := range calls {
		w.err = newClosedError(cause, kinds.DeliveredUnknown)
		if len(calls) == 1 && ok {
			w.err = said
		}
		close(w.done)
	}
}

// answerRemaining answers what the other end asked for before it finished writing. It returns
// when all is answered or when the other end has closed altogether.
func (c *Conn) answerRemaining() {
	idle := make(chan struct{})
	go func() {
		defer close(idle)
		c.handlers.Wait()
		c.queue.waitUntilWritten()
		c.conn.SetReadDeadline(time.Unix(1, 0)) // ends the wait below
	}()
	awaitHangup(c.queue.rawConn)
	c.closeWithCause(io.EOF)
	<-idle
}

// awaitHangup returns when the other end, which has finished writing, has closed
// altogether, or when the read deadline passes. On a closed socket, even an empty send
// fails. A connection without a socket, whose raw is nil, cannot be half-closed.
func awaitHangup(raw syscall.RawConn) {
	if raw == nil {
		return
	}
	raw.Read(func(fd uintptr) bool {
		return syscall.Sendto(int(fd), nil, 0, nil) == syscall.EPIPE
	})
}

// reportReadError tells the other end why this end stops reading. It then reads and drops
// the rest for a second: if it closed at once, the other end could not read the report.
func (c *Conn) reportReadError(cause unreadError) {
	c.writeResponse(identity.ID{}, nil, nil, cause.error)
	c.queue.waitUntilWritten()
	if half, ok := c.conn.(interface{ CloseWrite() error }); ok {
		half.CloseWrite()
	}
	c.conn.SetReadDeadline(time.Now().Add(time.Second))
	io.Copy(io.Discard, c.conn)
}

// readLines serves lines until there are no more, and returns why.
func (c *Conn) readLines() error {
	in := lineReader{source: c.conn, maxLine: c.opts.MaxLine}
	defer in.release()
	if c.opts.InputLimit != nil {
		in.input = c.opts.InputLimit.NewPartialInput(c.setReadDeadline)
		defer in.input.Finish()
	}
	for {
		line, err := in.readLine()
		if c.takenOver.Load() {
			return in.endForTakeOver(err)
		}
		if err == errLongLine {
			err = kinds.Errorf(kinds.TooLarge, "more than the %d bytes that one call may have: send less, or a reference to it", c.opts.MaxLine)
		}
		if e, ok := err.(*kinds.Error); ok {
			return unreadError{e}
		}
		if err != nil {
			return err
		}
		if jsonscan.SkipSpace(line, 0) == len(line) {
			continue
		}
		m := parsedLines.Get().(*parsedLine)
		fail := m.parseLine(line) // whose memory its values alias for as long as they live
		switch {
		case m.isResponse:
			err = c.completeCall(m, fail)
		case fail != nil:
			err = c.writeResponse(identity.ID{}, m.id, nil, fail)
		case m.id != nil || m.method != methodCancel && c.opts.Notified == nil:
			err = c.startRequest(m, len(line))
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

// writeResponse writes a response. It takes its turn among the lines for peer, which may
// be zero. A nil id is written as null.
func (c *Conn) writeResponse(peer identity.ID, id []byte, result any, err error) error {
	name, value := `,"result":`, result
	if err != nil {
		name, value = `,"error":`, toErrorObject(err)
	}
	return c.writeLine(context.Background(), peer, waitWhenFull, func(line *lineBatch) error {
		b := append(line.text, `{"jsonrpc":"2.0","id":`...)
		if id == nil {
			b = append(b, "null"...)
		}
		b = append(b, id...)
		line.text = append(b, name...)
		return line.appendValue(value, c.opts.SplicePayloads)
	})
}

// writeLine writes one line: fill appends its text but for the last brace and the line
// feed.
func (c *Conn) writeLine(ctx context.Context, peer identity.ID, mode whenFull, fill func(*lineBatch) error) error {
	line := lineBatches.Get().(*lineBatch)
	err := fill(line)
	line.text, line.lines = append(line.text, "}\n"...), 1
	switch n := line.size(); {
	case err != nil:
		err = kinds.Errorf(kinds.Invalid, "%v", err)
	case n > c.opts.MaxLine:
		err = kinds.Errorf(kinds.TooLarge, "%d bytes are over the socket's limit of %d: send less in one message", n, c.opts.MaxLine)
	default:
		return c.queue.enqueueAndWrite(ctx, peer, line, mode, c.underWay.Load() > 1)
	}
	line.returnToPool()
	return err
}
