// Package pipe carries QUIC packets between two daemons through the standard input and output of
// a command: `ssh build acpctl pipe`, or any other program that joins this daemon's bytes to
// those of `acpctl pipe` on the peer's machine.
//
// A [Link] holds all pipes of a daemon. A pipe that is dialled is a command, which [Link.Open]
// starts by the argv of the owner's configuration. A pipe that came in is a connection of
// `acpctl pipe`, which [Link.Join] serves. In both directions a pipe carries a preamble, and then
// packets behind their lengths.
//
// It leaves to others: who is trusted, and what is in the packets (package peer); which peer has
// a command (package config); how `acpctl pipe` reaches the daemon (package daemon).
package pipe

import (
	"context"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/kinds"
)

// Options configure a link. Each may be left out.
type Options struct {
	// Command returns the command that leads to a peer, and the name by which the peer's address
	// is shown. The argv is the owner's text. No argv: the peer has no pipe. It must not block.
	Command func(id identity.ID) (name string, argv []string)

	Log *slog.Logger // for the owner: pipes that come and go; nil: none
}

// Observer is notified by a link. Its methods do not block.
type Observer interface {
	// NobodyAt says that the pipe at addr has ended. No packet comes from there any more.
	NobodyAt(addr net.Addr)

	// Interrupted is never called: no packet of a pipe is lost before the pipe ends.
	Interrupted()
}

// Link is all pipes of a daemon, as one net.PacketConn. Any number of goroutines may use it.
type Link struct {
	options  Options
	log      *slog.Logger
	start    func(argv []string) (process, error)
	times    times
	received chan *frame   // of all pipes; those that wait to send take turns
	deadline deadline      // of ReadFrom
	running  chan struct{} // closed when Run has begun
	closed   chan struct{}
	close    func() // closes closed; may be called often
	tasks    sync.WaitGroup

	mu       sync.RWMutex // guards what follows
	ctx      context.Context
	observer Observer
	ending   bool
	pipes    map[string]*pipe   // by the text of their addresses
	attempts map[string]attempt // the last start of each command, for failureMemory at least
	joined   int                // pipes that came in
	lastJoin uint64             // number of the last of them
}

// times are the waits of a link. Tests have others.
type times struct {
	firstByte  time.Duration // until the preamble is in
	retryPause time.Duration // after a command that did not get so far
	startPause time.Duration // between two starts of a command
	silence    time.Duration // after which a pipe that came in has ended
}

var usualTimes = times{
	firstByte:  15 * time.Second,
	retryPause: 30 * time.Second,
	startPause: time.Second,
	silence:    time.Minute, // QUIC says something each 6 s
}

const (
	maxJoined   = 32  // pipes that came in
	maxQueued   = 512 // packets towards one pipe; those beyond are dropped
	maxReceived = 64  // packets of all pipes that wait for ReadFrom
)

// NewLink returns a link and starts nothing: see [Link.Run].
func NewLink(o Options) *Link {
	l := &Link{
		options: o, log: o.Log, start: startProcess, times: usualTimes,
		received: make(chan *frame, maxReceived), running: make(chan struct{}), closed: make(chan struct{}),
		pipes: make(map[string]*pipe), attempts: make(map[string]attempt),
	}
	if l.log == nil {
		l.log = slog.New(slog.DiscardHandler)
	}
	l.close = sync.OnceFunc(func() { close(l.closed) })
	l.deadline.passed = make(chan struct{})
	return l
}

// Name returns "pipe", with which all addresses of the link begin.
func (l *Link) Name() string { return network }

// Run serves the link until ctx ends or the link is closed. Then it ends all pipes and returns
// when their commands and goroutines have ended, after 3 s at most. Pipes wait until Run has begun.
// It is called once, and returns nil.
func (l *Link) Run(ctx context.Context, o Observer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	l.mu.Lock()
	l.ctx, l.observer = ctx, o
	l.mu.Unlock()
	close(l.running)
	select {
	case <-ctx.Done():
	case <-l.closed:
	}
	l.mu.Lock()
	l.ending = true // so no task begins during Wait
	l.mu.Unlock()
	cancel()
	l.tasks.Wait()
	return nil
}

