package pipe

import (
	"context"
	"errors"
	"maps"
	"net"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"sync"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/commandenv"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/kinds"
)

// attempt is the last start of a command: when, and why packets did not get through. After a
// failure, at is when it failed.
type attempt struct {
	addr Addr
	argv []string // of the command
	at   time.Time
	err  *kinds.Error // nil: it started, or runs
	mend bool         // the owner may have removed the cause of the failure: the command is started at the next call
}

// failureMemory is how long [Link.Failures] lists a failure.
const failureMemory = 10 * time.Minute

// Failure is why a command did not lead to its peer.
type Failure struct {
	Addr string // as "pipe:build"
	At   time.Time
	Why  *kinds.Error // what the command has printed is quoted
}

// Failures returns the commands whose last start has failed, if that was in the last 10 minutes and
// the peer has the same command now, in the order of their addresses.
func (l *Link) Failures() []Failure {
	l.mu.RLock()
	failed := slices.DeleteFunc(slices.Collect(maps.Values(l.attempts)), func(a attempt) bool {
		return a.err == nil || time.Since(a.at) >= failureMemory
	})
	l.mu.RUnlock()
	var all []Failure
	for _, a := range failed {
		if _, argv := l.options.Command(a.addr.id); slices.Equal(argv, a.argv) {
			all = append(all, Failure{a.addr.text, a.at, a.err})
		}
	}
	sort.Slice(all, func(i, j int) bool { return all[i].Addr < all[j].Addr })
	return all
}

// RetryFailed makes the next call start a command that has failed, without the pause: the owner of the daemon
// may have removed the cause.
func (l *Link) RetryFailed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for at, a := range l.attempts {
		a.mend = a.err != nil
		l.attempts[at] = a
	}
}

// ListChanged returns the peers to which a command leads that is not theirs any more, in no order.
func (l *Link) ListChanged() []identity.ID {
	l.mu.RLock()
	defer l.mu.RUnlock()
	var all []identity.ID
	for _, p := range l.pipes {
		if l.isChanged(p) {
			all = append(all, p.addr.id)
		}
	}
	return all
}

// EndChanged ends the commands of ListChanged. It does not wait for that.
func (l *Link) EndChanged() {
	l.mu.RLock()
	defer l.mu.RUnlock()
	for _, p := range l.pipes {
		if l.isChanged(p) {
			p.cancel(errChanged)
		}
	}
}

// isChanged reports whether the pipe was dialled by a command that is not the peer's any more.
func (l *Link) isChanged(p *pipe) bool {
	if p.argv == nil {
		return false
	}
	_, argv := l.options.Command(p.addr.id)
	return !slices.Equal(p.argv, argv)
}

// Open starts the command that leads to the peer at addr, unless it runs, and blocks until the
// other end's preamble is in, ctx ends, or that fails. open ends with the pipe, when it is known why, which is
// its cause: however soon that is, a dial there gets it. A command has 15 s to open. One that has
// failed is not started again for 30 s, in which Open returns the same error, unless RetryFailed is called. If the peer
// has another command now, that is started at once, also instead of one that leads nowhere yet; one that carries
// packets must have ended before.
//
// The caller calls release when it needs the pipe no more. When all have, the command ends: its
// standard input does, then it gets TERM, and 2 s later its process group gets KILL.
func (l *Link) Open(ctx context.Context, addr net.Addr) (open context.Context, release func(), err error) {
	a, ok := addr.(Addr)
	if !ok || a.id.IsZero() {
		return nil, nil, ownwords.Errorf("%s is not dialled", addr)
	}
	if err := l.awaitRun(ctx); err != nil {
		return nil, nil, err
	}
	for ctx.Err() == nil {
		p, again, err := l.startOrShare(a)
		switch {
		case err != nil:
			return nil, nil, err
		case p == nil:
			select {
			case <-again:
			case <-ctx.Done():
			}
			continue
		}
		release := sync.OnceFunc(func() { l.release(p) })
		if p.awaitOpen(ctx) {
			return p.settled, release, nil
		}
		if p.settled.Err() != nil { // before release, which may end the pipe
			return nil, nil, p.err
		}
		release()
	}
	return nil, nil, ctx.Err()
}

