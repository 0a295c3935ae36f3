package mcp

import (
	"cmp"
	"context"
	"errors"
	"io"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/harness"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// Server serves the tools to the session of one agent program. The exported fields are set before
// it serves, and not changed afterwards.
type Server struct {
	Daemon  *client.Client // of the agents' socket; its Patience bounds what the daemon may take
	Version string         // of acpctl

	// Parent is the message on behalf of which this process runs, or zero. Calls
	// that follow from nothing newer follow from it.
	Parent wire.MessageID

	// Attach attaches the session as an agent; nil: the session only calls. Without a Name it
	// gets that of its program. Session, MaxConcurrent and Key are set here.
	Attach *client.AttachParams

	// FindSession returns how the session of the program with that name and version is woken, as
	// [harness.FindSession] does. It is called once, when the program has said who it is, and
	// only if the session attaches. Nil, or a nil session: nothing wakes it. An error goes to
	// Log, and why nothing wakes the session to the daemon.
	FindSession func(ctx context.Context, program, version string) (harness.Session, error)

	// Log tells the operator of the agent program what went wrong, one line a call. Nil: nothing.
	Log func(format string, args ...any)

	started  sync.Once
	begun    time.Time
	sdk      *sdk.Server
	life     context.Context // ends when serving ends
	end      context.CancelFunc
	work     sync.WaitGroup // goroutines that end with life
	names    petnames
	calls    callTable
	requests requestTable
	seen     seenMessages
	notices  noticeQueue
	agent    attachment
	timing   timing
}

// timing holds the times that tests shorten.
type timing struct {
	wait      time.Duration // a tool call waits at most
	wake      time.Duration // the owner's own wake may take
	handover  time.Duration // a request may come after the wake for it
	keep      time.Duration // what has ended is kept
	progress  time.Duration // between two notifications of progress
	farewell  time.Duration // sending the end of the session to peers may take
	lookAfter time.Duration // the daemon may take to say what waits
	lastCalls time.Duration // calls may take once the program has closed the session
}

var usualTiming = timing{wait: 45 * time.Second, wake: 3 * time.Second, handover: time.Second, keep: time.Hour, progress: 5 * time.Second, farewell: 2 * time.Second, lookAfter: time.Second, lastCalls: time.Second}

// prepare makes s ready to serve, once. It returns when all is there; nothing runs yet.
func (s *Server) prepare() {
	s.started.Do(func() {
		s.begun = time.Now()
		if s.timing == (timing{}) {
			s.timing = usualTiming
		}
		s.life, s.end = context.WithCancel(context.Background())
		s.requests.init()
		s.agent.init()
		if s.Attach != nil {
			s.agent.problem = errAttaching
		}
		s.sdk = sdk.NewServer(&sdk.Implementation{Name: "acp", Title: "acpd", Version: cmp.Or(s.Version, "0")}, &sdk.ServerOptions{
			Instructions: instructions,
			Capabilities: &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{}},
		})
		s.sdk.AddReceivingMiddleware(s.noteProgram)
		for _, t := range tools {
			s.sdk.AddTool(t.describe(), s.newToolHandler(t))
		}
	})
}

// Serve serves one session on t until the program closes it, or ctx ends. If the program has closed it, calls
// have a moment to be answered. Then it gives up what is under way, tells peers whose delegations are open that
// nobody works on them any more, and detaches. It returns nil if the program has closed the session. A server
// serves once.
func (s *Server) Serve(ctx context.Context, t sdk.Transport) error {
	s.prepare()
	defer s.shutDown()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	err := s.sdk.Run(ctx, transport{t, s.timing.lastCalls})
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrClosedPipe), errors.Is(err, syscall.EPIPE):
		return nil // the program is gone
	}
	return err
}

// ServeStreams serves one session whose program writes its messages to in, and reads from out. It
// works like [Server.Serve], and answers a line that is not a valid message with an error.
func (s *Server) ServeStreams(ctx context.Context, in io.Reader, out io.Writer) error {
	w := &lockedWriter{out: out}
	lines := &sdk.IOTransport{Reader: io.NopCloser(newLineReader(in, w)), Writer: nopCloser{w}, MaxLineLength: maxLine + 1}
	return s.Serve(ctx, lines)
}

// maxLine bounds a message of the program's, in bytes.
const maxLine = 4 << 20

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

// shutDown ends all work and detaches.
func (s *Server) shutDown() {
	s.endOpenDelegations()
	s.end()
	s.work.Wait()
	if session := s.agent.currentSession(); session != nil {
		session.Close()
	}
	s.Daemon.Close()
}

// goOn runs do in a goroutine that ends with the server's life.
func (s *Server) goOn(do func(context.Context)) {
	s.work.Go(func() {
		defer func() {
			if r := recover(); r != nil {
				s.logPanic("acpctl mcp", r)
			}
		}()
		do(s.life)
	})
}

func (s *Server) logf(format string, args ...any) {
	if s.Log != nil {
		s.Log(format, args...)
	}
}

// errPanic is the error of a call whose function has panicked.
var errPanic = kinds.Errorf(kinds.Internal, "acpctl mcp failed: its standard error says why")

// logPanic logs with what a function has panicked, and the lines of its stack. The caller recovered it.
func (s *Server) logPanic(what string, with any) {
	s.logf("%s: internal error: %v", what, with)
	for line := range strings.Lines(string(debug.Stack())) {
		s.logf("%s", strings.TrimSuffix(line, "\n"))
	}
}

// noteProgram lets the session attach as soon as the program has said who it is. It tells the session
// what comes with each call of a tool. That includes calls of a tool that does not exist: Codex is asked
// for such a call.
func (s *Server) noteProgram(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, r sdk.Request) (sdk.Result, error) {
		if call, ok := r.(*sdk.CallToolRequest); ok {
			if session := s.agent.currentSession(); session != nil {
				session.NoteCall(call.Params.Meta)
			}
		}
		result, err := next(ctx, method, r)
		session, ok := r.GetSession().(*sdk.ServerSession)
		if !ok || s.Attach == nil {
			return result, err
		}
		if p := session.InitializeParams(); p != nil {
			s.beginAttaching(p.ClientInfo)
		}
		return result, err
	}
}
