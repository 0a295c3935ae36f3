package jsonrpc

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/acpd/acpd/wire"
)

// unixPair returns the two ends of a real unix socket.
func unixPair(t testing.TB) (a, b net.Conn) {
	t.Helper()
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if a, err = net.Dial("unix", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if b, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}

// run runs connections until the test ends.
func run(t testing.TB, conns ...*Conn) {
	for _, c := range conns {
		done := make(chan struct{})
		go func() {
			defer close(done)
			c.Run(context.Background())
		}()
		t.Cleanup(func() { c.Close(); <-done })
	}
}

var payloads = []struct {
	name string
	text wire.Payload
}{
	{"200B", wire.Payload(`{"question":"` + strings.Repeat("a", 185) + `"}`)},
	{"60KiB", wire.Payload(`{"question":"` + strings.Repeat(`The \"quick\" brown fox\njumps. `, 1920) + `"}`)},
	{"60KiB-dense", wire.Payload(`{"question":"q","rows":[` + strings.Repeat(`{"id":12345,"name":"alpha","ok":true,"w":[1,2,3]},`, 1200) + `1]}`)},
}

// BenchmarkRawEcho is the floor: lines of the same length, echoed.
func BenchmarkRawEcho(b *testing.B) {
	for _, p := range payloads {
		b.Run(p.name, func(b *testing.B) {
			near, far := unixPair(b)
			go func() {
				r := bufio.NewReaderSize(far, 128<<10)
				for {
					line, err := r.ReadSlice('\n')
					if err != nil {
						return
					}
					far.Write(line)
				}
			}()
			line := append([]byte(p.text), '\n')
			r := bufio.NewReaderSize(near, 128<<10)
			b.ReportAllocs()
			for b.Loop() {
				near.Write(line)
				if _, err := r.ReadSlice('\n'); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkCall is a query whose answer is its payload, with types that read and write themselves,
// by several callers on one connection. cpu-ns/op is both ends' CPU time, which a
// busy machine changes less than the time that passes.
func BenchmarkCall(b *testing.B) {
	for _, p := range payloads {
		for _, callers := range []int{1, 16, 64} {
			b.Run(fmt.Sprintf("%s/%d", p.name, callers), func(b *testing.B) {
				near, far := unixPair(b)
				caller, answerer := NewConn(near, Options{}), NewConn(far, Options{Handler: echo})
				run(b, caller, answerer)
				params := &question{To: "desk", Payload: p.text}
				var left atomic.Int64
				left.Store(int64(b.N))
				var wg sync.WaitGroup
				b.ReportAllocs()
				b.ResetTimer()
				start := cpuTime(b)
				for range callers {
					wg.Go(func() {
						for left.Add(-1) >= 0 {
							var answer reply
							if err := caller.Call(context.Background(), "query", params, &answer); err != nil {
								b.Error(err)
							}
						}
					})
				}
				wg.Wait()
				b.ReportMetric(float64(cpuTime(b)-start)/float64(b.N), "cpu-ns/op")
			})
		}
	}
}

func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func echo(_ context.Context, _ *Conn, r *Request) {
	var q question
	if err := r.ReadParams(&q); err != nil {
		r.RespondError(err)
		return
	}
	r.Respond(&reply{ID: wire.NewMessageID(), Kind: "response", Payload: q.Payload})
}

func BenchmarkParse(b *testing.B) {
	for _, p := range payloads {
		b.Run(p.name, func(b *testing.B) {
			line := []byte(`{"jsonrpc":"2.0","id":17,"method":"query","params":{"to":"desk","payload":` + string(p.text) + `}}`)
			b.SetBytes(int64(len(line)))
			b.ReportAllocs()
			for b.Loop() {
				m := parsedLines.Get().(*parsedLine)
				if fail := m.parseLine(line); fail != nil {
					b.Fatal(fail)
				}
				var q question
				if err := readScannedValue(m.params, &m.paramsObject, &q, true); err != nil {
					b.Fatal(err)
				}
				m.returnToPool()
			}
		})
	}
}
