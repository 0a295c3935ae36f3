package peer

import (
	"bytes"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// liveHeap returns the bytes that are in use on the heap after a collection.
func liveHeap() int64 {
	runtime.GC()
	runtime.GC() // what pools held goes with the second
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestDoneWithoutEnd sends done again and again to a connection that is about to
// close: that takes no memory.
func TestDoneWithoutEnd(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		b, h := w.facing(nil)
		c := h.trusted(b)
		c.write(item(t, &wire.Goaway{Code: uint64(closeReplaced)}))
		next[*wire.Done](c)
		before := liveHeap()
		const items = 100_000
		for range items / 1000 {
			c.write(bytes.Repeat(item(t, &wire.Done{}), 1000))
		}
		c.write(item(t, &wire.Ping{N: 1})) // answered when all of them have been read
		next[*wire.Pong](c)
		if grown := liveHeap() - before; grown > 2<<20 {
			t.Errorf("%d items take %d KiB", items, grown>>10)
		}
		if got := c.closed(); got != closeReplaced {
			t.Errorf("close code %d", got)
		}
	})
}

// TestStrangersThatCallAgain says hello with ever new keys, ten times as often as
// the log has lines for: ten lines and events, and after a minute one of each that
// says how many there were.
// holds: security.md#against-strangers
// holds: security.md#the-budget
func TestStrangersThatCallAgain(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		var text lockedBuffer
		b, h := w.facing(func(c *Config) { c.Logger = slog.New(slog.NewTextHandler(&text, nil)) })
		calls := 10 * int(budget.LogLines.Peer)
		for range calls {
			c := h.dial(b, newKey(t))
			c.sendHello(nil)
			if got := c.closed(); got != closeNotTrusted {
				t.Fatalf("close code %d", got)
			}
			time.Sleep(time.Second / provedPerSourcePerSecond) // more often it would be refused
		}
		if n := strings.Count(text.String(), "\n"); n > int(budget.LogLines.Peer) {
			t.Errorf("%d lines of %d calls", n, calls)
		}
		if n := b.saw(EventPending); n > int(budget.LogLines.Peer) {
			t.Errorf("%d events of %d calls", n, calls)
		}
		lines, events := strings.Count(text.String(), "\n"), b.saw(EventPending)
		time.Sleep(2 * time.Minute)
		if n := strings.Count(text.String(), "\n") - lines; n != 1 || !strings.Contains(text.String(), "lines left out") {
			t.Errorf("%d more lines, want one that sums them up: %s", n, text.String())
		}
		b.mu.Lock()
		last := b.events[len(b.events)-1]
		b.mu.Unlock()
		if n := b.saw(EventPending) - events; n != 1 || !strings.Contains(last.Detail, "more like it") {
			t.Errorf("%d more events, want one that sums them up", n)
		}
		if len(b.Pending()) == 0 {
			t.Error("nobody is pending")
		}
	})
}

// lockedBuffer is a log that several goroutines write.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// TestRepliesThatNobodyReads has a peer that takes no byte of any reply: those that
// wait for it keep no other reply, receipt or call from leaving.
// holds: security.md#the-budget
func TestRepliesThatNobodyReads(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		b, h := w.facing(nil)
		key := newKey(t)
		b.knows(key, "planner")
		// Of the connection it takes what a hello needs, which is a quarter of the replies.
		c := h.dialAt(b.Addr(), b, key, identity.ALPN, &quic.Config{InitialConnectionReceiveWindow: 8 << 10, MaxConnectionReceiveWindow: 8 << 10}).greet()
		for range 3 * maxBatch {
			c.openBidi(append([]byte{byte(wire.StreamExchange)}, c.envelope(kinds.KindQuery, `{"question":"`+strings.Repeat("?", 200)+`"}`, nil)...)...).Close()
		}
		time.Sleep(time.Second)
		if n := len(b.received()); n != 3*maxBatch {
			t.Errorf("%d of %d were handled", n, 3*maxBatch)
		}
		conn := b.listConns()[0]
		conn.mu.Lock()
		open := len(conn.inbound)
		conn.mu.Unlock()
		if open > 0 {
			t.Errorf("%d handlers wait for somebody to read", open)
		}
	})
}
