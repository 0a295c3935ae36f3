package main

import (
	"strings"
	"testing"
	"time"
)

func TestReport(t *testing.T) {
	small, large := cell{200, 1}, cell{61440, 16}
	m := measurement{
		plan: plan{
			variants: []variant{{name: "floor"}, {name: "acpd"}},
			cells:    []cell{small, large},
			rounds:   3,
			window:   time.Second,
		},
		samples: map[key][]sample{
			{"floor", small}: {{100, 150, 9000, 200}, {102, 160, 9100, 201}, {98, 140, 8900, 199}},
			{"acpd", small}:  {{130, 190, 7000, 260}, {132, 200, 7100, 262}, {128, 180, 6900, 258}},
			{"floor", large}: {{1000, 2000, 900, 800}, {1000, 2000, 900, 800}, {1000, 2000, 900, 800}},
			{"acpd", large}:  {{2500, 5000, 300, 1700}, {2500, 5000, 300, 1700}, {2500, 5000, 300, 1700}},
		},
	}
	var b strings.Builder
	if err := m.writeReport(&b); err != nil {
		t.Fatal(err)
	}
	_, tables, _ := strings.Cut(b.String(), "\n\n")
	const want = `| payload | in flight | variant | p50 µs | p99 µs | requests/s | CPU µs/request |
| ---: | ---: | --- | ---: | ---: | ---: | ---: |
| 200 B | 1 | floor | 100 (99–101) | 150 (145–155) | 9000 (8950–9050) | 200 (200–200) |
| 200 B | 1 | acpd | 130 (129–131) | 190 (185–195) | 7000 (6950–7050) | 260 (259–261) |
| 60 KiB | 16 | floor | 1000 (1000–1000) | 2000 (2000–2000) | 900 (900–900) | 800 (800–800) |
| 60 KiB | 16 | acpd | 2500 (2500–2500) | 5000 (5000–5000) | 300 (300–300) | 1700 (1700–1700) |

| ratio | payload | in flight | p50 | requests/s | CPU/request | target | verdict |
| --- | ---: | ---: | ---: | ---: | ---: | --- | --- |
| acpd / floor | 200 B | 1 | 1.30 (1.30–1.30) | 0.78 (0.78–0.78) | 1.30 (1.30–1.30) | p50 ≤ 1.40 | met |
| acpd / floor | 60 KiB | 16 | 2.50 (2.50–2.50) | 0.33 (0.33–0.33) | 2.12 (2.12–2.12) | p50 ≤ 2.00 | missed |
`
	if tables != want {
		t.Errorf("report:\n%s\nwant:\n%s", tables, want)
	}
}

func TestReportOfOneVariantHasNoRatios(t *testing.T) {
	m := measurement{
		plan:    plan{variants: []variant{{name: "quic"}}, cells: []cell{{200, 1}}, rounds: 1, window: time.Second},
		samples: map[key][]sample{{"quic", cell{200, 1}}: {{1, 2, 3, 4}}},
	}
	var b strings.Builder
	if err := m.writeReport(&b); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(b.String(), "ratio") {
		t.Errorf("report has ratios of one variant:\n%s", b.String())
	}
}
