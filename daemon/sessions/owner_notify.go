package sessions

import (
	"context"
	"errors"
	"log/slog"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/config"
	"github.com/acpd/acpd/daemon/local"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/commandenv"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/internal/pace"
	"github.com/acpd/acpd/kinds"
)

const (
	ownerNotifyPause = 30 * time.Second // between two starts of the owner's command
	ownerNotifyHour  = 6                // starts in an hour that one peer causes
)

// The events for which the owner's command is started.
const (
	eventAsks   = "approval"     // a message begins to wait for the owner's yes
	eventFailed = "needs-person" // a message did not wake its session, because a person is needed there
	eventTest   = "test"
)

// ownerEvent is an event for the owner's command. It has nothing from the text of a message.
type ownerEvent struct {
	event  string
	number string // for acpctl approvals yes; empty for other events
	peer   identity.ID
	name   string // the petname of the peer
	agent  string
	kind   string
}

// environ returns the variables of the command. Their values need no quotes in JSON or in a shell: an agent
// whose name has other characters is left out.
func (e *ownerEvent) environ() []string {
	agent := e.agent
	if !client.IsPlainAgentName(agent) {
		agent = ""
	}
	return []string{"ACP_EVENT=" + e.event, "ACP_NUMBER=" + e.number, "ACP_PEER=" + e.name, "ACP_AGENT=" + agent, "ACP_KIND=" + e.kind}
}

// ownerNotifier starts the owner's command, one at a time and not too often. Whether the command works
// changes nothing.
type ownerNotifier struct {
	command func() []string          // empty if the owner has set no command
	asks    func(number string) bool // reports whether a message still waits under that number
	start   func(context.Context, []string, *ownerEvent) error
	log     *slog.Logger
	changed pace.Signal

	mu      sync.Mutex // guards what follows
	waiting []ownerEvent
	last    time.Time
	started map[identity.ID][]time.Time // in the last hour
}

func newOwnerNotifier(command func() []string, asks func(string) bool, log *slog.Logger) *ownerNotifier {
	return &ownerNotifier{command: command, asks: asks, start: startOwnerCommand, log: log, changed: pace.NewSignal(), started: make(map[identity.ID][]time.Time)}
}

