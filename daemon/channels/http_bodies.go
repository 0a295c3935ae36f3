package channels

import (
	"io"
	"net/http"

	"golang.org/x/sync/semaphore"

	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/openintent/api"
)

// newBodyLimitHandler bounds the bodies that a server reads: inputs those that are not read to their
// end, whole those whose requests are under way. If a request is answered before its body
// has come, and the rest does not come, its connection ends.
func newBodyLimitHandler(next http.Handler, inputs *jsonrpc.InputLimit, whole *semaphore.Weighted) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body == nil || r.Body == http.NoBody {
			next.ServeHTTP(w, r)
			return
		}
		b := &limitedBody{ReadCloser: r.Body, input: inputs.NewPartialInput(http.NewResponseController(w).SetReadDeadline), limit: whole}
		defer func() {
			whole.Release(b.held)
			if !b.whole {
				b.input.Discard(b.failed)
			}
		}()
		with := r.WithContext(r.Context())
		with.Body = b
		next.ServeHTTP(w, with)
	})
}

// limitedBody is the body of a request, counted while it is read and until the request is
// answered.
type limitedBody struct {
	io.ReadCloser
	input  *jsonrpc.PartialInput
	read   int
	whole  bool // it was read to its end
	failed bool // a read has

	limit *semaphore.Weighted
	held  int64 // of that
}

// Read reads from the body. Its error is the answer to the request.
func (b *limitedBody) Read(p []byte) (n int, err error) {
	if err = b.input.AllowRead(); err == nil {
		n, err = b.ReadCloser.Read(p)
		b.read += n
		switch {
		case err == io.EOF:
			b.whole = true
			b.input.Finish()
			if b.held == 0 {
				more := int64(max(b.read-jsonrpc.FreeInput, 0))
				if !b.limit.TryAcquire(more) {
					err = newBodyLimitError()
					break
				}
				b.held = more
			}
			return n, err
		case err != nil:
			err = b.input.ExplainError(err)
		case b.read > jsonrpc.FreeInput:
			// The handler that reads it all has a buffer of up to twice that.
			err = b.input.Reserve(2 * b.read)
		}
	}
	b.failed = b.failed || err != nil
	return n, toHTTPError(err)
}

// toHTTPError returns an error of a limit as an answer over HTTP. It returns any other error
// as it is.
func toHTTPError(err error) error {
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

// maxBodyBytes bounds the bytes of whole bodies until their requests are answered, beyond
// what each has free. A body that finds no room is refused and does not wait: the requests
// that hold the room may be asks that wait.
const maxBodyBytes = 64 << 20

func newBodyLimitError() error {
	e := kinds.Errorf(kinds.Overloaded, "read: the bodies of requests that agents here have not had answered yet hold all the room there is for them: come again when some have ended, or send a shorter one")
	e.RetryAfterMS = 1000
	return e
}
