// Package clitest runs verbs of acpctl against a daemon that answers as a test says.
package clitest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/internal/app/cli/ui"
	"github.com/acpd/acpd/wire"
)

// FakeDaemon answers each method as a test says.
type FakeDaemon struct {
	Home string // its state directory, for --home

	t    *testing.T
	tree func(*frame.Frame) *cobra.Command

	mu      sync.Mutex
	methods map[string]func(*jsonrpc.Request) (any, error)
	conn    *jsonrpc.Conn // the last one that attached
	events  *jsonrpc.Conn // the last one that subscribed
}

// NewFakeDaemon returns a daemon that listens until the test ends. Command lines run with the
// commands that tree returns, root first.
func NewFakeDaemon(t *testing.T, tree func(*frame.Frame) *cobra.Command) *FakeDaemon {
	home, err := os.MkdirTemp("/tmp", "acp") // a socket's path cannot be long
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(home) })
	d := &FakeDaemon{Home: home, t: t, tree: tree, methods: make(map[string]func(*jsonrpc.Request) (any, error))}
	l, err := net.Listen("unix", filepath.Join(home, client.SocketName))
	if err != nil {
		t.Fatal(err)
	}
	var conns sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	conns.Go(func() {
		for {
			c, err := l.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			conn := jsonrpc.NewConn(c, jsonrpc.Options{Handler: d.answerRequest})
			conns.Go(func() { conn.Run(ctx) })
		}
	})
	t.Cleanup(func() { l.Close(); cancel(); conns.Wait() })
	return d
}

// NewFakeDaemonOf does as [NewFakeDaemon] for command lines that have only the verbs that a function returns.
func NewFakeDaemonOf(t *testing.T, verbs func(*frame.Frame) []*cobra.Command) *FakeDaemon {
	return NewFakeDaemon(t, func(f *frame.Frame) *cobra.Command {
		root := &cobra.Command{Use: "acpctl"}
		f.SetUpRoot(root, verbs(f)...)
		return root
	})
}

func (d *FakeDaemon) answerRequest(_ context.Context, c *jsonrpc.Conn, r *jsonrpc.Request) {
	d.mu.Lock()
	method := d.methods[r.Method]
	if r.Method == client.MethodAttach {
		d.conn = c
	}
	if r.Method == client.MethodSubscribe {
		d.events = c
	}
	d.mu.Unlock()
	if method == nil {
		r.RespondError(jsonrpc.NewMethodNotFound(r.Method))
		return
	}
	if result, err := method(r); err != nil {
		r.RespondError(err)
	} else {
		r.Respond(result)
	}
}

// SetUpHome makes an empty home directory of a user with no agent program, for this process.
func SetUpHome(t *testing.T) string {
	home := t.TempDir()
	for name, value := range map[string]string{"HOME": home, "PATH": home, "XDG_STATE_HOME": "", "XDG_CONFIG_HOME": "", "CLAUDE_CONFIG_DIR": "", "CODEX_HOME": "", "ACP_HOME": ""} {
		t.Setenv(name, value)
	}
	return home
}

// SetTree has command lines run with other commands than NewFakeDaemon was given.
func (d *FakeDaemon) SetTree(tree func(*frame.Frame) *cobra.Command) { d.tree = tree }

// SetAnswer lets a method answer with a result or an error.
func (d *FakeDaemon) SetAnswer(method string, result any) {
	d.SetHandler(method, func(*jsonrpc.Request) (any, error) {
		if err, ok := result.(error); ok {
			return nil, err
		}
		return result, nil
	})
}

// SetHandler lets a function answer a method.
func (d *FakeDaemon) SetHandler(method string, do func(*jsonrpc.Request) (any, error)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.methods[method] = do
}

// Result holds what a command did.
type Result struct {
	Code     int
	Out, Err string
}

// Run runs a command line as a script does: nothing is a terminal.
func (d *FakeDaemon) Run(args ...string) Result { return d.RunAtTerminal(ui.Terminal{}, "", args...) }

// RunInteractive runs a command line as a person does.
func (d *FakeDaemon) RunInteractive(stdin string, args ...string) Result {
	return d.RunAtTerminal(ui.Terminal{InTTY: true, OutTTY: true, ErrTTY: true, Colours: true}, stdin, args...)
}

// RunAtTerminal runs a command line at a terminal that lacks its streams.
func (d *FakeDaemon) RunAtTerminal(terminal ui.Terminal, stdin string, args ...string) Result {
	d.t.Helper()
	var out, err bytes.Buffer
	terminal.In, terminal.Out, terminal.Err = strings.NewReader(stdin), &out, &err
	code := d.RunWithoutHome(d.t.Context(), terminal, append([]string{"--home", d.Home}, args...)...)
	return Result{code, out.String(), err.String()}
}