// tell starts the command for an event, as soon as it may start again. The last events of each peer wait,
// as many as may start it in an hour.
func (n *ownerNotifier) tell(e ownerEvent) {
	if len(n.command()) == 0 {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if slices.Contains(n.waiting, e) {
		return
	}
	n.waiting = append(n.waiting, e)
	of := 0
	for _, w := range n.waiting {
		if w.peer == e.peer {
			of++
		}
	}
	if of > ownerNotifyHour {
		i := slices.IndexFunc(n.waiting, func(w ownerEvent) bool { return w.peer == e.peer })
		n.waiting = slices.Delete(n.waiting, i, i+1)
	}
	n.changed.Set()
}

// run starts the command for what waits, until ctx ends.
func (n *ownerNotifier) run(ctx context.Context) error {
	for {
		e, wait := n.take(time.Now())
		if e != nil {
			argv := n.command()
			if len(argv) == 0 || e.number != "" && !n.asks(e.number) { // it was taken back or answered meanwhile
				continue
			}
			n.countStart(e.peer, time.Now())
			if err := n.start(ctx, argv, e); err != nil && ctx.Err() == nil {
				n.log.Warn("owner.notify: the owner was not told", "event", e.event, "err", err)
			}
			continue
		}
		var due <-chan time.Time
		if wait > 0 {
			due = time.After(wait)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-n.changed:
		case <-due:
		}
	}
}

// take returns the next event for which the command may start, of the peer that has started it least. If
// there is no such event yet, it returns how long to wait, or 0 if nothing waits.
func (n *ownerNotifier) take(now time.Time) (e *ownerEvent, wait time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for id, at := range n.started {
		if n.started[id] = slices.DeleteFunc(at, func(at time.Time) bool { return now.Sub(at) >= time.Hour }); len(n.started[id]) == 0 {
			delete(n.started, id)
		}
	}
	n.waiting = slices.DeleteFunc(n.waiting, func(e ownerEvent) bool { return len(n.started[e.peer]) >= ownerNotifyHour })
	if len(n.waiting) == 0 {
		return nil, 0
	}
	if wait := n.last.Add(ownerNotifyPause).Sub(now); wait > 0 && !n.last.IsZero() {
		return nil, wait
	}
	next := 0
	for i, e := range n.waiting {
		if len(n.started[e.peer]) < len(n.started[n.waiting[next].peer]) {
			next = i
		}
	}
	taken := n.waiting[next]
	n.waiting = slices.Delete(n.waiting, next, next+1)
	return &taken, 0
}

// countStart records that a peer's event starts the command.
func (n *ownerNotifier) countStart(peer identity.ID, now time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.last = now
	n.started[peer] = append(n.started[peer], now)
}

// startOwnerCommand runs the owner's command, and ends it with all of its process group. It has no
// terminal and no input, and what it prints is not read. The error says how it ended.
func startOwnerCommand(ctx context.Context, argv []string, e *ownerEvent) error {
	path, err := exec.LookPath(argv[0])
	if err != nil {
		if e, ok := errors.AsType[*exec.Error](err); ok {
			err = e.Err
		}
		return ownwords.Errorf("%s: %w", argv[0], err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, client.MaxOwnerNotify, ownwords.Errorf("%s did not end within %s", argv[0], client.MaxOwnerNotify))
	defer cancel()
	cmd := exec.CommandContext(ctx, path)
	cmd.Args, cmd.Dir, cmd.Env = argv, "/", append(commandenv.Environ(), e.environ()...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	endGroup := func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.Cancel = endGroup
	if err := cmd.Start(); err != nil {
		return ownwords.New(commandenv.DescribeStartError(path, err))
	}
	err = cmd.Wait()
	endGroup() // what it has left running
	switch exit, ok := errors.AsType[*exec.ExitError](err); {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case ok && exit.Exited():
		return ownwords.Errorf("%s ended with exit code %d", argv[0], exit.ExitCode())
	case err != nil:
		return ownwords.Errorf("%s was ended by a signal", argv[0])
	}
	return nil
}

// findOwnerCommand returns the owner's command and its source, or nil. A command in config.yaml has
// precedence over one that was set on acp.sock.
func (s *Service) findOwnerCommand() (argv []string, source string) {
	if argv := s.Config().Owner.Notify; len(argv) > 0 {
		return argv, fromSettings
	}
	if argv := s.Waker.Rules.Notify(); len(argv) > 0 {
		return argv, fromWakeFile
	}
	return nil, ""
}

// serveOwnerNotify sets or tries the command that notifies the owner, if asked to, and returns it.
func (s *Service) serveOwnerNotify(ctx context.Context, _ *local.Conn, p *client.OwnerNotifyParams) (any, error) {
	if p.Set {
		if _, source := s.findOwnerCommand(); source == fromSettings {
			return nil, kinds.Errorf(kinds.Invalid, "wake.notify: config.yaml has a command: change it there, then acpctl reload")
		}
		if len(p.Command) > 0 {
			if err := config.CheckCommand(p.Command, config.OwnerNotifyExample); err != nil {
				return nil, kinds.Errorf(kinds.Invalid, "wake.notify: command: %v", err)
			}
		}
		if err := s.narrowWakeRules(len(p.Command) > 0, func() error { return s.Waker.Rules.SetNotify(p.Command) }); err != nil {
			return nil, explainWakeError("wake.notify", err)
		}
	}
	argv, source := s.findOwnerCommand()
	answer := &client.OwnerNotify{Command: append([]string{}, argv...), Source: source}
	if p.Test && len(argv) > 0 {
		if err := startOwnerCommand(ctx, argv, &ownerEvent{event: eventTest}); err != nil {
			answer.Failed = ownwords.Of(err)
		}
	}
	return answer, nil
}
