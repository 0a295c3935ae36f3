package main

import (
	"fmt"
	"io"
	"runtime"
	"strings"
)

// report writes the tables as Markdown.
func (m *measurement) report(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%d rounds of %v per cell, %d CPUs, %s %s/%s. Medians of the rounds, quartiles in brackets.\n\n",
		m.rounds, m.window, runtime.NumCPU(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	m.writeFigures(&b)
	m.writeRatios(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

func (m *measurement) writeFigures(b *strings.Builder) {
	row(b, "payload", "in flight", "variant", "p50 µs", "p99 µs", "requests/s", "CPU µs/request")
	row(b, "---:", "---:", "---", "---:", "---:", "---:", "---:")
	for _, c := range m.cells {
		for _, v := range m.variants {
			s := m.samples[key{v.name, c}]
			row(b, sizeText(c.size), fmt.Sprint(c.conc), v.name,
				metric(p50).of(s).text(0), metric(p99).of(s).text(0), metric(rate).of(s).text(0), metric(cpu).of(s).text(0))
		}
	}
}

// writeRatios writes those pairs of which both variants were measured.
func (m *measurement) writeRatios(b *strings.Builder) {
	head := false
	for _, p := range pairs {
		for _, c := range m.cells {
			over, under := m.samples[key{p.variant, c}], m.samples[key{p.base, c}]
			if len(over) == 0 || len(under) == 0 {
				continue
			}
			if !head {
				head = true
				b.WriteString("\n")
				row(b, "ratio", "payload", "in flight", "p50", "requests/s", "CPU/request", "target", "verdict")
				row(b, "---", "---:", "---:", "---:", "---:", "---:", "---", "---")
			}
			latency, throughput, effort := metric(p50).ratio(over, under), metric(rate).ratio(over, under), metric(cpu).ratio(over, under)
			goal, outcome := "", ""
			if t, ok := targetFor(p, c); ok {
				goal, outcome = t.String(), t.judge(latency, throughput, effort).String()
			}
			row(b, p.variant+" / "+p.base, sizeText(c.size), fmt.Sprint(c.conc),
				latency.text(2), throughput.text(2), effort.text(2), goal, outcome)
		}
	}
}

func row(b *strings.Builder, cells ...string) {
	b.WriteString("| " + strings.Join(cells, " | ") + " |\n")
}

// text is the median with the quartiles behind it.
func (s spread) text(decimals int) string {
	return fmt.Sprintf("%.*f (%.*f–%.*f)", decimals, s.median, decimals, s.q1, decimals, s.q3)
}

func sizeText(bytes int) string {
	if bytes%1024 == 0 {
		return fmt.Sprintf("%d KiB", bytes/1024)
	}
	return fmt.Sprintf("%d B", bytes)
}
