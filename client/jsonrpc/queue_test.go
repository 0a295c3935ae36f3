package jsonrpc

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/wire"
)

// Small lines that wait share a batch; a big one is queued as it is.
func TestBatches(t *testing.T) {
	small, big := []byte("1234567\n"), []byte(strings.Repeat("x", maxBatch)+"\n")
	o := lineQueue{writing: true}
	o.initQueue(nil, nil)
	for _, text := range [][]byte{small, small, big, small, small, small} {
		if err := o.enqueueAndWrite(t.Context(), identity.ID{}, &lineBatch{text: bytes.Clone(text), lines: 1}, failWhenFull, false); err != nil {
			t.Fatal(err)
		}
	}
	for i, want := range []int{2, 1, 3} {
		if b := o.batches[i]; b.lines != want || bytes.Count(b.text, []byte("\n")) != want {
			t.Errorf("batch %d: %d lines in %d bytes, want %d", i, b.lines, len(b.text), want)
		}
	}
	if o.lineCount != 6 || o.byteCount != 5*len(small)+len(big) {
		t.Errorf("%d lines, %d bytes", o.lineCount, o.byteCount)
	}

	// A batch grows while it is being written.
	o.removeWritten(len(small))
	o.removeWritten(len(small))
	o.removeWritten(len(big))
	o.removeWritten(1)
	o.enqueueAndWrite(t.Context(), identity.ID{}, &lineBatch{text: bytes.Clone(small), lines: 1}, failWhenFull, false)
	if len(o.batches) != 1 || o.lineCount != 4 || o.byteCount != 4*len(small)-1 {
		t.Errorf("%d batches, %d lines, %d bytes", len(o.batches), o.lineCount, o.byteCount)
	}
	if o.removeWritten(o.byteCount); len(o.batches) != 0 || o.lineCount != 0 || o.byteCount != 0 || o.firstWritten != 0 {
		t.Errorf("something is left: %+v", o.batches)
	}
}

// Whatever peers send and however it is written: each one's lines come in their order. The
// line of one of which none waits comes after what was being written, at most a line
// of each other peer, and two batches. Who sends little is never refused.
// holds: security.md#the-budget
func TestTurnsAreFair(t *testing.T) {
	const longest = 100 << 10
	for seed := range uint64(5) {
		r := rand.New(rand.NewPCG(seed, 0))
		o := lineQueue{writing: true}
		o.initQueue(nil, nil)
		type count struct{ sent, came, alone, before int }
		var peers [4]count
		written := 0
		for step := range 2000 {
			if r.IntN(8) > 0 {
				peer := r.IntN(len(peers) - 1)
				if r.IntN(32) == 0 {
					peer = len(peers) - 1 // sends now and then
				}
				p, size := &peers[peer], r.IntN(200)
				if peer < len(peers)-1 && r.IntN(4) == 0 {
					size = r.IntN(longest - 20)
				}
				text := append(fmt.Appendf(nil, "%d %d ", peer, p.sent), make([]byte, size+1)...)
				text[len(text)-1] = '\n'
				if o.enqueueAndWrite(t.Context(), identity.ID{byte(peer)}, &lineBatch{text: text, lines: 1}, failWhenFull, false) == nil {
					if p.sent == p.came {
						p.alone, p.before = p.sent, written
					}
					p.sent++
				} else if peer == len(peers)-1 {
					t.Fatalf("seed %d, step %d: who sends little is refused", seed, step)
				}
				continue
			}
			if len(o.batches) == 0 {
				continue
			}
			n := len(o.batches[0].text)
			for line := range bytes.Lines(o.batches[0].text) {
				var peer, n int
				if _, err := fmt.Sscan(string(line[:min(len(line), 12)]), &peer, &n); err != nil || n != peers[peer].came {
					t.Fatalf("seed %d, step %d: %q came, want line %d (%v)", seed, step, line[:min(len(line), 12)], peers[peer].came, err)
				}
				p := &peers[peer]
				if waited := written - p.before; n == p.alone && waited > len(peers)*longest+2*maxBatch {
					t.Fatalf("seed %d, step %d: a line of %d waited for %d bytes", seed, step, peer, waited)
				}
				p.came++
				written += len(line)
			}
			o.removeWritten(n)
		}
	}
}

// What is sent while a write is under way goes out in one.
func TestLinesGoTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		c := NewConn(near, Options{})
		go c.Run(t.Context())
		for range 100 {
			if err := c.Notify("x", nil); err != nil {
				t.Fatal(err)
			}
		}
		buf := make([]byte, maxBatch)
		reads := 0
		for lines := 0; lines < 100; reads++ {
			n, err := far.Read(buf)
			if err != nil {
				t.Fatal(err)
			}
			lines += bytes.Count(buf[:n], []byte("\n"))
		}
		if reads > 2 {
			t.Errorf("100 lines came in %d writes", reads)
		}
		c.Close()
		far.Close()
	})
}

func TestStalledReaderIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		c := NewConn(near, Options{})
		done := make(chan error)
		go func() { done <- c.Run(t.Context()) }()
		start := time.Now()
		go c.Call(t.Context(), "x", nil, nil)
		if err := <-done; !errors.Is(err, errStalled) || time.Since(start) != stallLimit {
			t.Errorf("got %v after %v", err, time.Since(start))
		}
		far.Close()
	})
}

func TestSlowReaderIsNotDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		c := NewConn(near, Options{})
		go c.Run(t.Context())
		if err := c.Notify("x", nil); err != nil {
			t.Fatal(err)
		}
		var got []byte
		for buf := make([]byte, 3); len(got) == 0 || got[len(got)-1] != '\n'; {
			time.Sleep(4 * time.Second) // on the virtual clock
			n, err := far.Read(buf)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, buf[:n]...)
		}
		if s := string(got); s != `{"jsonrpc":"2.0","method":"x"}`+"\n" {
			t.Errorf("got %s", s)
		}
		c.Close()
		far.Close()
	})
}

// stallingConn has its deadlines soon, and its other end reads a little of what it has beyond them.
type stallingConn struct {
	*net.UnixConn
	reads func()
}

func (c stallingConn) SetWriteDeadline(t time.Time) error {
	if t.IsZero() {
		c.reads()
	} else {
		t = time.Now().Add(time.Millisecond)
	}
	return c.UnixConn.SetWriteDeadline(t)
}

// Linux tells a writer of room when three quarters of the socket's buffer are read. A reader that has
// read less of it is not dropped.
func TestReaderOfALittleIsNotDropped(t *testing.T) {
	near, far := unixPair(t)
	got := 0
	c := NewConn(stallingConn{near.(*net.UnixConn), func() {
		n, _ := far.Read(make([]byte, 64<<10))
		got += n
	}}, Options{})
	done := make(chan error)
	go func() { done <- c.Run(t.Context()) }()
	if err := c.Notify("x", wire.Payload(`{"pad":"`+strings.Repeat("x", 2<<20)+`"}`)); err != nil {
		t.Fatal(err)
	}
	c.queue.waitUntilWritten()
	rest := make([]byte, 1<<20)
	for got < 2<<20 && c.Err() == nil {
		n, err := far.Read(rest)
		if got += n; err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Err(); err != nil {
		t.Errorf("after %d bytes: %v", got, err)
	}
	c.Close()
	<-done
}

func TestFullQueue(t *testing.T) {
	for name, params := range map[string]any{
		"lines": nil,
		"bytes": wire.Payload(`{"pad":"` + strings.Repeat("x", 100<<10) + `"}`),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				near, far := net.Pipe()
				c := NewConn(near, Options{PushBack: true})
				go c.Run(t.Context())
				n := 0
				for c.Notify("x", params) == nil {
					n++
				}
				if err := c.Notify("x", params); err != ErrFull {
					t.Errorf("got %v", err)
				}
				if err := c.Call(t.Context(), "x", params, nil); err != ErrFull {
					t.Errorf("got %v", err)
				}
				want := maxQueueLines
				if params != nil {
					want = maxQueueBytes/(100<<10) + 1
				}
				if n != want {
					t.Errorf("%d lines were queued, want %d", n, want)
				}
				r := bufio.NewReader(far)
				for range n {
					if _, err := r.ReadString('\n'); err != nil {
						t.Fatal(err)
					}
				}
				synctest.Wait()
				if err := c.Notify("x", params); err != nil {
					t.Errorf("there is room again: %v", err)
				}
				c.Close()
				far.Close()
			})
		})
	}
}

func TestFullQueueWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		c := NewConn(near, Options{})
		go c.Run(t.Context())
		for range maxQueueLines {
			c.Notify("x", nil)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := c.Call(ctx, "y", nil, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		sent := make(chan error)
		go func() { sent <- c.Notify("z", nil) }()
		r := bufio.NewReader(far)
		for range maxQueueLines {
			r.ReadString('\n')
		}
		if line, _ := r.ReadString('\n'); !strings.Contains(line, `"z"`) {
			t.Errorf("got %s", line)
		}
		if err := <-sent; err != nil {
			t.Error(err)
		}
		c.Close()
		far.Close()
	})
}
