package serve

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/commandenv"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

const (
	killAfter = 2 * time.Second // from TERM to KILL
	lastLines = 8               // of stderr that go into an error
	lastBytes = 2 << 10

	// The values of --stderr: how much of a failing command's stderr peers get. Stderr may
	// name files and their contents, and a peer's text has led to it.
	stderrNone = "none"
	stderrLast = "last"
)

// runCommand runs the command for a message until the command ends, its deadline passes or ctx
// ends. In the last two cases it ends all processes of the command. A command that ends by
// itself may leave some running. The error is a *kinds.Error.
func (s *server) runCommand(ctx context.Context, in *client.Inbound, prompt, domain string) (*commandOutput, error) {
	ctx, cancel, limit := s.withLimit(ctx, in)
	defer cancel()
	stdin := []byte(prompt)
	if !s.prompt {
		stdin = in.Payload.Object()
	}
	out, last := &commandOutput{}, &lastOutput{}
	cmd := exec.CommandContext(ctx, s.argv[0], s.argv[1:]...)
	cmd.Env = s.buildEnv(in, domain, limit)
	cmd.Stdin = bytes.NewReader(stdin)
	cmd.Stdout = out
	shown := s.NewCommandStderr()
	defer shown.Flush()
	cmd.Stderr = io.MultiWriter(last, shown)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var termed time.Time
	cmd.Cancel = func() error {
		termed = time.Now()
		return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
	}
	cmd.WaitDelay = killAfter // for those who hold the pipes open
	err := cmd.Run()
	if !termed.IsZero() {
		stopProcessGroup(cmd.Process.Pid, termed.Add(killAfter))
	}
	switch {
	case err == nil, errors.Is(err, exec.ErrWaitDelay) && cmd.ProcessState.Success() && ctx.Err() == nil:
		return out, nil
	case ctx.Err() != nil:
		return nil, explainCommandEnd(ctx, limit)
	case cmd.Process == nil:
		s.logLine("the command could not be started: %s", commandenv.DescribeStartError(s.argv[0], err))
		return nil, kinds.Errorf(kinds.Internal, "the command could not be started")
	}
	why := "the command failed: " + cmd.ProcessState.String()
	if words := last.String(); s.stderr == stderrLast && words != "" {
		why += ": " + words
	}
	return nil, kinds.Errorf(kinds.Internal, "%s", why)
}

// withLimit returns a context that ends when the work for a message must be over, and how long
// that is from now; 0: it may take as long as ctx.
func (s *server) withLimit(ctx context.Context, in *client.Inbound) (context.Context, context.CancelFunc, time.Duration) {
	limit := time.Duration(in.DeadlineMS) * time.Millisecond
	if s.timeout > 0 && (limit == 0 || s.timeout < limit) {
		limit = s.timeout
	}
	if limit == 0 {
		return ctx, func() {}, 0
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	return ctx, cancel, limit
}

// explainCommandEnd returns the error of a command that was ended.
func explainCommandEnd(ctx context.Context, limit time.Duration) error {
	switch cause := context.Cause(ctx); cause {
	case context.DeadlineExceeded:
		return kinds.Errorf(kinds.Timeout, "the command did not end within %s", kinds.FormatDuration(limit))
	case context.Canceled:
		return kinds.Errorf(kinds.Cancelled, "the sender gave up, or went away")
	default:
		return cause
	}
}

// stopProcessGroup waits until a process group that got a signal to end has ended. If that has not
// happened at the time kill, it kills the group.
func stopProcessGroup(group int, kill time.Time) {
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for syscall.Kill(-group, 0) == nil && time.Now().Before(kill) {
		<-look.C
	}
	syscall.Kill(-group, syscall.SIGKILL)
}

// buildEnv returns the environment of a command, with what it may know of its message. What
// a peer wrote is put on one line, because a variable cannot hold a NUL.
func (s *server) buildEnv(in *client.Inbound, domain string, limit time.Duration) []string {
	deadline := ""
	if limit > 0 {
		deadline = strconv.FormatInt(limit.Milliseconds(), 10)
	}
	fromAgent := ""
	if client.IsPlainAgentName(in.FromAgent) {
		fromAgent = in.FromAgent
	}
	return append(commandenv.Environ(),
		"ACP_ID="+in.ID.String(),
		"ACP_FROM="+in.From.String(),
		"ACP_FROM_NAME="+in.Name,
		"ACP_FROM_AGENT="+fromAgent,
		"ACP_KIND="+in.Kind,
		"ACP_DOMAIN="+client.Line(domain),
		"ACP_THREAD="+client.Line(in.Thread),
		"ACP_HOPS="+strconv.FormatUint(in.Hops, 10),
		"ACP_DEADLINE_MS="+deadline,
		"ACP_SOCKET="+s.socket,
		"ACP_AGENT="+s.name,
		"ACP_AGENT_KEY="+s.Daemon.Key(),
	)
}

// commandOutput keeps as much of a command's output as a message can hold.
type commandOutput struct {
	text []byte
	cut  bool
}

// maxPayload bounds a payload, in bytes. A daemon takes this much unless it is configured to
// take less; the margin is for the envelope.
const maxPayload = wire.DefaultMaxMessage - 4<<10

func (o *commandOutput) Write(p []byte) (int, error) {
	room := min(len(p), maxPayload-len(o.text))
	o.text = append(o.text, p[:room]...)
	o.cut = o.cut || room < len(p)
	return len(p), nil
}

// lastOutput keeps the end of what is written to it.
type lastOutput struct{ text []byte }

func (t *lastOutput) Write(p []byte) (int, error) {
	t.text = append(t.text, p...)
	if over := len(t.text) - lastBytes; over > lastBytes {
		t.text = append([]byte(nil), t.text[over:]...)
	}
	return len(p), nil
}

// String returns the last lines.
func (t *lastOutput) String() string {
	text := t.text[max(0, len(t.text)-lastBytes):]
	lines := strings.Split(strings.TrimRight(strings.ToValidUTF8(string(text), "\uFFFD"), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-lastLines):], "\n")
}
