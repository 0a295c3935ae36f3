package pipe

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
)

// bubble runs a link in a bubble. The clock is virtual: a sleep ends when all else waits, so what is
// due by then has happened.
func bubble(t *testing.T, test func(t *testing.T, l *Link, told *observer)) {
	synctest.Test(t, func(t *testing.T) {
		l, told := NewLink(Options{}), &observer{}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); l.Run(ctx, told) }()
		synctest.Wait()
		test(t, l, told)
		cancel()
		<-ended
		l.Close()
	})
}

// join has a pipe come in, and returns its other end and what Join returns.
func join(l *Link) (net.Conn, <-chan error) {
	near, far := net.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- l.Join(context.Background(), func() (net.Conn, error) { return far, nil }) }()
	return near, ended
}

func TestJoin(t *testing.T) {
	bubble(t, func(t *testing.T, l *Link, told *observer) {
		near, ended := join(l)
		in := bufio.NewReader(near)
		io.WriteString(near, "acp-pipe 1\n\x00\x03abc")
		if line, err := in.ReadString('\n'); err != nil || line != "acp-pipe 1\n" {
			t.Fatalf("it says %q, %v", line, err)
		}
		b := make([]byte, 100)
		n, from, err := l.ReadFrom(b)
		if err != nil || string(b[:n]) != "abc" || from.String() != "pipe:in-1" || l.Sender(from) != (identity.ID{}) {
			t.Fatalf("%q from %v, %v", b[:n], from, err)
		}
		if !slices.Equal(l.Pipes(), []string{"pipe:in-1"}) {
			t.Errorf("the pipes are %q", l.Pipes())
		}
		l.WriteTo([]byte("defg"), from)
		if _, err := io.ReadFull(in, b[:6]); err != nil || string(b[:6]) != "\x00\x04defg" {
			t.Errorf("%q comes out, %v", b[:6], err)
		}
		near.Close()
		if err := <-ended; err != nil {
			t.Errorf("Join: %v", err)
		}
		if !slices.Equal(told.list(), []string{"pipe:in-1"}) {
			t.Errorf("told %q", told.list())
		}
		// The number is not used again.
		near, _ = join(l)
		io.WriteString(near, hello+"\x00\x01x")
		bufio.NewReader(near).ReadString('\n')
		if _, from, _ := l.ReadFrom(b); from.String() != "pipe:in-2" {
			t.Errorf("the next is %s", from)
		}
		near.Close()
	})
}

// The answer has the lower version of the two: a later daemon can dial an earlier one.
func TestJoinAnswersWithLowerVersion(t *testing.T) {
	bubble(t, func(t *testing.T, l *Link, _ *observer) {
		near, _ := join(l)
		io.WriteString(near, "acp-pipe 7\n")
		if line, _ := bufio.NewReader(near).ReadString('\n'); line != hello {
			t.Errorf("it says %q", line)
		}
		near.Close()
	})
}

// holds: security.md#against-strangers
func TestJoinEnds(t *testing.T) {
	for _, test := range []struct {
		name, sent string
		after      time.Duration // that pass
		word       string
		told       bool
	}{
		{"nothing", "", 15 * time.Second, "nothing has come for 15s", false},
		{"half a preamble", "acp-", 15 * time.Second, "nothing has come for 15s", false},
		{"banner", "GET / HTTP/1.1\r\n", 0, "printed something else before", false},
		{"silence", hello + "\x00\x01a", time.Minute, "nothing has come for 1m0s", true},
		{"half a frame and silence", hello + "\x00", time.Minute, "nothing has come for 1m0s", true},
		{"empty packet", hello + "\x00\x00", 0, "a packet of 0 bytes", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, l *Link, told *observer) {
				near, ended := join(l)
				go io.Copy(io.Discard, near)
				began := time.Now()
				io.WriteString(near, test.sent)
				err := <-ended
				if err == nil || !strings.Contains(err.Error(), test.word) {
					t.Errorf("Join: %v", err)
				}
				if took := time.Since(began); took < test.after || took > test.after+5*time.Second {
					t.Errorf("after %v", took)
				}
				if got := len(told.list()) > 0; got != test.told {
					t.Errorf("told %q", told.list())
				}
				near.Close()
			})
		})
	}
}

