package main

import (
	"fmt"
	"io"
	"runtime"
	"strings"
)

// writeReport writes the tables as Markdown.
func (m *measurement) writeReport(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%d rounds of %v per cell, %d CPUs, %s %s/%s. Medians of the rounds, quartiles in brackets.\n\n",
		m.rounds, m.window, runtime.NumCPU(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	m.writeFigures(&b)
	m.writeRatios(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

func (m *measurement) writeFigures(b *strings.Builder) {
	writeRow(b, "payload", "in flight", "variant", "p50 µs", "p99 µs", "requests/s", "CPU µs/request")
	writeRow(b, "---:", "---:", "---", "---:", "---:", "---:", "---:")
	for _, c := range m.cells {
		for _, v := range m.variants {
			s := m.samples[key{v.name, c}]
			writeRow(b, formatSize(c.size), fmt.Sprint(c.conc), v.name,
				metric(pickP50).summarizeRounds(s).format(0), metric(pickP99).summarizeRounds(s).format(0), metric(pickRate).summarizeRounds(s).format(0), metric(pickCPU).summarizeRounds(s).format(0))
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
				writeRow(b, "ratio", "payload", "in flight", "p50", "requests/s", "CPU/request", "target", "verdict")
				writeRow(b, "---", "---:", "---:", "---:", "---:", "---:", "---", "---")
			}
			latency, throughput, effort := metric(pickP50).summarizeRatios(over, under), metric(pickRate).summarizeRatios(over, under), metric(pickCPU).summarizeRatios(over, under)
			goal, outcome := "", ""
			if t, ok := findTarget(p, c); ok {
				goal, outcome = t.String(), t.judgeRatios(latency, throughput, effort).String()
			}
			writeRow(b, p.variant+" / "+p.base, formatSize(c.size), fmt.Sprint(c.conc),
				latency.format(2), throughput.format(2), effort.format(2), goal, outcome)
		}
	}
}

func writeRow(b *strings.Builder, cells ...string) {
	b.WriteString("| " + strings.Join(cells, " | ") + " |\n")
}

// format is the median with the quartiles behind it.
func (s spread) format(decimals int) string {
	return fmt.Sprintf("%.*f (%.*f–%.*f)", decimals, s.median, decimals, s.q1, decimals, s.q3)
}

func formatSize(bytes int) string {
	if bytes%1024 == 0 {
		return fmt.Sprintf("%d KiB", bytes/1024)
	}
	return fmt.Sprintf("%d B", bytes)
}
