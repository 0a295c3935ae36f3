package cli

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/wire"
)

// A fake is a daemon that answers each method as a test says: for what a pair of
// real ones cannot be brought to say.
type fake struct {
	t    *testing.T
	home string

	mu      sync.Mutex
	methods map[string]func(*client.Request) (any, error)
	conn    *client.Conn // the last one that attached
}

func newFake(t *testing.T) *fake {
	home, err := os.MkdirTemp("/tmp", "acp") // a socket's path cannot be long
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(home) })
	f := &fake{t: t, home: home, methods: make(map[string]func(*client.Request) (any, error))}
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
			conn := client.NewConn(c, client.Options{Handler: f.serve})
			conns.Go(func() { conn.Run(ctx) })
		}
	})
	t.Cleanup(func() { l.Close(); cancel(); conns.Wait() })
	return f
}

func (f *fake) serve(_ context.Context, c *client.Conn, r *client.Request) {
	f.mu.Lock()
	method := f.methods[r.Method]
	if r.Method == client.MethodAttach {
		f.conn = c
	}
	f.mu.Unlock()
	if method == nil {
		r.ReplyError(client.MethodNotFound(r.Method))
		return
	}
	if result, err := method(r); err != nil {
		r.ReplyError(err)
	} else {
		r.Reply(result)
	}
}

// on lets a method answer with a result or an error.
func (f *fake) on(method string, result any) {
	f.does(method, func(*client.Request) (any, error) {
		if err, ok := result.(error); ok {
			return nil, err
		}
		return result, nil
	})
}

func (f *fake) does(method string, do func(*client.Request) (any, error)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.methods[method] = do
}

// ran is what a command did.
type ran struct {
	code     int
	out, err string
}

// run runs a command line as a script does: nothing is a terminal.
func (f *fake) run(args ...string) ran { return f.as(&app{}, "", args...) }

// typed runs a command line as a person does.
func (f *fake) typed(stdin string, args ...string) ran {
	return f.as(&app{inTTY: true, outTTY: true, errTTY: true, colours: true}, stdin, args...)
}

func (f *fake) as(a *app, stdin string, args ...string) ran {
	f.t.Helper()
	var out, err bytes.Buffer
	a.in, a.out, a.err = strings.NewReader(stdin), &out, &err
	code := a.run(f.t.Context(), append([]string{"--home", f.home}, args...))
	a.daemon.Close()
	return ran{code, out.String(), err.String()}
}

func (f *fake) want(got ran, code int, out, err string) {
	f.t.Helper()
	if got != (ran{code, out, err}) {
		f.t.Errorf("got exit code %d\n%s--- stderr\n%s\nwant %d\n%s--- stderr\n%s", got.code, got.out, got.err, code, out, err)
	}
}

var (
	someID = wire.MessageID{0x3f, 0x2b, 0x8c, 0x1e, 0x6f, 0x0a, 0x4d, 0x3c, 0x9e, 0x57, 1, 2, 3, 4, 5, 6}
	deskID = identity.ID{0xde, 0x5c, 31: 1}
	me     = identity.ID{0xac, 0xdc, 31: 2}
)