// RunWithoutHome runs a command line, without --home, and returns the exit code.
func (d *FakeDaemon) RunWithoutHome(ctx context.Context, terminal ui.Terminal, args ...string) int {
	run := &frame.Frame{Terminal: terminal}
	defer run.Daemon.Close()
	return run.Run(ctx, d.tree(run), args)
}

// RunUntil runs a command line until it has written so many pieces to its streams, and then interrupts it.
func (d *FakeDaemon) RunUntil(terminal ui.Terminal, pieces int, args ...string) Result {
	ctx, stop := context.WithCancel(d.t.Context())
	defer stop()
	var out, err strings.Builder
	write := func(to *strings.Builder) io.Writer {
		return writeFunc(func(b []byte) (int, error) {
			if pieces--; pieces == 0 {
				stop()
			}
			return to.Write(b)
		})
	}
	terminal.In, terminal.Out, terminal.Err = strings.NewReader(""), write(&out), write(&err)
	code := d.RunWithoutHome(ctx, terminal, append([]string{"--home", d.Home}, args...)...)
	return Result{code, out.String(), err.String()}
}

type writeFunc func([]byte) (int, error)

func (write writeFunc) Write(b []byte) (int, error) { return write(b) }

// AttachedConn returns the connection of the last agent that attached.
func (d *FakeDaemon) AttachedConn() *jsonrpc.Conn {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.conn
}

// SubscribedConn returns the connection of the last one that subscribed.
func (d *FakeDaemon) SubscribedConn() *jsonrpc.Conn {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.events
}

// WantResult fails the test if got is not this.
func (d *FakeDaemon) WantResult(got Result, code int, out, err string) {
	d.t.Helper()
	if got != (Result{code, out, err}) {
		d.t.Errorf("got exit code %d\n%s--- stderr\n%s\nwant %d\n%s--- stderr\n%s", got.Code, got.Out, got.Err, code, out, err)
	}
}

// Ids of a message, of a peer and of the daemon itself.
var (
	SomeID = wire.MessageID{0x3f, 0x2b, 0x8c, 0x1e, 0x6f, 0x0a, 0x4d, 0x3c, 0x9e, 0x57, 1, 2, 3, 4, 5, 6}
	DeskID = identity.ID{0xde, 0x5c, 31: 1}
	MyID   = identity.ID{0xac, 0xdc, 31: 2}
)

// Answers over HTTP that never end: with no byte, or with one now and then.
const Silent, Trickling = "silent", "trickling"

// SetHTTPAnswers lets the daemon answer on its socket of channels: by method and path, with JSON.
// An error has the status of a host that is out of reach.
func (d *FakeDaemon) SetHTTPAnswers(answers map[string]string) {
	d.SetHTTPHandler(func(w http.ResponseWriter, r *http.Request) {
		what := r.Method + " " + strings.TrimPrefix(r.URL.Path, "/api/v1/")
		answer, ok := answers[what]
		if offset := r.FormValue("offset"); ok && offset != "" && offset != "0" {
			none := "[]"
			if strings.HasPrefix(answer, "{") {
				none = "{}"
			}
			answer = cmp.Or(answers[what+" from "+offset], none)
		}
		if missing := answers[what+" missing"]; missing != "" {
			w.Header().Set("X-Missing-Hosts", missing)
		}
		switch answer {
		case Silent:
			<-r.Context().Done()
			return
		case Trickling:
			for r.Context().Err() == nil {
				w.Write([]byte(" "))
				w.(http.Flusher).Flush()
				time.Sleep(time.Millisecond) // the pace of who trickles
			}
			return
		}
		if !ok || strings.HasPrefix(answer, `{"error"`) {
			w.WriteHeader(http.StatusBadGateway)
		}
		w.Write([]byte(answer))
	})
}

// SetHTTPHandler lets a handler answer on the daemon's socket of channels.
func (d *FakeDaemon) SetHTTPHandler(h http.HandlerFunc) {
	l, err := net.Listen("unix", filepath.Join(d.Home, client.HTTPSocketName))
	if err != nil {
		d.t.Fatal(err)
	}
	s, done := &http.Server{Handler: h}, make(chan struct{})
	go func() { defer close(done); s.Serve(l) }()
	d.t.Cleanup(func() { s.Shutdown(context.Background()); <-done })
}

// RemoveSocket removes a socket of the daemon, as if there were no daemon.
func (d *FakeDaemon) RemoveSocket(socket string) {
	if err := os.Remove(filepath.Join(d.Home, socket)); err != nil && !os.IsNotExist(err) {
		d.t.Error(err)
	}
}
