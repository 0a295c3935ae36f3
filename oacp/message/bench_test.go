package message

import (
	"strings"
	"testing"
)

// Validating means parsing and judging a file of an ordinary size, and of the largest.
func BenchmarkValidate(b *testing.B) {
	m := full()
	for name, size := range map[string]int{"ordinary": 8, "largest": 20000 / 49} {
		m.Body = strings.Repeat("The body of an ordinary message has a few lines.\n", size)
		data, err := m.Render()
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				d, err := ParseDocument(data)
				if err != nil || d.Validate() != nil {
					b.Fatal(err, d.Validate())
				}
			}
		})
	}
}