// IsOpening reports whether the command at addr runs, and its preamble is not in.
func (l *Link) IsOpening(addr net.Addr) bool {
	a, _ := addr.(Addr)
	l.mu.RLock()
	defer l.mu.RUnlock()
	p := l.pipes[a.text]
	return p != nil && p.addr == a && !p.isOpen() && p.ctx.Err() == nil
}

// startOrShare returns the pipe at addr with one reference more, and starts one if necessary.
// Without a pipe and an error, it may not be started yet, and again is closed when that has changed.
func (l *Link) startOrShare(addr Addr) (p *pipe, again <-chan struct{}, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, argv := l.options.Command(addr.id)
	if p := l.pipes[addr.text]; p != nil {
		changed := p.addr.id == addr.id && len(argv) > 0 && !slices.Equal(p.argv, argv)
		if changed && !p.isOpen() {
			p.cancel(errChanged)
		}
		if p.ctx.Err() != nil || p.addr.id != addr.id || changed { // it must be gone before the next one begins, also if another peer has its name now
			return nil, p.ended, nil
		}
		p.refs++
		return p, nil, nil
	}
	if len(argv) == 0 {
		return nil, nil, ownwords.New("no command leads there any more; see peers in config.yaml")
	}
	now := time.Now()
	maps.DeleteFunc(l.attempts, func(_ string, a attempt) bool { return now.Sub(a.at) >= max(l.times.retryPause, failureMemory) })
	if last, ok := l.attempts[addr.text]; ok && slices.Equal(last.argv, argv) && !last.mend && now.Sub(last.at) < l.times.retryPause {
		age := now.Sub(last.at)
		if last.err != nil {
			return nil, nil, kinds.Errorf(kinds.Unreachable, "%v (%v ago; it is not tried again for %v, or until acpctl reload)", last.err, age.Round(time.Second), (l.times.retryPause - age).Round(time.Second))
		}
		if age < l.times.startPause {
			passed := make(chan struct{})
			time.AfterFunc(l.times.startPause-age, func() { close(passed) })
			return nil, passed, nil
		}
	}
	p, err = l.addPipe(addr, func(p *pipe) { l.runCommand(p, argv) })
	if err != nil {
		return nil, nil, err
	}
	p.refs, p.argv = 1, argv
	l.attempts[addr.text] = attempt{addr: addr, argv: argv, at: now}
	return p, nil, nil
}

// release gives back a reference of a pipe, and ends it with the last.
func (l *Link) release(p *pipe) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.refs--; p.refs == 0 {
		p.cancel(errUnwanted)
	}
}

// runCommand serves a pipe that is dialled, to the end of its command.
func (l *Link) runCommand(p *pipe, argv []string) {
	defer l.removePipe(p)
	name := strconv.Quote(filepath.Base(argv[0]))
	command, err := l.start(argv)
	if err != nil {
		l.settleFailed(p, argv, kinds.Errorf(kinds.Unreachable, "%s cannot be started: %s; correct it, or the peer's pipe in config.yaml", name, commandenv.DescribeStartError(argv[0], err)))
		return
	}
	err = l.carry(p, command, false)
	l.tellNobodyAt(p)
	if p.isUnwanted() {
		p.settle(errUnwanted)
		command.end()
		l.log.Debug("pipe ended", "pipe", p.addr.text)
		return
	}
	ended := err == nil
	if ended { // how it ended says why; end waits for its last words
		err = ownwords.New(command.end())
	}
	says, byHand := command.words(), ""
	if says == "" && (ended || errors.Is(err, errSilent)) {
		byHand = "; run the command by hand to see it"
	}
	if banner, ok := errors.AsType[*bannerError](err); ok {
		says = string(banner.text)
	}
	l.settleFailed(p, argv, kinds.Errorf(kinds.Unreachable, "%s %v%s", name, err, byHand).WithQuoted(says))
	command.end()
}

// settleFailed says why a pipe that is dialled has ended by itself. One that never opened is not
// tried again for a time, by the same command.
func (l *Link) settleFailed(p *pipe, argv []string, why *kinds.Error) {
	if p.isOpen() {
		l.log.Info("pipe ended", "pipe", p.addr.text, "reason", why.Message)
	} else {
		l.mu.Lock()
		l.attempts[p.addr.text] = attempt{addr: p.addr, argv: argv, at: time.Now(), err: why}
		l.mu.Unlock()
	}
	p.settle(why)
}
