package daemon

import (
	"io"
	"net/http"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/openintent"
)

// boundBodies bounds the bodies that a server reads and that are not whole. One that
// is answered before it is whole, and of which the rest does not come, ends its connection.
func boundBodies(next http.Handler, all *client.Unfinished) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body == nil || r.Body == http.NoBody {
			next.ServeHTTP(w, r)
			return
		}
		b := &body{ReadCloser: r.Body, part: all.Open(http.NewResponseController(w).SetReadDeadline)}
		defer func() {
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
	part   *client.Part
	read   int
	whole  bool // it was read to its end
	failed bool // a read has
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
			return n, err
		case err != nil:
			err = b.part.Explain(err)
		case b.read > client.FreePart:
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
