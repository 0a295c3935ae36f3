package daemon

import (
	"io"
	"net/http"
	"sync"

	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/openintent"
)

// boundBodies bounds the bodies that a server reads: in all those that are not whole, and in
// answering those that are whole and whose requests go on. One that is answered before it is
// whole, and of which the rest does not come, ends its connection.
func boundBodies(next http.Handler, all *jsonrpc.Unfinished, answering *underWay) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body == nil || r.Body == http.NoBody {
			next.ServeHTTP(w, r)
			return
		}
		b := &body{ReadCloser: r.Body, part: all.Open(http.NewResponseController(w).SetReadDeadline), answering: answering}
		defer func() {
			answering.give(b.held)
			if !b.whole {
				b.part.Leave(b.failed)
			}
		}()
		with := r.WithContext(r.Context())
		with.Body = b
		next.ServeHTTP(w, with)
	})
}

// body is the body of a request that is in an account until it is read.
type body struct {
	io.ReadCloser
	part   *jsonrpc.Part
	read   int
	whole  bool // it was read to its end
	failed bool // a read has

	answering *underWay
	held      int // of that
}

// Read reads; its error is what the request is answered with.
func (b *body) Read(p []byte) (n int, err error) {
	if err = b.part.Await(); err == nil {
		n, err = b.ReadCloser.Read(p)
		b.read += n
		switch {
		case err == io.EOF:
			b.whole = true
			b.part.Finish()
			if more := max(b.read-jsonrpc.FreePart, 0); b.held == 0 && !b.answering.take(more) {
				err = errUnderWay()
				break
			} else if b.held == 0 {
				b.held = more
			}
			return n, err
		case err != nil:
			err = b.part.Explain(err)
		case b.read > jsonrpc.FreePart:
			// Who reads it all has a buffer of up to twice that.
			err = b.part.Hold(2 * b.read)
		}
	}
	b.failed = b.failed || err != nil
	return n, asAnswer(err)
}

// asAnswer is an error of the account as an answer over HTTP, any other as it is.
func asAnswer(err error) error {
	e, ok := err.(*kinds.Error)
	if !ok {
		return err
	}
	status := http.StatusTooManyRequests
	if e.Code == kinds.Timeout {
		status = http.StatusRequestTimeout
	}
	return &openintent.Error{Status: status, Code: string(e.Code), Message: e.Message}
}

// maxUnderWay bounds the bytes of bodies that are whole and whose requests are under way.
const maxUnderWay = 64 << 20

// underWay counts the bytes of bodies that are whole until their requests are answered, beyond
// what each has free. What it has no room for is refused, for those that are there may be asks
// that wait. Any number of goroutines may use it.
type underWay struct {
	most int

	mu   sync.Mutex // guards held
	held int
}

func (u *underWay) take(n int) (ok bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if n > 0 && u.held+n > u.most {
		return false
	}
	u.held += n
	return true
}

func (u *underWay) give(n int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.held -= n
}

func errUnderWay() error {
	e := kinds.Errorf(kinds.Overloaded, "read: the bodies of requests that agents here have not had answered yet hold all the room there is for them: come again when some have ended, or send a shorter one")
	e.RetryAfterMS = 1000
	return e
}
