package remote

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/openintent/object"
)

// leaving is a stream of a connection that another may replace.
type leaving struct {
	piped
	left chan struct{}
}

func (l leaving) Leaving() <-chan struct{} { return l.left }

const followed = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"

// followedHome runs a Gateway whose host answers each request with the next of what it says. leave
// has the connection take no more streams. It returns the Last-Event-IDs of the requests.
func followedHome(t *testing.T, says ...func(to net.Conn, leave func())) (c *Gateway, asked <-chan string) {
	t.Helper()
	ids := make(chan string, len(says))
	var opened atomic.Int32
	return home(t, func(ctx context.Context) (Stream, error) {
		n := int(opened.Add(1))
		if n > len(says) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		here, there := net.Pipe()
		left := make(chan struct{})
		context.AfterFunc(ctx, func() { here.Close() })
		go func() {
			defer there.Close()
			r, err := http.ReadRequest(bufio.NewReader(there))
			if err != nil {
				return
			}
			ids <- r.Header.Get("Last-Event-ID")
			says[n-1](there, sync.OnceFunc(func() { close(left) }))
		}()
		return leaving{piped{here}, left}, nil
	}), ids
}

// place returns the Last-Event-ID of the next request for the host's events.
func (g *Gateway) place(t *testing.T) string {
	t.Helper()
	return g.Engine.HostPlace(desk.ID.String()[:object.HostDigits])
}

// placed says where the host's feed is, and nothing more.
func placed(to net.Conn, _ func()) {
	io.WriteString(to, followed+": ok\n\nid: 7\n\n")
	io.Copy(io.Discard, to)
}

// The stream by which a host is followed ends when another connection has replaced its
// own, which would go on for it alone, and another one goes on where it was.
func TestFollowingMovesToTheNextConnection(t *testing.T) {
	t.Parallel()
	replaced := make(chan struct{})
	c, asked := followedHome(t, func(to net.Conn, leave func()) {
		io.WriteString(to, followed+"id: 7\n\n")
		<-replaced
		leave()
		io.Copy(io.Discard, to)
	}, placed)
	await.Receive(t, "the first stream", c.followed.startFollowing(desk.ID, true))
	if first := await.Receive(t, "a request", asked); first != "" || c.place(t) != "7" {
		t.Errorf("it begins at %q, and %q is kept", first, c.place(t))
	}
	close(replaced)
	if next := await.Receive(t, "the next request", asked); next != "7" {
		t.Errorf("it goes on at %q", next)
	}
}

// Who waits for a host's stream misses nothing from then on. So the wait lasts until the place in
// the host's feed is kept: a stream that its connection takes along before that has not begun.
func TestAStreamHasBegunOnceItsPlaceIsKept(t *testing.T) {
	t.Parallel()
	for when, says := range map[string]func(net.Conn, func()){
		"before its answer": func(_ net.Conn, leave func()) { leave() },
		"before its place": func(to net.Conn, leave func()) {
			io.WriteString(to, followed)
			leave()
			io.Copy(io.Discard, to)
		},
		"with its connection": func(to net.Conn, leave func()) {
			io.WriteString(to, followed+": ok\n\n")
			leave()
		},
	} {
		c, asked := followedHome(t, says, says, placed)
		await.Receive(t, "a stream", c.followed.startFollowing(desk.ID, true))
		if got := c.place(t); got != "7" {
			t.Errorf("two streams ended %s: the third has begun, and the place %q is kept", when, got)
		}
		for range 3 {
			if id := await.Receive(t, "a request", asked); id != "" {
				t.Errorf("a request for what came after %q", id)
			}
		}
	}
}

// A host whose stream has ended is tried again at once if somebody wants to miss nothing, who then
// waits for that try. Others do not change when it is tried.
func TestWhoWantsToMissNothingWaitsForTheNextTry(t *testing.T) {
	t.Parallel()
	c, _ := followedHome(t, func(to net.Conn, _ func()) {
		io.WriteString(to, "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n")
	}, placed)
	await.Receive(t, "the first try", c.followed.startFollowing(desk.ID, true))
	if got := c.place(t); got != "" {
		t.Fatalf("the place %q is kept", got)
	}
	await.Receive(t, "the first try, which is over", c.followed.startFollowing(desk.ID, false))
	if got := c.place(t); got != "" {
		t.Errorf("who does not wait had it tried again: the place %q is kept", got)
	}
	tried := c.Engine.Config().Follow(desk.ID.String()[:object.HostDigits])
	await.Receive(t, "the next try", tried[0])
	if got := c.place(t); len(tried) != 1 || got != "7" {
		t.Errorf("the next try of %d is over, and the place %q is kept", len(tried), got)
	}
}
