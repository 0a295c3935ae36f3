package jsonrpc

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/acpd/acpd/kinds"
)

func TestConnectionLoss(t *testing.T) {
	started := make(chan struct{}, 50)
	block := func(ctx context.Context, _ *Conn, r *Request) {
		started <- struct{}{}
		<-ctx.Done()
	}
	for name, lose := range map[string]func(near, far *Conn){
		"other end closes": func(_, far *Conn) { far.Close() },
		"own end closes":   func(near, _ *Conn) { near.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			near, far := pair(t, Options{}, Options{Handler: block})
			var wg sync.WaitGroup
			for range 50 {
				wg.Go(func() {
					err := near.Call(t.Context(), "slow", nil, nil)
					e, ok := errors.AsType[*kinds.Error](err)
					if !errors.Is(err, ErrClosed) || !ok || e.Code != kinds.DaemonUnavailable || e.Delivered() != kinds.DeliveredUnknown || !e.Retryable {
						t.Errorf("got %v", err)
					}
				})
			}
			for range 50 {
				<-started
			}
			lose(near, far)
			wg.Wait()
			<-near.Done()
			err := near.Call(t.Context(), "slow", nil, nil)
			e, ok := errors.AsType[*kinds.Error](err)
			if !ok || e.Delivered() != kinds.DeliveredNo {
				t.Errorf("after the end: %v", err)
			}
			if err := near.Notify("x", nil); !errors.Is(err, ErrClosed) {
				t.Errorf("after the end: %v", err)
			}
			if near.Err() == nil {
				t.Error("Err is nil after the end")
			}
		})
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	near, _ := unixPair(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := NewConn(near, Options{}).Run(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestHalfClose(t *testing.T) {
	near, far := unixPair(t)
	release := make(chan struct{})
	run(t, NewConn(far, Options{Handler: func(_ context.Context, _ *Conn, r *Request) {
		<-release
		r.Respond(nil)
	}}))
	// The last line has no end.
	io.WriteString(near, `{"jsonrpc":"2.0","method":"a","id":1}`+"\n"+`{"jsonrpc":"2.0","method":"a","id":2}`)
	near.(*net.UnixConn).CloseWrite()
	close(release)
	answers, err := io.ReadAll(near)
	if err != nil || strings.Count(string(answers), `"result":{}`) != 2 {
		t.Errorf("got %q, %v", answers, err)
	}
}

func TestCloseCancelsHandlers(t *testing.T) {
	for name, leave := range map[string]func(*net.UnixConn){
		"close":                func(c *net.UnixConn) { c.Close() },
		"half-close and close": func(c *net.UnixConn) { c.CloseWrite(); c.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			near, far := unixPair(t)
			started, ended := make(chan struct{}), make(chan struct{})
			c := NewConn(far, Options{Handler: func(ctx context.Context, _ *Conn, r *Request) {
				close(started)
				<-ctx.Done()
				close(ended)
			}})
			run(t, c)
			io.WriteString(near, `{"jsonrpc":"2.0","method":"a","id":1}`+"\n")
			<-started
			leave(near.(*net.UnixConn))
			<-ended
			<-c.Done()
		})
	}
}

// A client that has finished writing and closes only later is noticed then.
func TestLateClose(t *testing.T) {
	near, far := unixPair(t)
	started, ended := make(chan struct{}), make(chan struct{})
	c := NewConn(far, Options{Handler: func(ctx context.Context, _ *Conn, r *Request) {
		if r.Method == "quick" {
			r.Respond(nil)
			return
		}
		close(started)
		<-ctx.Done()
		close(ended)
	}})
	run(t, c)
	io.WriteString(near, `{"jsonrpc":"2.0","method":"slow","id":1}`+"\n")
	<-started
	io.WriteString(near, `{"jsonrpc":"2.0","method":"quick","id":2}`)
	near.(*net.UnixConn).CloseWrite()
	readAnswer(t, bufio.NewReader(near)) // the end of writing has been seen
	select {
	case <-ended:
		t.Fatal("a half-close cancelled the handler")
	default:
	}
	near.Close()
	<-ended
}
