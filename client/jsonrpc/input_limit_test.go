package jsonrpc

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
)

// begin writes the beginning of a line to a connection with the limit, and
// returns the near end.
func begin(t *testing.T, all *InputLimit, text string) net.Conn {
	t.Helper()
	near, far := unixPair(t)
	run(t, NewConn(far, Options{MaxLine: 256 << 10, InputLimit: all, Handler: subtract}))
	near.SetDeadline(time.Now().Add(time.Minute)) // instead of a test that hangs
	io.WriteString(near, text)
	return near
}

// ended reads the last line of a connection, and its end.
func ended(t *testing.T, near net.Conn, code string) {
	t.Helper()
	r := bufio.NewReader(near)
	line, err := r.ReadString('\n')
	if err != nil || !strings.Contains(line, `"code":"`+code+`"`) || !strings.Contains(line, "send ") {
		t.Errorf("got %q, %v, want %s", line, err, code)
	}
	if _, err := r.ReadByte(); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the connection lives: %v", err)
	}
}

// Lines without an end hold no more together than there is room for: the one that
// began first goes, and a line that is sent at once is served.
// holds: security.md#agents-on-this-machine
func TestUnfinishedLinesShareARoom(t *testing.T) {
	const most = 1 << 20
	all := NewInputLimit(most)
	all.maxStall, all.maxTime = time.Hour, time.Hour
	half := strings.Repeat("x", 200<<10)
	var open []net.Conn
	var last *PartialInput
	for range 40 {
		open = append(open, begin(t, all, half))
		await.Until(t, "it has begun, after those before", func() bool {
			all.mu.Lock()
			defer all.mu.Unlock()
			newest := last
			for p := range all.holding {
				if newest == nil || p.started.After(newest.started) {
					newest = p
				}
			}
			if newest == last || newest.bytes < len(half)-FreeInput {
				return false
			}
			last = newest
			return true
		})
		if n := all.HeldBytes(); n > most {
			t.Fatalf("%d bytes are held, over %d", n, most)
		}
	}
	for _, c := range open[:30] {
		ended(t, c, "overloaded")
	}
	c := begin(t, all, `{"jsonrpc":"2.0","method":"no such","id":1,"params":{"pad":"`+half+`"}}`+"\n")
	if line, err := bufio.NewReader(c).ReadString('\n'); err != nil || !strings.Contains(line, `"id":1`) {
		t.Errorf("got %q, %v", line, err)
	}
	for _, c := range open[30:] {
		c.Close()
	}
	await.Until(t, "all is given back", func() bool { return all.HeldBytes() == 0 })
}

// What has come to its end when it is cut off is whole, and its connection goes on: what
// it asked for is done, and must not be said to be refused.
func TestWhatIsWholeIsNotCutOff(t *testing.T) {
	all := NewInputLimit(1 << 20)
	var limit time.Time
	whole := all.NewPartialInput(func(at time.Time) error { limit = at; return nil })
	if err := whole.Reserve(1 << 20); err != nil {
		t.Fatal(err)
	}
	late := all.NewPartialInput(func(time.Time) error { return nil })
	held := make(chan error, 1)
	go func() { held <- late.Reserve(1 << 20) }()
	await.Until(t, "the one that is whole is cut off", func() bool {
		all.mu.Lock()
		defer all.mu.Unlock()
		return whole.cut
	})
	whole.Finish()
	if err := await.Receive(t, "the room for the other", held); err != nil || !limit.IsZero() {
		t.Errorf("the other: %v; the deadline is %v", err, limit)
	}
	if err := whole.AllowRead(); err != nil {
		t.Errorf("the next line: %v", err)
	}
	whole.Finish()
	late.Finish()
	if n, leaving := all.HeldBytes(), all.heldByCut; n != 0 || leaving != 0 {
		t.Errorf("%d bytes are held, %d of them leave", n, leaving)
	}
}

// Where what was cut off does not go, as while its connection is busy with something
// else, nobody waits for the room without end.
// holds: security.md#agents-on-this-machine
func TestRoomThatIsNotGivenBack(t *testing.T) {
	all := NewInputLimit(FreeInput)
	all.maxStall = 20 * time.Millisecond
	still := func(time.Time) error { return nil }
	first, second := all.NewPartialInput(still), all.NewPartialInput(still)
	if err := first.Reserve(2 * FreeInput); err != nil {
		t.Fatal(err)
	}
	if e := kinds.AsError(second.Reserve(2 * FreeInput)); e.Code != kinds.Overloaded || e.RetryAfterMS == 0 {
		t.Errorf("there was no room, and the error is %v", e)
	}
	first.Finish()
	second.Finish()
	if n := all.HeldBytes(); n != 0 {
		t.Errorf("%d bytes are held in the end", n)
	}
	if err := second.Reserve(2 * FreeInput); err != nil {
		t.Errorf("room that was given back: %v", err)
	}
}

// A line that has begun goes on, and ends. A connection on which none has begun waits
// as long as it likes.
// holds: security.md#agents-on-this-machine
func TestALineThatStandsStillEnds(t *testing.T) {
	stalls := NewInputLimit(1 << 20)
	stalls.maxStall = 50 * time.Millisecond
	idle := begin(t, stalls, "\n")
	ended(t, begin(t, stalls, `{"jsonrpc"`), "timeout")
	ended(t, begin(t, stalls, strings.Repeat("x", 100<<10)), "timeout")

	trickles := NewInputLimit(1 << 20)
	trickles.maxTime = 100 * time.Millisecond
	slow := begin(t, trickles, "{")
	ctx, cancel := context.WithCancel(t.Context())
	trickle := make(chan struct{})
	go func() {
		defer close(trickle)
		for ctx.Err() == nil {
			if _, err := io.WriteString(slow, " "); err != nil {
				return
			}
			time.Sleep(time.Millisecond) // the pace of who trickles
		}
	}()
	ended(t, slow, "timeout")
	cancel()
	<-trickle

	fmt.Fprintln(idle, `{"jsonrpc":"2.0","method":"no such","id":7}`)
	if line, err := bufio.NewReader(idle).ReadString('\n'); err != nil || !strings.Contains(line, `"id":7`) {
		t.Errorf("got %q, %v", line, err)
	}
}
