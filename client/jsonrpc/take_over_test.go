package jsonrpc

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/kinds"
)

// turnToEcho is a handler whose method "echo" makes the connection say all that it hears, and whose
// method "wait" waits until its caller gives up.
func turnToEcho(ctx context.Context, _ *Conn, r *Request) {
	switch r.Method {
	case "echo":
		conn, err := r.TakeOver(nil)
		if err != nil {
			r.RespondError(err)
			return
		}
		io.Copy(conn, conn)
	case "wait":
		<-ctx.Done()
	default:
		r.RespondError(NewMethodNotFound(r.Method))
	}
}

// servedSocket returns an end of a unix socket whose other end turnToEcho serves, and a channel that has
// the error of Run when that has returned.
func servedSocket(t *testing.T, ctx context.Context) (net.Conn, <-chan error) {
	t.Helper()
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	near, err := net.Dial("unix", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { near.Close() })
	near.SetDeadline(time.Now().Add(time.Minute))
	far, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- NewConn(far, Options{Handler: turnToEcho}).Run(ctx) }()
	return near, ended
}

func TestTakeOver(t *testing.T) {
	near, ended := servedSocket(t, t.Context())
	if err := CallOnly(near, "echo", nil, nil); err != nil {
		t.Fatal(err)
	}
	// No line any more: not even one that looks like a call.
	sent := strings.Repeat("\x00\n{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"wait\"}\n", 10000)
	go func() {
		io.WriteString(near, sent)
		near.(*net.UnixConn).CloseWrite()
	}()
	got, err := io.ReadAll(near)
	if err != nil || string(got) != sent {
		t.Errorf("%d bytes came back of %d: %v", len(got), len(sent), err)
	}
	if err := <-ended; err != nil {
		t.Errorf("Run: %v", err)
	}
}

// A call before it whose answer is in does not matter, even if its handler has not returned yet.
func TestTakeOverAfterAnswer(t *testing.T) {
	near, far := unixPair(t)
	returns := make(chan struct{})
	run(t, NewConn(far, Options{Handler: func(ctx context.Context, c *Conn, r *Request) {
		if r.Method == "speak" {
			r.Respond(nil)
			<-returns
			return
		}
		turnToEcho(ctx, c, r)
	}}))
	if err := CallOnly(near, "speak", nil, nil); err != nil {
		t.Fatal(err)
	}
	if err := CallOnly(near, "echo", nil, nil); err != nil {
		t.Error(err)
	}
	close(returns)
	near.Close()
}

func TestTakeOverEndsWithContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	near, ended := servedSocket(t, ctx)
	if err := CallOnly(near, "echo", nil, nil); err != nil {
		t.Fatal(err)
	}
	cancel()
	<-ended
	if _, err := near.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the connection stays: %v", err)
	}
}

func TestCallOnlyHearsErrors(t *testing.T) {
	near, _ := servedSocket(t, t.Context())
	var e *Error
	if err := CallOnly(near, "other", nil, nil); !errors.As(err, &e) || e.Code != CodeMethodNotFound {
		t.Errorf("an unknown method: %v", err)
	}
	near.Close()
	if err := CallOnly(near, "echo", nil, nil); !errors.Is(err, ErrClosed) {
		t.Errorf("a closed connection: %v", err)
	}
	a, b := net.Pipe()
	defer a.Close()
	go func() {
		bufio.NewReader(b).ReadString('\n')
		io.WriteString(b, strings.Repeat("x", maxOnlyAnswer+1))
		b.Close()
	}()
	if err := CallOnly(a, "echo", nil, nil); !errors.Is(err, ErrClosed) {
		t.Errorf("an endless answer: %v", err)
	}
}

// A connection that is used for anything else stays what it is, or is closed with a word.
func TestTakeOverNeedsConnectionAlone(t *testing.T) {
	for _, test := range []struct{ name, sent string }{
		{"another call", `{"jsonrpc":"2.0","id":1,"method":"wait"}` + "\n" + `{"jsonrpc":"2.0","id":2,"method":"echo"}` + "\n"},
		{"a call behind it", `{"jsonrpc":"2.0","id":2,"method":"echo"}` + "\n" + `{"jsonrpc":"2.0","id":1,"method":"wait"}` + "\n"},
		{"bytes behind it", `{"jsonrpc":"2.0","id":2,"method":"echo"}` + "\nx"},
	} {
		t.Run(test.name, func(t *testing.T) {
			near, _ := servedSocket(t, t.Context())
			if _, err := io.WriteString(near, test.sent); err != nil {
				t.Fatal(err)
			}
			line, err := bufio.NewReader(near).ReadString('\n')
			if err != nil || !strings.Contains(line, `"error"`) || !strings.Contains(line, string(kinds.Invalid)) || !strings.Contains(line, "separate") {
				t.Errorf("answer %q, %v", line, err)
			}
		})
	}
	// A notification has nobody who waits for its answer.
	near, _ := servedSocket(t, t.Context())
	io.WriteString(near, `{"jsonrpc":"2.0","method":"echo"}`+"\n"+`{"jsonrpc":"2.0","id":3,"method":"other"}`+"\n")
	line, err := bufio.NewReader(near).ReadString('\n')
	if err != nil || !strings.Contains(line, `"id":3`) {
		t.Errorf("after a notification: %q, %v", line, err)
	}
}
