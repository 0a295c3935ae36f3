package jsonrpc

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/integration/await"
)

// asker opens a connection with the limit, and whose handlers wait until its end.
func asker(t *testing.T, all *RequestLimit, inFlight int) (net.Conn, *bufio.Reader) {
	t.Helper()
	near, far := unixPair(t)
	run(t, NewConn(far, Options{MaxInFlight: inFlight, RequestLimit: all, Handler: func(ctx context.Context, _ *Conn, r *Request) {
		if r.Method == "wait" {
			<-ctx.Done()
		}
		r.Respond(nil)
	}}))
	near.SetDeadline(time.Now().Add(time.Minute)) // instead of a test that hangs
	return near, bufio.NewReader(near)
}

// ask sends requests, and expects the answer to the last one.
func ask(t *testing.T, c net.Conn, answers *bufio.Reader, n int, method string, size int, want string) {
	t.Helper()
	for i := range n {
		fmt.Fprintf(c, `{"jsonrpc":"2.0","method":%q,"id":%d,"pad":"%s"}`+"\n", method, i, strings.Repeat("x", size))
	}
	if line, err := answers.ReadString('\n'); err != nil || !strings.Contains(line, want) {
		t.Fatalf("got %.300q, %v, want %s", line, err, want)
	}
}

// Requests that wait hold no more together than there is room for, in bytes and in number,
// whether they are served or wait for their turn. Each connection has a little of its own.
// holds: security.md#agents-on-this-machine
func TestRequestsUnderWayShareARoom(t *testing.T) {
	const most = 1 << 20
	for _, inFlight := range []int{0, 2} {
		all := NewRequestLimit(100, most)
		hog, told := asker(t, all, inFlight)
		ask(t, hog, told, 6, "wait", 200<<10, `"overloaded"`)
		if number, bytes := all.HeldLoad(); number > 0 || bytes > most || bytes < most-200<<10 {
			t.Errorf("%d requests and %d bytes of what all share", number, bytes)
		}
		other, answers := asker(t, all, 0)
		ask(t, other, answers, 1, "large", 300<<10, `"retryable":true`)
		ask(t, other, answers, 1, "small", ownBytes-200, `"result"`)

		many, refused := asker(t, all, inFlight)
		ask(t, many, refused, 100+ownRequests+1, "wait", 1, `"overloaded"`)
		ask(t, other, answers, 1, "small", 1, `"result"`)

		for _, c := range []net.Conn{hog, many} {
			c.Close()
		}
		await.Until(t, "all is given back", func() bool { number, bytes := all.HeldLoad(); return number == 0 && bytes == 0 })
		ask(t, other, answers, 1, "large", 300<<10, `"result"`)
	}
}
