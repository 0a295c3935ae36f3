package main

import (
	"reflect"
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

// What is recorded has the verdicts of the table.
func TestListJudged(t *testing.T) {
	small, many, large := cell{200, 1}, cell{200, 16}, cell{61440, 16}
	m := measurement{
		plan: plan{variants: []variant{{name: "floor"}, {name: "acpd"}}, cells: []cell{small, many, large, {16384, 1}}},
		samples: map[key][]sample{
			{"floor", small}: {{p50: 100, cpu: 200, rate: 9000}, {p50: 100, cpu: 200, rate: 9000}},
			{"acpd", small}:  {{p50: 130, cpu: 260, rate: 7000}, {p50: 132, cpu: 262, rate: 7000}},
			{"floor", many}:  {{p50: 100, cpu: 200, rate: 10000}, {p50: 100, cpu: 200, rate: 10000}},
			{"acpd", many}:   {{p50: 100, cpu: 200, rate: 6000}, {p50: 100, cpu: 200, rate: 6100}},
			{"floor", large}: {{p50: 1000, cpu: 800, rate: 900}, {p50: 1000, cpu: 800, rate: 900}},
			{"acpd", large}:  {{p50: 1000, cpu: 1640, rate: 300}, {p50: 2500, cpu: 1640, rate: 300}},
			// No target:
			{"floor", cell{16384, 1}}: {{p50: 100, cpu: 200, rate: 9000}, {p50: 100, cpu: 200, rate: 9000}},
			{"acpd", cell{16384, 1}}:  {{p50: 100, cpu: 200, rate: 9000}, {p50: 100, cpu: 200, rate: 9000}},
		},
	}
	want := []figure{
		{group: "acpd / floor", what: "200 B, 1 in flight: p50", unit: "times", target: 1.4, values: []float64{1.3, 1.32}},
		{group: "acpd / floor", what: "200 B, 16 in flight: requests/s", unit: "times", target: 0.65, high: true, values: []float64{0.6, 0.61}},
		{group: "acpd / floor", what: "60 KiB, 16 in flight: CPU/request, as the rounds of p50 scatter", unit: "times", target: 2, values: []float64{2.05, 2.05}},
	}
	got := m.listJudged()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("listed:\n%+v\nwant:\n%+v", got, want)
	}
	var b strings.Builder
	if err := m.writeReport(&b); err != nil {
		t.Fatal(err)
	}
	for i, verdict := range []string{"| p50 ≤ 1.40 | met |", "| requests/s ≥ 0.65 | missed |", "| p50 ≤ 2.00 | met (by CPU) |"} {
		if !strings.Contains(b.String(), verdict) || got[i].isMet() != strings.Contains(verdict, "met") {
			t.Errorf("%s: met is %v, and the table has not %q:\n%s", got[i].what, got[i].isMet(), verdict, b.String())
		}
	}
}

// A run must not take its time before it says that what it measures will not be kept.
func TestRecordFlagComesFirst(t *testing.T) {
	if err := runCommand(t.Context(), []string{"-quick", "-record", "some.json"}); err == nil || !strings.Contains(err.Error(), "before everything else") {
		t.Errorf("-record behind another flag: %v", err)
	}
	if err := runCommand(t.Context(), []string{"-record", "nowhere/some.json", "idle"}); err == nil || !strings.Contains(err.Error(), "a folder that is there") {
		t.Errorf("-record into no folder: %v", err)
	}
}
