package kinds_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

func BenchmarkCheck(b *testing.B) {
	for _, size := range []int{200, 16 << 10, 60 << 10} {
		row := `{"file":"main.go","line":1234567890123456789,"text":"a line of some length, \"quoted\" as reports are"},`
		fill := strings.Repeat(row, 1+size/len(row))
		for shape, payload := range map[string]string{
			"text": `{"summary":"` + strings.Repeat("a", size) + `"}`,
			"data": `{"summary":"done","data":[` + fill[:len(fill)-1] + `]}`,
		} {
			e := &wire.Envelope{
				V: wire.Version, ID: wire.NewMessageID(), From: identity.ID{1}, To: identity.ID{2}, TS: 1700000000000,
				Kind: kinds.KindResponse, Ref: new(wire.MessageID{1}), Payload: wire.Payload(payload),
			}
			b.Run(fmt.Sprintf("%s/%d", shape, size), func(b *testing.B) {
				b.SetBytes(int64(len(payload)))
				b.ReportAllocs()
				for b.Loop() {
					if _, err := kinds.CheckEnvelope(e); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