// Addr returns where a peer is dialled: an [Addr], which [Link.Open] opens. nil: the peer has no
// pipe.
func (l *Link) Addr(id identity.ID) net.Addr {
	if l.options.Command == nil {
		return nil
	}
	name, argv := l.options.Command(id)
	if len(argv) == 0 {
		return nil
	}
	return newDialAddr(name, id)
}

// Sender returns the id to which a pipe is bound that was dialled, and the zero ID of one that
// came in.
func (l *Link) Sender(addr net.Addr) identity.ID {
	a, _ := addr.(Addr)
	return a.id
}

// Pipes returns the texts of the addresses of the pipes that carry packets, in no order.
func (l *Link) Pipes() []string {
	l.mu.RLock()
	defer l.mu.RUnlock()
	all := []string{}
	for text, p := range l.pipes {
		if p.isOpen() {
			all = append(all, text)
		}
	}
	return all
}

// awaitRun blocks until Run has begun, or returns why it does not.
func (l *Link) awaitRun(ctx context.Context) error {
	select {
	case <-l.running:
		return nil
	case <-l.closed:
		return errEnding
	case <-ctx.Done():
		return ctx.Err()
	}
}

var errEnding = ownwords.New("this daemon is shutting down")

// addPipe makes a pipe whose task is run. Callers hold mu.
func (l *Link) addPipe(addr Addr, run func(*pipe)) (*pipe, error) {
	if l.ending || l.ctx.Err() != nil {
		return nil, errEnding
	}
	p := &pipe{addr: addr, out: make(chan *frame, maxQueued), opened: make(chan struct{}), ended: make(chan struct{})}
	p.ctx, p.cancel = context.WithCancelCause(l.ctx)
	p.settled, p.noteWhy = context.WithCancelCause(context.Background())
	l.pipes[addr.text] = p
	l.tasks.Go(func() { run(p) })
	return p, nil
}

// removePipe removes a pipe from the link once nothing uses it.
func (l *Link) removePipe(p *pipe) {
	l.mu.Lock()
	delete(l.pipes, p.addr.text)
	l.mu.Unlock()
	p.cancel(errOver)
	close(p.ended)
}

// tellNobodyAt tells the observer that no packet comes from a pipe any more.
func (l *Link) tellNobodyAt(p *pipe) {
	l.mu.RLock()
	o := l.observer
	l.mu.RUnlock()
	if o != nil && p.isOpen() {
		o.NobodyAt(p.addr)
	}
}

// Join serves a pipe that came in, until it ends or ctx does. take hands over its connection,
// which Join closes; it is called only if one of the 32 places is free.
// The error before that is overloaded, or daemon_unavailable while the daemon shuts down. The error after it
// is why the pipe ended, nil if the other end finished.
func (l *Link) Join(ctx context.Context, take func() (net.Conn, error)) error {
	if err := l.awaitRun(ctx); err != nil {
		return newEndingError(err)
	}
	l.mu.Lock()
	if l.joined >= maxJoined {
		l.mu.Unlock()
		return kinds.Errorf(kinds.Overloaded, "pipe: %d pipes have come in, the most there can be: end some of the commands that hold them", maxJoined)
	}
	if l.ending {
		l.mu.Unlock()
		return newEndingError(errEnding)
	}
	l.joined++
	l.lastJoin++
	addr := Addr{text: joinedPrefix + strconv.FormatUint(l.lastJoin, 10)}
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		l.joined--
		l.mu.Unlock()
	}()
	conn, err := take()
	if err != nil {
		return err
	}
	l.mu.Lock()
	p, err := l.addPipe(addr, func(p *pipe) { l.runJoined(p, conn) })
	l.mu.Unlock()
	if err != nil {
		conn.Close()
		return err
	}
	defer context.AfterFunc(ctx, func() { p.cancel(context.Canceled) })()
	<-p.ended
	return p.err
}

func newEndingError(why error) error {
	return kinds.Errorf(kinds.DaemonUnavailable, "pipe: %v: try again when it is back", why)
}
