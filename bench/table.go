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

// listJudged lists the ratios that have a target, each where its verdict comes from: the CPU time, if
// the rounds scatter.
func (m *measurement) listJudged() []figure {
	var figures []figure
	for _, p := range pairs {
		for _, c := range m.cells {
			over, under := m.samples[key{p.variant, c}], m.samples[key{p.base, c}]
			t, ok := findTarget(p, c)
			if !ok || len(over) == 0 || len(under) == 0 {
				continue
			}
			latency, throughput, effort := metric(pickP50).summarizeRatios(over, under), metric(pickRate).summarizeRatios(over, under), metric(pickCPU).summarizeRatios(over, under)
			judged := figure{what: "p50", unit: "times", target: t.p50}
			pick := metric(pickP50)
			if t.rate > 0 {
				judged, pick = figure{what: "requests/s", unit: "times", target: t.rate, high: true}, pickRate
			}
			if t.judgeRatios(latency, throughput, effort).byCPU {
				atMost := t.p50
				if t.rate > 0 {
					atMost = 1 / t.rate
				}
				judged, pick = figure{what: "CPU/request, as the rounds of " + judged.what + " scatter", unit: "times", target: atMost}, pickCPU
			}
			judged.group = p.variant + " / " + p.base
			judged.what = fmt.Sprintf("%s, %d in flight: %s", formatSize(c.size), c.conc, judged.what)
			judged.values = pick.divideRounds(over, under)
			figures = append(figures, judged)
		}
	}
	return figures
}
