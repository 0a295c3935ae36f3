package jsonrpc

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

type contextKey struct{}

// However a request's context ends, whoever waits for it hears so, with one cause.
func TestRequestContext(t *testing.T) {
	for name, test := range map[string]struct {
		end  func(r *Request, caller io.Writer, far *Conn, endRun context.CancelFunc)
		want error
	}{
		"the caller gives up": {func(_ *Request, caller io.Writer, _ *Conn, _ context.CancelFunc) {
			io.WriteString(caller, `{"jsonrpc":"2.0","method":"rpc.cancel","params":{"id":1}}`+"\n")
		}, context.Canceled},
		"the time is over": {func(r *Request, _ io.Writer, _ *Conn, _ context.CancelFunc) {
			r.CancelAfter(time.Second)
		}, context.DeadlineExceeded},
		"the connection closes": {func(_ *Request, _ io.Writer, far *Conn, _ context.CancelFunc) {
			far.Close()
		}, context.Canceled},
		"the daemon ends": {func(_ *Request, _ io.Writer, _ *Conn, endRun context.CancelFunc) {
			endRun()
		}, context.Canceled},
		"the caller's end closes": {func(_ *Request, caller io.Writer, _ *Conn, _ context.CancelFunc) {
			caller.(net.Conn).Close()
		}, context.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := net.Pipe()
				defer a.Close()
				requests := make(chan *Request)
				far := NewConn(b, Options{Handler: func(ctx context.Context, _ *Conn, r *Request) {
					if _, limited := ctx.Deadline(); limited || ctx.Err() != nil || ctx.Value(contextKey{}) != "of Run" {
						t.Errorf("a context with a deadline, the error %v or the value %v", ctx.Err(), ctx.Value(contextKey{}))
					}
					requests <- r
					<-ctx.Done()
				}})
				runs, endRun := context.WithCancel(context.WithValue(t.Context(), contextKey{}, "of Run"))
				defer endRun()
				var running sync.WaitGroup
				defer running.Wait()
				defer far.Close()
				running.Go(func() { far.Run(runs) })
				running.Go(func() { io.Copy(io.Discard, a) })
				io.WriteString(a, `{"jsonrpc":"2.0","method":"wait","id":1}`+"\n")
				r := <-requests

				ctx := context.Context(&r.ctx)
				child, cancel := context.WithTimeout(ctx, time.Hour)
				defer cancel()
				var called, stopped atomic.Int32
				for range 3 {
					context.AfterFunc(ctx, func() { called.Add(1) })
					r.ctx.AfterFunc(func() { called.Add(1) })
				}
				for _, stop := range []func() bool{context.AfterFunc(ctx, func() { stopped.Add(1) }), r.ctx.AfterFunc(func() { stopped.Add(1) })} {
					if !stop() || stop() {
						t.Error("a call that has not begun is stopped, once")
					}
				}
				test.end(r, a, far, endRun)
				<-child.Done()
				synctest.Wait()
				if err := ctx.Err(); err != test.want || context.Cause(ctx) != err || child.Err() != err || context.Cause(child) != err {
					t.Errorf("the errors are %v and %v, the causes %v and %v, not %v", err, child.Err(), context.Cause(ctx), context.Cause(child), test.want)
				}
				late := r.ctx.AfterFunc(func() { called.Add(1) })
				synctest.Wait()
				if late() || called.Load() != 7 || stopped.Load() != 0 {
					t.Errorf("%d of 7 were called, and %d that were stopped", called.Load(), stopped.Load())
				}
			})
		})
	}
}

// The contexts of handlers that run, of requests that wait for their turn, and of one that is read when
// the connection has closed have all ended then, and that of one that has returned.
func TestContextsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := net.Pipe()
		var ended, asked atomic.Int32
		far := NewConn(b, Options{MaxInFlight: 2, Handler: func(ctx context.Context, _ *Conn, r *Request) {
			asked.Add(1)
			if r.Method == "wait" {
				<-ctx.Done()
				ended.Add(1)
			}
		}})
		var running sync.WaitGroup
		defer running.Wait()
		defer a.Close()
		running.Go(func() { far.Run(t.Context()) })
		running.Go(func() { io.Copy(io.Discard, a) })
		io.WriteString(a, `{"jsonrpc":"2.0","method":"return","id":0}`+"\n")
		synctest.Wait()
		for _, id := range []string{"1", "2", "3"} {
			io.WriteString(a, `{"jsonrpc":"2.0","method":"wait","id":`+id+`}`+"\n")
		}
		synctest.Wait()
		far.mu.Lock()
		third := far.requestsByID["3"]
		far.mu.Unlock()
		if asked.Load() != 3 || third == nil || third.ctx.Err() != nil {
			t.Fatalf("%d handlers were called, and one waits: %v", asked.Load(), third)
		}
		far.Close()
		synctest.Wait()
		if !errors.Is(third.ctx.Err(), context.Canceled) || ended.Load() != 2 {
			t.Errorf("%d of two handlers have ended, and the request that waits with %v", ended.Load(), third.ctx.Err())
		}
		late := &Request{Method: "late", conn: far}
		far.mu.Lock()
		far.addRequest(late)
		far.mu.Unlock()
		if !errors.Is(late.ctx.Err(), context.Canceled) {
			t.Errorf("a request of a closed connection: %v", late.ctx.Err())
		}
		far.mu.Lock()
		defer far.mu.Unlock()
		for _, r := range []*Request{third, late} {
			far.removeRequest(r)
		}
		if far.requests != nil || len(far.requestsByID) > 0 {
			t.Errorf("requests are left: %v, %v", far.requests, far.requestsByID)
		}
	})
}
