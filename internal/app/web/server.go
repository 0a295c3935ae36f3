// Package web serves the page of acpctl web: what a daemon knows of peers, calls, sessions and mail,
// as it changes.
//
// It listens on loopback and reads the daemon through its owner's socket, and only while somebody has
// the page open. The page decides approvals, mutes sessions and removes held messages; otherwise it only reads. Without
// the link, which works once, or the cookie that it becomes, nobody gets anything ([gate]).
package web

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/acpd/acpd/internal/pace"
	"github.com/acpd/acpd/kinds"
)

// Bounds of what a program of this machine may cost the server.
const (
	maxConns       = 32 // connections that have not shown the cookie, and as many that have, which make way for none
	maxReaders     = 8  // event streams
	maxHeaderBytes = 16 << 10
	maxBodyBytes   = 4 << 10
	headerTime     = 5 * time.Second  // for the head of a request
	requestTime    = 10 * time.Second // for a request, and for its answer
	idleTime       = time.Minute
	linkTime       = time.Minute            // in which the link must be opened
	lastAnswerTime = 500 * time.Millisecond // for answers under way when the server ends
)

// Options say what a [Server] serves.
type Options struct {
	Socket string // of the daemon's owner
	Home   string // the daemon's state directory, for channels; "": as in channels.Client
	Port   int    // on 127.0.0.1; 0: the system chooses one

	// AskNumber asks the person at the terminal for the number that the browser shows, and returns what was
	// typed. It blocks until then, or until its context ends. It is nil if the link is enough: if only
	// that person has seen it. A link in the command line of a browser may be seen by other programs.
	AskNumber func(context.Context) (string, error)

	// Tell is called with a line for a person: the daemon is away or back, or connections were refused
	// because the system does not tell whose they are. Several goroutines may call it at once, and none after
	// Run has returned.
	Tell func(line string)
}

// Server serves the page. Several browsers may have it open.
type Server struct {
	gate     *gate
	listener *guardedListener
	board    *board
	watcher  *watcher
	linkTime time.Duration // in which the link must be opened

	askNumber  func(context.Context) (string, error) // nil if the link is enough
	numberTime time.Duration                         // in which the number must be typed
	opened     pace.Signal                           // the link was opened
	ended      chan error                            // the reason for which nobody may get anything any more
}

// Open listens. [Server.Run] serves and closes the listener.
func Open(ctx context.Context, o Options) (*Server, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(o.Port)))
	if err != nil {
		return nil, fmt.Errorf("web: %w: choose another --port, or leave it out", err)
	}
	b := newBoard()
	s := &Server{
		gate:     newGate(l.Addr().(*net.TCPAddr).Port),
		listener: newGuardedListener(l, o.Tell),
		board:    b,
		watcher:  newWatcher(o, b),
		linkTime: linkTime,
		opened:   pace.NewSignal(),
		ended:    make(chan error, 1),

		askNumber: o.AskNumber, numberTime: linkTime,
	}
	if o.AskNumber != nil {
		s.gate.number = drawNumber()
	}
	return s, nil
}

// Close closes the listener of a server that does not run.
func (s *Server) Close() error { return s.listener.Close() }

// Port returns the port on 127.0.0.1.
func (s *Server) Port() int { return s.gate.port }

// Link returns the address that lets one browser in, once, within a minute of [Server.Run].
func (s *Server) Link() string { return s.gate.link() }

// Run serves until ctx ends, whose error it returns. It ends sooner, with the reason, if nobody opens
// the link in time, if two did and cannot be distinguished, or if the number was not typed.
func (s *Server) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	h := &http.Server{
		Handler: s, MaxHeaderBytes: maxHeaderBytes,
		ReadHeaderTimeout: headerTime, ReadTimeout: requestTime, WriteTimeout: requestTime, IdleTimeout: idleTime,
		BaseContext: func(net.Listener) context.Context { return ctx },
		ConnContext: addConn,
		ErrorLog:    quietLog,
	}
	defer s.watcher.acting.Close()
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { s.watchWhileRead(ctx) })
	failed := make(chan error, 1)
	running.Go(func() { failed <- h.Serve(s.listener) })
	defer func() {
		cancel() // which ends the streams
		ending, done := context.WithTimeout(context.Background(), lastAnswerTime)
		defer done()
		if h.Shutdown(ending) != nil {
			h.Close()
		}
	}()

	unopened := time.NewTimer(s.linkTime)
	defer unopened.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-failed:
			return fmt.Errorf("web: %w", err)
		case err := <-s.ended:
			return err
		case <-s.opened:
			if s.askNumber != nil {
				running.Go(func() {
					if err := s.confirm(ctx); err != nil {
						s.gate.shutOut()
						s.end(err)
					}
				})
			}
		case <-unopened.C:
			if s.gate.endLink() {
				return kinds.Errorf(kinds.Timeout, "web: nobody has opened the link within %s: run acpctl web again", kinds.FormatDuration(s.linkTime))
			}
		}
	}
}

// watchWhileRead reads the daemon while the page is open somewhere, until ctx ends.
func (s *Server) watchWhileRead(ctx context.Context) {
	for s.board.awaitReaders(ctx, true) {
		watching, cancel := context.WithCancel(ctx)
		var running sync.WaitGroup
		running.Go(func() { s.watcher.run(watching) })
		s.board.awaitReaders(ctx, false)
		cancel()
		running.Wait()
	}
}

// errTwice ends a server whose link was opened by two browsers that cannot be distinguished.
var errTwice = errors.New("web: the link was opened twice: nobody gets anything by it any more; run acpctl web again")
