package peer

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// BenchmarkExchange is a query and a response of the same size between two nodes
// of one process over loopback.
func BenchmarkExchange(b *testing.B) {
	for _, size := range []int{200, 16 << 10, 60 << 10} {
		text := strings.Repeat("x", size)
		reply := kinds.EncodePayload(&kinds.Response{Summary: text})
		payload := kinds.EncodePayload(&kinds.Query{Question: text})
		for _, parallel := range []int{1, 64} {
			b.Run(fmt.Sprintf("size=%d/parallel=%d", size, parallel), func(b *testing.B) {
				from, to := loopbackPair(b, func(c *Config) {
					c.Exchange = func(_ context.Context, env *Passing) (*wire.Envelope, error) {
						return wire.NewReply(env.Envelope, kinds.KindResponse, reply), nil
					}
				})
				from.ask2(to)
				b.SetBytes(int64(2 * size))
				b.ReportAllocs()
				b.ResetTimer()
				each(b, parallel, func() error {
					_, _, err := from.Exchange(context.Background(), to.ID(), &wire.Envelope{Kind: kinds.KindQuery, Payload: payload})
					return err
				})
			})
		}
	}
}

// BenchmarkSend is a notification and its receipt.
func BenchmarkSend(b *testing.B) {
	payload := kinds.EncodePayload(&kinds.Notify{Topic: "build.done"})
	for _, parallel := range []int{1, 64} {
		b.Run(fmt.Sprintf("parallel=%d", parallel), func(b *testing.B) {
			from, to := loopbackPair(b, func(c *Config) {
				c.Message = func(context.Context, *Passing) (wire.ReceiptState, error) { return wire.Handed, nil }
			})
			from.ask2(to)
			b.ReportAllocs()
			b.ResetTimer()
			each(b, parallel, func() error {
				_, err := from.Send(context.Background(), to.ID(), &wire.Envelope{Kind: kinds.KindNotify, Payload: payload}, true)
				return err
			})
		})
	}
}

// each runs f b.N times in parallel goroutines.
func each(b *testing.B, parallel int, f func() error) {
	var workers sync.WaitGroup
	var next atomic.Int64
	for range parallel {
		workers.Go(func() {
			for next.Add(1) <= int64(b.N) {
				if err := f(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	workers.Wait()
}
