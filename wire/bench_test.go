package wire_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/wire"
)

// sizes are payloads of a short question, of a page and of the largest answer
// that the latency goals name.
var sizes = []int{200, 16 << 10, 60 << 10}

func BenchmarkEnvelope(b *testing.B) {
	for _, size := range sizes {
		e := &wire.Envelope{
			V: wire.Version, ID: wire.NewMessageID(), From: identity.ID{1}, To: identity.ID{2}, TS: 1700000000000, Kind: "query",
			Payload: wire.Payload(`{"question":"` + string(bytes.Repeat([]byte("a"), size-15)) + `"}`),
		}
		var out bytes.Buffer
		b.Run(fmt.Sprintf("append/%d", size), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				out.Reset()
				if err := e.Append(&out); err != nil {
					b.Fatal(err)
				}
			}
		})
		out.Reset()
		if err := e.Append(&out); err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("parse/%d", size), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := wire.ParseEnvelope(out.Bytes()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