func TestJoinedStaysWhilePacketsCome(t *testing.T) {
	bubble(t, func(t *testing.T, l *Link, told *observer) {
		near, ended := join(l)
		go io.Copy(io.Discard, near)
		io.WriteString(near, hello)
		for range 200 {
			io.WriteString(near, "\x00\x01a")
			l.ReadFrom(make([]byte, 10))
			time.Sleep(6 * time.Second)
		}
		if len(l.Pipes()) != 1 {
			t.Errorf("it has ended: %v", <-ended)
		}
		near.Close()
		<-ended
	})
}

// holds: security.md#against-strangers
func TestJoinedAreBounded(t *testing.T) {
	bubble(t, func(t *testing.T, l *Link, _ *observer) {
		var all []net.Conn
		var ends []<-chan error
		for range maxJoined {
			near, ended := join(l)
			all, ends = append(all, near), append(ends, ended)
		}
		synctest.Wait()
		taken := false
		err := l.Join(t.Context(), func() (net.Conn, error) { taken = true; return nil, io.EOF })
		if e, ok := errors.AsType[*kinds.Error](err); !ok || e.Code != kinds.Overloaded || taken {
			t.Errorf("one more: %v", err)
		}
		all[0].Close()
		<-ends[0]
		near, ended := join(l)
		go io.Copy(io.Discard, near)
		io.WriteString(near, hello)
		synctest.Wait()
		if !slices.Equal(l.Pipes(), []string{"pipe:in-33"}) {
			t.Errorf("after one has ended: %q", l.Pipes())
		}
		// A connection that cannot be taken keeps no place.
		for _, c := range append(all[1:], near) {
			c.Close()
		}
		for _, e := range append(ends[1:], ended) {
			<-e
		}
		for range 2 * maxJoined {
			if err := l.Join(t.Context(), func() (net.Conn, error) { return nil, io.EOF }); err != io.EOF {
				t.Fatalf("Join: %v", err)
			}
		}
	})
}

func TestJoinEndsWithContext(t *testing.T) {
	bubble(t, func(t *testing.T, l *Link, told *observer) {
		near, far := net.Pipe()
		go io.Copy(io.Discard, near)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- l.Join(ctx, func() (net.Conn, error) { return far, nil }) }()
		io.WriteString(near, hello)
		synctest.Wait()
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Join: %v", err)
		}
		if _, err := near.Write([]byte("x")); err == nil {
			t.Error("the connection stays open")
		}
	})
}

// A pipe that sends as fast as it can takes turns with the others.
func TestPipesTakeTurns(t *testing.T) {
	bubble(t, func(t *testing.T, l *Link, _ *observer) {
		flood, _ := join(l)
		io.WriteString(flood, hello)
		bufio.NewReader(flood).ReadString('\n')
		go func() {
			for {
				if _, err := io.WriteString(flood, strings.Repeat("\x00\x01f", 100)); err != nil {
					return
				}
			}
		}()
		synctest.Wait() // all queues are full of it
		calm, _ := join(l)
		io.WriteString(calm, hello)
		bufio.NewReader(calm).ReadString('\n')
		go io.WriteString(calm, "\x00\x01c")
		synctest.Wait()
		b := make([]byte, 10)
		for i := 0; ; i++ {
			n, _, err := l.ReadFrom(b)
			if err != nil {
				t.Fatal(err)
			}
			if string(b[:n]) == "c" {
				if i > maxReceived+2 {
					t.Errorf("%d packets of the flood went before", i)
				}
				break
			}
		}
		flood.Close()
		calm.Close()
	})
}

// A caller of Open whose time is over is told so, also if it was the only one that waited and its leaving settles the
// pipe.
func TestOpenUntilContextEnds(t *testing.T) {
	bubble(t, func(t *testing.T, l *Link, _ *observer) {
		ctx, cancel := context.WithCancel(t.Context())
		argv := []string{"silent"}
		l.options.Command = func(identity.ID) (string, []string) {
			cancel() // after Open has begun
			return "build", argv
		}
		addr := newDialAddr("build", identity.ID{1})
		l.mu.Lock()
		p, err := l.addPipe(addr, func(p *pipe) {
			<-p.ctx.Done()
			l.removePipe(p)
		})
		end := p.cancel
		p.argv, p.cancel = argv, func(why error) { // as if its task settled it at once
			if p.settled.Err() == nil {
				p.settle(why)
			}
			end(why)
		}
		l.mu.Unlock()
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := l.Open(ctx, addr); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}
