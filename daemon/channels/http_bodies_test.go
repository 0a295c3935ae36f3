package channels

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/daemon/local"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/openintent/api"
)

// once is a listener with one connection.
type once struct{ c chan net.Conn }

func (o once) Close() error { return nil }

func (o once) Addr() net.Addr { return &net.UnixAddr{} }

func (o once) Accept() (net.Conn, error) {
	if c, ok := <-o.c; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

// A body that stands still is answered, and its connection ends: nobody waits for the
// rest of it, whether it was read or refused unread. One that is whole keeps it.
func TestABodyThatStandsStillIsAnswered(t *testing.T) {
	reads := func(w http.ResponseWriter, r *http.Request) {
		_, err := io.ReadAll(r.Body)
		if e, ok := errors.AsType[*api.Error](err); ok {
			e.WriteAnswer(w)
		}
	}
	refuses := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) }
	for what, c := range map[string]struct {
		handler http.HandlerFunc
		body    string
		status  int
		ends    bool
	}{
		"read":           {reads, "{", http.StatusRequestTimeout, true},
		"refused":        {refuses, "{", http.StatusNotFound, true},
		"read, whole":    {reads, "{}", http.StatusOK, false},
		"refused, whole": {refuses, "{}", http.StatusNotFound, false},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				near, far := net.Pipe()
				l := once{c: make(chan net.Conn, 1)}
				l.c <- far
				all := jsonrpc.NewInputLimit(local.MaxInputBytes)
				s := &http.Server{Handler: newBodyLimitHandler(c.handler, all, semaphore.NewWeighted(maxBodyBytes))}
				served := make(chan error, 1)
				go func() { served <- s.Serve(l) }()
				near.SetDeadline(time.Now().Add(time.Hour)) // instead of a test that hangs
				answers := bufio.NewReader(near)
				ask := func() (int, error) {
					go io.WriteString(near, "POST / HTTP/1.1\r\nHost: acpd\r\nContent-Length: 2\r\n\r\n"+c.body)
					r, err := http.ReadResponse(answers, nil)
					if err != nil {
						return 0, err
					}
					_, err = io.Copy(io.Discard, r.Body)
					return r.StatusCode, err
				}
				began := time.Now()
				if status, err := ask(); status != c.status || err != nil || time.Since(began) > time.Minute {
					t.Errorf("%d, %v after %v", status, err, time.Since(began))
				}
				if c.ends {
					if _, err := answers.ReadByte(); err != io.EOF {
						t.Errorf("the connection goes on: %v", err)
					}
				} else if status, err := ask(); status != c.status || err != nil {
					t.Errorf("the next request: %d, %v", status, err)
				}
				near.Close()
				close(l.c)
				<-served
				s.Close()
				synctest.Wait()
				if n := all.HeldBytes(); n != 0 {
					t.Errorf("%d bytes are held", n)
				}
			})
		})
	}
}

// Bodies that are whole count until their requests are answered: beyond the bound, ten times,
// they are refused, short ones are not, and all is given back however a request ends.
// holds: security.md#agents-on-this-machine
func TestWholeBodiesThatAreUnderWayAreBounded(t *testing.T) {
	const size, fit = 1 << 20, 4
	end, reads := make(chan struct{}), make(chan error)
	all, answering := jsonrpc.NewInputLimit(local.MaxInputBytes), semaphore.NewWeighted(fit*size)
	s := httptest.NewServer(newBodyLimitHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, err := io.ReadAll(r.Body)
		reads <- err
		if e, ok := errors.AsType[*api.Error](err); ok {
			e.WriteAnswer(w)
			return
		}
		select {
		case <-end:
		case <-r.Context().Done():
		}
		if r.URL.Path == "/panic" {
			panic(http.ErrAbortHandler)
		}
	}), all, answering))
	defer s.Close()
	answers := make(chan int, 10*fit+1)
	post := func(path string, size int) error {
		go func() {
			r, err := s.Client().Post(s.URL+path, "application/json", strings.NewReader(strings.Repeat("x", size)))
			if err != nil {
				answers <- 0
				return
			}
			r.Body.Close()
			answers <- r.StatusCode
		}()
		return await.Receive(t, "the body is read", reads)
	}
	for n := range 10 * fit {
		path := "/"
		if n%2 == 1 {
			path = "/panic"
		}
		err := post(path, size)
		e, refused := errors.AsType[*api.Error](err)
		if n < fit && err != nil || n >= fit && (!refused || e.Status != http.StatusTooManyRequests || e.Code != "overloaded") {
			t.Fatalf("%d: %v", n, err)
		}
		if refused {
			if status := await.Receive(t, "the refusal", answers); status != http.StatusTooManyRequests {
				t.Errorf("%d: status %d", n, status)
			}
		}
	}
	if err := post("/", jsonrpc.FreeInput); err != nil {
		t.Errorf("a short one: %v", err)
	}
	close(end)
	for range fit + 1 {
		await.Receive(t, "an answer", answers)
	}
	await.Until(t, "all is given back", func() bool {
		if !answering.TryAcquire(fit * size) {
			return false
		}
		answering.Release(fit * size)
		return all.HeldBytes() == 0
	})
	if err := post("/", size); err != nil {
		t.Errorf("when all is over: %v", err)
	}
}
