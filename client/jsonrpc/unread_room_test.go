package jsonrpc

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/acpd/acpd/wire"
)

// isEmpty reports whether a room of so many bytes has given nothing away, and takes all.
func (r *UnreadRoom) isEmpty(size int64) bool {
	return r.TryAcquire(size) && r.first.TryAcquire(size)
}

// deafCaller opens a connection that shares room. What it asks has an answer of so many bytes.
func deafCaller(t *testing.T, room *UnreadRoom, most int64) (c *Conn, far net.Conn, ask func(n, size int)) {
	near, far := net.Pipe()
	c = NewConn(near, Options{PushBack: true, UnreadRoom: room, MaxUnread: most, Handler: func(_ context.Context, _ *Conn, r *Request) {
		var p struct{ Size int }
		if err := r.ReadParams(&p); err != nil {
			t.Error(err)
		}
		r.Respond(wire.Payload(`{"pad":"` + strings.Repeat("x", p.Size) + `"}`))
	}})
	go c.Run(t.Context())
	t.Cleanup(func() { c.Close(); far.Close() })
	return c, far, func(n, size int) {
		for range n {
			fmt.Fprintf(far, `{"jsonrpc":"2.0","id":1,"method":"x","params":{"Size":%d}}`+"\n", size)
		}
		synctest.Wait()
	}
}

// countAnswers reads answers, and returns how many of them are results, and errors of a call that may
// have had its effect.
func countAnswers(t *testing.T, answers *bufio.Reader, all int) (results, refused int) {
	t.Helper()
	for range all {
		line, err := answers.ReadString('\n')
		switch {
		case err != nil:
			t.Fatal(err)
		case strings.Contains(line, `"result"`):
			results++
		case strings.Contains(line, `"overloaded"`) && strings.Contains(line, `"delivered":"unknown"`):
			refused++
		default:
			t.Fatalf("got %.300s", line)
		}
	}
	synctest.Wait() // until who wrote has counted that
	return results, refused
}

// Answers that nobody reads hold no more than the room of all, whether they are queued or wait for
// that. Each one is read or refused.
// holds: security.md#agents-on-this-machine
func TestAnswersThatAreNotReadShareARoom(t *testing.T) {
	const size = 100 << 10
	for name, most := range map[string]int{"less than a queue": 1 << 20, "more than a queue": 2 * maxQueueBytes} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				room := NewUnreadRoom(int64(most))
				c, far, ask := deafCaller(t, room, int64(most))
				n := 2 * most / size
				ask(n, size)
				if waits := c.queue.byteCount + c.queue.waitingBytes; waits > most+size+freeUnread || waits < most-size {
					t.Errorf("%d bytes wait, want %d", waits, most)
				}
				if err := c.Notify("x", wire.Payload(`{"pad":"`+strings.Repeat("x", size)+`"}`)); err != ErrFull {
					t.Errorf("a notification: %v", err)
				}

				_, other, askOther := deafCaller(t, room, int64(most))
				answers := bufio.NewReader(other)
				for range 3 { // who reads has room for one line, however long, and for short ones
					askOther(1, 3*size)
					if results, _ := countAnswers(t, answers, 1); results != 1 {
						t.Error("a long answer is refused")
					}
				}
				askOther(10, 1000)
				if results, _ := countAnswers(t, answers, 10); results != 10 {
					t.Errorf("%d of 10 short answers come", results)
				}

				results, refused := countAnswers(t, bufio.NewReader(far), n)
				if results < most/size || refused < n/3 {
					t.Errorf("%d answers come and %d are refused, of %d", results, refused, n)
				}
				synctest.Wait()
				if !room.isEmpty(int64(most)) {
					t.Error("not all is given back")
				}
			})
		})
	}
}

// A connection that ends gives its room back, and so does a notification that is given up.
// holds: security.md#agents-on-this-machine
func TestConnectionsThatEndGiveTheirRoomBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 2 * maxQueueBytes
		room := NewUnreadRoom(most)
		c, _, ask := deafCaller(t, room, int64(most))
		ask(60, 100<<10)
		held := c.queue.heldRoom
		ctx, giveUp := context.WithCancel(t.Context())
		sent := make(chan error)
		go func() { sent <- c.NotifyWhenRoom(ctx, "x", wire.Payload(`{"pad":"`+strings.Repeat("x", 2000)+`"}`)) }()
		synctest.Wait()
		giveUp()
		if err := <-sent; err != context.Canceled || c.queue.heldRoom != held {
			t.Errorf("the notification: %v; %d bytes are held, want %d", err, c.queue.heldRoom, held)
		}
		c.Close()
		synctest.Wait()
		if !room.isEmpty(most) {
			t.Error("not all is given back")
		}
	})
}

// One connection leaves room to others, and who reads takes nothing for long.
func TestOneConnectionLeavesRoomToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most, size = 16 << 20, 100 << 10
		room := NewUnreadRoom(most)
		hog, _, ask := deafCaller(t, room, most/2)
		ask(2*most/size, size)
		if held := hog.queue.heldRoom; held > most/2 || held < most/2-size {
			t.Errorf("%d bytes are held, want %d", held, most/2)
		}
		_, other, askOther := deafCaller(t, room, most/2)
		const n = most/2/size - 1
		askOther(n, size)
		if results, _ := countAnswers(t, bufio.NewReader(other), n); results != n {
			t.Errorf("%d of %d answers come", results, n)
		}
	})
}

// Long lines that find nothing waiting have a room too: one each on very many connections fills no memory.
// holds: security.md#agents-on-this-machine
func TestFirstLinesShareARoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most, size, n = 8 << 20, 1 << 20, 30
		room := NewUnreadRoom(most)
		var ends []net.Conn
		waits := 0
		for range n {
			c, far, ask := deafCaller(t, room, most)
			ask(1, size)
			ends = append(ends, far)
			waits += c.queue.byteCount
		}
		if waits < 2*(most-size) || waits > 2*most+n*(freeUnread+shortLine) {
			t.Errorf("%d bytes wait, want %d", waits, 2*most)
		}
		results, refused := 0, 0
		for _, far := range ends {
			r, f := countAnswers(t, bufio.NewReader(far), 1)
			results, refused = results+r, refused+f
		}
		if results+refused != n || refused < n/3 {
			t.Errorf("%d answers come, %d are refused", results, refused)
		}
		if !room.isEmpty(most) {
			t.Error("not all is given back")
		}
	})
}
