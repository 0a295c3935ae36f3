package daemon

import (
	"runtime"
	"testing"

	"github.com/acpd/acpd/client"
)

// BenchmarkQuery asks through both sockets and both daemons, all in this process.
func BenchmarkQuery(b *testing.B) {
	for _, size := range []struct {
		name  string
		bytes int
	}{{"200B", 200}, {"60KiB", 60 << 10}} {
		b.Run(size.name, func(b *testing.B) {
			desk, laptop := pair(b)
			laptop.agent(client.AttachParams{Name: "reviewer"}, say(`{"summary":"`+long(size.bytes)+`"}`))
			asker := desk.dial()
			p := &client.QueryParams{To: "laptop", Payload: query(long(size.bytes))}
			b.ReportAllocs()
			for b.Loop() {
				var a client.Answer
				if err := asker.call("query", p, &a); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(size.name+"x16", func(b *testing.B) {
			desk, laptop := pair(b)
			laptop.agent(client.AttachParams{Name: "reviewer", MaxConcurrent: 64}, say(`{"summary":"`+long(size.bytes)+`"}`))
			asker := desk.dial()
			p := &client.QueryParams{To: "laptop", Payload: query(long(size.bytes))}
			b.ReportAllocs()
			b.SetParallelism(max(1, 16/runtime.GOMAXPROCS(0)))
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					var a client.Answer
					if err := asker.call("query", p, &a); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}
