package pipe

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"github.com/acpd/acpd/internal/ownwords"
)

// pipe is one pipe, from its start to its end.
type pipe struct {
	addr   Addr
	argv   []string        // of its command; nil: it came in
	ctx    context.Context // ends when the pipe is to end
	cancel context.CancelCauseFunc
	out    chan *frame // to be written

	opened  chan struct{}           // closed when the other end's preamble is in
	settled context.Context         // ends when it is known why the pipe ends, with that as its cause
	noteWhy context.CancelCauseFunc // ends settled
	ended   chan struct{}           // closed when nothing is left of it
	err     error                   // why it ends, nil if the other end finished; set before settled ends

	refs int // of Link.mu: calls of Open that have not been released
}

// isOpen reports whether the other end's preamble has come.
func (p *pipe) isOpen() bool {
	select {
	case <-p.opened:
		return true
	default:
		return false
	}
}

// awaitOpen blocks until the pipe carries packets, it is known why it does not, or ctx ends. It reports whether the pipe
// carries packets.
func (p *pipe) awaitOpen(ctx context.Context) bool {
	select {
	case <-p.opened:
		if p.ctx.Err() == nil {
			return true
		}
	case <-p.settled.Done():
	case <-ctx.Done():
	}
	select { // it ends, and NobodyAt may have been called
	case <-p.settled.Done():
	case <-ctx.Done():
	}
	return false
}

// duplex is what a pipe reads and writes: the ends of a command, or a local connection.
type duplex interface {
	io.ReadWriter
	SetReadDeadline(time.Time) error
	SetWriteDeadline(time.Time) error
}

const (
	readBuffer  = 64 << 10               // as much as a pipe of the system holds
	writeBuffer = 32 << 10               // over which packets are written in several calls
	flushTime   = 200 * time.Millisecond // for the last packets of a pipe that ends
	bannerTime  = 300 * time.Millisecond // for the rest of a line that is no preamble
	maxBanner   = 256                    // bytes of it
)

var (
	errSilent   = ownwords.New("printed nothing")
	errUnwanted = ownwords.New("nobody waits for it any more")
	errOver     = ownwords.New("nothing more is read")
	errChanged  = ownwords.New("gave way: the peer has another command now")
)

// carry exchanges preambles over d and then carries packets, until either fails or the pipe's
// context ends. answers says that the other end dials: its preamble comes first, and the version
// of the answer is the lower of the two. carry returns why it ended, nil if the other end
// finished between two packets.
func (l *Link) carry(p *pipe, d duplex, answers bool) error {
	defer context.AfterFunc(p.ctx, func() {
		d.SetReadDeadline(time.Unix(1, 0))
		d.SetWriteDeadline(time.Now().Add(flushTime))
	})()
	late := time.AfterFunc(l.times.firstByte, func() { p.cancel(ownwords.Errorf("%w for %v", errSilent, l.times.firstByte)) })
	defer late.Stop()
	var writing sync.WaitGroup
	defer writing.Wait()
	defer p.cancel(errOver) // ends the writer; an earlier cause stays
	in := bufio.NewReaderSize(d, readBuffer)
	own := version
	if !answers {
		writing.Go(func() { p.write(d, own) })
	}
	theirs, err := readPreamble(in)
	switch banner, ok := errors.AsType[*bannerError](err); {
	case ok:
		banner.readRest(d, in)
		return banner
	case err != nil:
		return p.explain(err)
	case !answers && theirs > version:
		return ownwords.Errorf("speaks version %d of pipes, and this daemon %d; update acpd here", theirs, version)
	}
	if !late.Stop() {
		return p.explain(errSilent)
	}
	if answers {
		own = min(own, theirs)
		writing.Go(func() { p.write(d, own) })
	}
	close(p.opened)
	return p.explain(l.readPackets(p, d, in, answers))
}

// readRest reads the rest of the line that the banner began, as far as it comes soon.
func (e *bannerError) readRest(d duplex, in *bufio.Reader) {
	d.SetReadDeadline(time.Now().Add(bannerTime))
	for len(e.text) < maxBanner && (e.text[len(e.text)-1] != '\n' || len(bytes.TrimSpace(e.text)) == 0) {
		b, err := in.ReadByte()
		if err != nil {
			return
		}
		e.text = append(e.text, b)
	}
}

// explain returns the cause for which the pipe was ended, if it was, instead of the error that a
// read returned for it. It returns nil for the end of the input.
func (p *pipe) explain(err error) error {
	cause := context.Cause(p.ctx)
	switch {
	case cause != nil && (errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, errSilent)):
		return cause
	case err == io.EOF:
		return nil
	case err == io.ErrUnexpectedEOF:
		return ownwords.New("ended within a packet")
	}
	return err
}

// readPackets hands what comes to ReadFrom until reading fails. While ReadFrom is not called it
// reads nothing, so the other end is slowed down. With endsSilent, a pipe from which nothing
// comes for a time has ended.
func (l *Link) readPackets(p *pipe, d duplex, in *bufio.Reader, endsSilent bool) error {
	var renewed time.Time
	for {
		if now := time.Now(); endsSilent && now.Sub(renewed) > l.times.silence/16 {
			renewed = now
			d.SetReadDeadline(now.Add(l.times.silence))
			if p.ctx.Err() != nil { // whose deadline this has replaced
				return os.ErrDeadlineExceeded
			}
		}
		f, err := readFrame(in)
		if err != nil {
			return err
		}
		f.from = p.addr
		select {
		case l.received <- f:
		case <-p.ctx.Done():
			f.recycle()
			return os.ErrDeadlineExceeded
		}
	}
}

// isUnwanted reports whether the pipe was ended because nobody needs it any more, or with the
// daemon.
func (p *pipe) isUnwanted() bool {
	cause := context.Cause(p.ctx)
	return errors.Is(cause, errUnwanted) || errors.Is(cause, context.Canceled)
}

// settle says why the pipe ends, to whoever waits for it to open, or has opened it.
func (p *pipe) settle(why error) {
	p.err = why
	p.noteWhy(why)
}

// write writes the preamble and then the packets that are queued, as many as there are at a time.
// When the pipe's context ends, it writes what is left and returns. If writing fails, it returns
// too: an other end that has gone says more when reading ends.
func (p *pipe) write(d duplex, version int) {
	text := appendPreamble(make([]byte, 0, writeBuffer+lengthSize+maxPacket), version)
	for {
		if _, err := d.Write(text); err != nil {
			return
		}
		select {
		case f := <-p.out:
			text = p.appendQueued(appendFrame(text[:0], f))
		case <-p.ctx.Done():
			if text = p.appendQueued(text[:0]); len(text) == 0 {
				return
			}
		}
	}
}

// appendQueued appends the packets that are queued now, until the buffer is full.
func (p *pipe) appendQueued(text []byte) []byte {
	for len(text) < writeBuffer {
		select {
		case f := <-p.out:
			text = appendFrame(text, f)
		default:
			return text
		}
	}
	return text
}

func appendFrame(text []byte, f *frame) []byte {
	defer f.recycle()
	return append(text, f.encoded()...)
}
