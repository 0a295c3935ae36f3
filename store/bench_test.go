package store

import (
	"context"
	"sync/atomic"
	"testing"
)

func benchmarkWrite(b *testing.B, durable bool, goroutines int) {
	db := open(b)
	body := make([]byte, 200)
	var n atomic.Int64
	b.SetParallelism(goroutines)
	b.ReportAllocs()
	b.ResetTimer()
	work := func(next func() bool) {
		for next() {
			err := db.Write(context.Background(), durable, func(tx *Tx) error {
				_, err := tx.Exec("INSERT INTO t (n, body) VALUES (?, ?)", n.Add(1), body)
				return err
			})
			if err != nil {
				b.Error(err)
			}
		}
	}
	if goroutines == 1 {
		work(b.Loop)
	} else {
		b.RunParallel(func(pb *testing.PB) { work(pb.Next) })
	}
}

func BenchmarkDurableAlone(b *testing.B) { benchmarkWrite(b, true, 1) }
func BenchmarkDurable256(b *testing.B)   { benchmarkWrite(b, true, 128) }
func BenchmarkProcessAlone(b *testing.B) { benchmarkWrite(b, false, 1) }
func BenchmarkProcess256(b *testing.B)   { benchmarkWrite(b, false, 128) }

func BenchmarkRead(b *testing.B) {
	db := open(b)
	for b.Loop() {
		err := db.Read(context.Background(), func(tx *Tx) error {
			var n int
			return tx.QueryRow("SELECT count(*) FROM sqlite_schema").Scan(&n)
		})
		if err != nil {
			b.Fatal(err)
		}
	}
}
