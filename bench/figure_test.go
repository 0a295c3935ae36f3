package main

import (
	"strings"
	"testing"
)

func TestReportFigures(t *testing.T) {
	var b strings.Builder
	err := reportFigures(&b, []figure{
		{what: "start", unit: "ms", target: 100, values: []float64{90, 104.96, 300}},
		{what: "memory", unit: "MB", target: 16, values: []float64{16.9}},
		{what: "share", unit: "times", target: 1.02, strict: true, values: []float64{1.0246}},
		{what: "rate", unit: "MiB/s", target: 25, high: true, values: []float64{23.9}},
		{what: "share kept", unit: "times", target: 0.35, high: true, strict: true, values: []float64{0.349}},
		{what: "CPU", unit: "times", target: 1 / 0.65, values: []float64{1.2}},
		{what: "effort", unit: "%", values: []float64{0.0123}},
	})
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(b.String(), "\n\n")
	const want = `| what | figure | values | target | verdict |
| --- | ---: | ---: | ---: | --- |
| start | 105 (97.5–202) ms | 3 | ≤ 100 ms | met within 5 % |
| memory | 16.9 MB | 1 | ≤ 16 MB | missed |
| share | 1.025 times | 1 | ≤ 1.02 times | missed |
| rate | 23.9 MiB/s | 1 | ≥ 25 MiB/s | met within 5 % |
| share kept | 0.349 times | 1 | ≥ 0.35 times | missed |
| CPU | 1.2 times | 1 | ≤ 1.538 times | met |
| effort | 0.0123 % | 1 |  |  |
`
	if table != want {
		t.Errorf("report:\n%s\nwant:\n%s", table, want)
	}
}
