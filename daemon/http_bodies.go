package daemon

import (
	"io"
	"net/http"
	"sync"

	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/openintent/api"
)

// limitBodies bounds the bodies that a server reads: unfinished ones by inputs, and whole
// ones whose requests are under way by whole. If a request is answered before its body is
// whole, and the rest does not come, its connection ends.
func limitBodies(next http.Handler, inputs *jsonrpc.InputLimit, whole *bodyLimit) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body == nil || r.Body == http.NoBody {
			next.ServeHTTP(w, r)
			return
		}
		b := &body{ReadCloser: r.Body, input: inputs.Track(http.NewResponseController(w).SetReadDeadline), limit: whole}
		defer func() {
			whole.release(b.held)
			if !b.whole {
				b.input.Discard(b.failed)
			}
		}()
		with := r.WithContext(r.Context())
		with.Body = b
		next.ServeHTTP(w, with)
	})
}

// body is the body of a request, counted while it is read and until the request is
// answered.
type body struct {
	io.ReadCloser
	input  *jsonrpc.PartialInput
	read   int
	whole  bool // it was read to its end
	failed bool // a read has

	limit *bodyLimit
	held  int // of that
}

// Read reads. Its error is the answer to the request.
func (b *body) Read(p []byte) (n int, err error) {
	if err = b.input.AllowRead(); err == nil {
		n, err = b.ReadCloser.Read(p)
		b.read += n
		switch {
		case err == io.EOF:
			b.whole = true
			b.input.Finish()
			if more := max(b.read-jsonrpc.FreeInput, 0); b.held == 0 && !b.limit.reserve(more) {
				err = errBodyLimit()
				break
			} else if b.held == 0 {
				b.held = more
			}
			return n, err
		case err != nil:
			err = b.input.ExplainError(err)
		case b.read > jsonrpc.FreeInput:
			// Who reads it all has a buffer of up to twice that.
			err = b.input.Reserve(2 * b.read)
		}
	}
	b.failed = b.failed || err != nil
	return n, httpError(err)
}

// httpError returns an error of a limit as an answer over HTTP, and any other error as it
// is.
func httpError(err error) error {
	e, ok := err.(*kinds.Error)
	if !ok {
		return err
	}
	status := http.StatusTooManyRequests
	if e.Code == kinds.Timeout {
		status = http.StatusRequestTimeout
	}
	return &api.Error{Status: status, Code: string(e.Code), Message: e.Message}
}

// maxBodyBytes bounds the bytes of whole bodies whose requests are under way.
const maxBodyBytes = 64 << 20

// bodyLimit counts the bytes of whole bodies until their requests are answered, beyond
// what each has free. It refuses what has no room, because the requests that hold the
// room may be asks that wait. Any number of goroutines may use it.
type bodyLimit struct {
	maxBytes int

	mu   sync.Mutex // guards held
	held int
}

func (u *bodyLimit) reserve(n int) (ok bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if n > 0 && u.held+n > u.maxBytes {
		return false
	}
	u.held += n
	return true
}

func (u *bodyLimit) release(n int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.held -= n
}

func errBodyLimit() error {
	e := kinds.Errorf(kinds.Overloaded, "read: the bodies of requests that agents here have not had answered yet hold all the room there is for them: come again when some have ended, or send a shorter one")
	e.RetryAfterMS = 1000
	return e
}
