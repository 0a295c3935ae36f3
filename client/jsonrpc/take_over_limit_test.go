package jsonrpc

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// What comes on a connection that was taken over is not counted among unfinished lines, nor bounded by their time.
func TestTakeOverLeavesTheInputLimit(t *testing.T) {
	limit := NewInputLimit(FreeInput)
	limit.maxStall, limit.maxTime = 50*time.Millisecond, 100*time.Millisecond
	for range 5 {
		near, far := unixPair(t)
		run(t, NewConn(far, Options{Handler: turnToEcho, InputLimit: limit}))
		if err := CallOnly(near, "echo", nil, nil); err != nil {
			t.Fatal(err)
		}
		sent := strings.Repeat("x", 4*FreeInput)
		go func() {
			io.WriteString(near, sent)
			time.Sleep(2 * limit.maxTime) // longer than a line may take
			io.WriteString(near, sent)
			near.(*net.UnixConn).CloseWrite()
		}()
		got, err := io.ReadAll(near)
		if err != nil || len(got) != 2*len(sent) {
			t.Fatalf("%d bytes came back: %v", len(got), err)
		}
		if n := limit.HeldBytes(); n != 0 {
			t.Errorf("%d bytes are held", n)
		}
	}
}
