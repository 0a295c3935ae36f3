package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/acpd/acpd/internal/pace"
)

const (
	metricsRounds = 15 // so many, because the bound is small beside what two daemons differ by
	metricsTurns  = 8  // of each pair of daemons in a round
	metricsWindow = 150 * time.Millisecond
	metricsTarget = 1.02 // times the CPU of daemons without metrics
	metricsRest   = 5    // daemons with, and as many without, whose memory is looked at

	metricsScrapes = 8 // as many as Prometheus makes between two runs of the garbage collector
	metricsPause   = 1100 * time.Millisecond
)

// metricsCells are the loads for which it is measured what metrics cost.
var metricsCells = []cell{{200, 1}, {200, 16}, {16384, 16}}

// metricsVariant is acpdVariant; if measured, daemons that serve metrics.
func metricsVariant(measured bool) variant {
	v := acpdVariant
	v.start = func(f *fleet) error {
		near, far, err := createPair(f)
		if err != nil {
			return err
		}
		for _, h := range []home{near, far} {
			if err := h.configureMetrics(measured); err != nil {
				return err
			}
		}
		if err := f.spawnPairOn(near, far); err != nil {
			return err
		}
		if _, err := f.spawnRole("answerer", far.socketPath()); err != nil {
			return err
		}
		_, err = f.spawnRole("asker", near.socketPath())
		return err
	}
	return v
}

func (h home) metricsPath() string { return filepath.Join(h.dir, "metrics.sock") }

// configureMetrics makes the daemon that is started next on h serve metrics, or not.
func (h home) configureMetrics(measured bool) error {
	text := ""
	if measured {
		text = fmt.Sprintf("metrics: {listen: %q}\n", h.metricsPath())
	}
	return os.WriteFile(filepath.Join(h.dir, "config.yaml"), []byte(text), 0o600)
}

// scrapeMetrics reads the metrics of the daemon on h.
func (h home) scrapeMetrics(ctx context.Context) error {
	at := http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", h.metricsPath())
	}}}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1/metrics", nil)
	if err != nil {
		return err
	}
	answer, err := at.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	_, err = io.Copy(io.Discard, answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = errors.New(answer.Status)
	}
	return err
}

// benchMetrics measures what metrics cost the daemons that serve them: CPU for a message, and memory
// while they rest.
func benchMetrics(ctx context.Context, to *report, log io.Writer) error {
	return measureParts(ctx, acpdVariant, to, log,
		part{"CPU for a message", func(f *fleet) ([]figure, error) { return measureMetricsCPU(f, log) }},
		part{"rest", func(f *fleet) ([]figure, error) { return measureMetricsMemory(f, log) }})
}

// measureMetricsCPU has daemons with and without metrics carry the same load in turn, and compares
// the CPU time that they spend on a message.
func measureMetricsCPU(f *fleet, log io.Writer) ([]figure, error) {
	figures := make([]figure, len(metricsCells))
	for i, c := range metricsCells {
		figures[i] = figure{what: fmt.Sprintf("daemons' CPU for a query of %d bytes, %d at a time: with metrics / without", c.size, c.conc), unit: "times", target: metricsTarget, strict: true, change: true}
	}
	for round := range metricsRounds {
		if err := measureMetricsRound(f, round, figures, log); err != nil {
			return nil, err
		}
	}
	return figures, nil
}

func measureMetricsRound(f *fleet, round int, figures []figure, log io.Writer) (err error) {
	both, err := startTogether(f, []variant{metricsVariant(false), metricsVariant(true)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stopTogether(both)) }()
	for i, c := range metricsCells {
		samples, err := takeTurns(both, c, metricsTurns, round, metricsWindow)
		if err != nil {
			return err
		}
		without, with := samples[0].cpu, samples[1].cpu
		fmt.Fprintf(log, "  round %d, %d bytes, %d at a time: %.2f µs without, %.2f µs with metrics: %.3f\n", round+1, c.size, c.conc, without, with, with/without)
		figures[i].values = append(figures[i].values, with/without)
	}
	return nil
}

// measureMetricsMemory looks at daemons with and without metrics that rest together, and then scrapes
// those with metrics.
func measureMetricsMemory(f *fleet, log io.Writer) ([]figure, error) {
	var off, on memoryGroup
	for range metricsRest {
		for _, group := range []*memoryGroup{&off, &on} {
			if err := group.spawn(f, func(h home) error { return h.configureMetrics(group == &on) }); err != nil {
				return nil, err
			}
		}
	}
	if err := pace.Sleep(f.ctx, idleTime); err != nil {
		return nil, err
	}
	without, err := off.measure(residentMemory, fmt.Sprintf("memory of acpd without metrics %v after ready", idleTime))
	if err != nil {
		return nil, err
	}
	with, err := on.measure(residentMemory, "memory of acpd with metrics")
	if err != nil {
		return nil, err
	}
	// The first scrape has the kernel map pages of the program, as any call does.
	before, err := on.measure(anonymousMemory, fmt.Sprintf("own memory of acpd with metrics, before %d scrapes", metricsScrapes))
	if err != nil {
		return nil, err
	}
	effort := figure{what: "CPU time of a scrape", unit: "ms"}
	for range metricsScrapes {
		if err := pace.Sleep(f.ctx, metricsPause); err != nil {
			return nil, err
		}
		for i, h := range on.homes {
			began, err := cpuTime(on.pids[i])
			if err != nil {
				return nil, err
			}
			if err := h.scrapeMetrics(f.ctx); err != nil {
				return nil, err
			}
			ended, err := cpuTime(on.pids[i])
			if err != nil {
				return nil, err
			}
			effort.values = append(effort.values, toMillis(ended-began))
		}
	}
	after, err := on.measure(anonymousMemory, "own memory of acpd with metrics, after them")
	if err != nil {
		return nil, err
	}
	for _, one := range []figure{without, with, before, after} {
		fmt.Fprintf(log, "  %s: %.2f MB\n", one.what, one.values)
	}
	median := func(f figure) float64 { return summarizeValues(f.values).median }
	more := figure{what: "– with metrics more than without", unit: "MB", target: 1, values: []float64{max(median(with)-median(without), 0)}}
	grown := figure{what: "– more than before", unit: "MB", target: 1, values: []float64{max(median(after)-median(before), 0)}}
	return []figure{without, with, more, before, after, grown, effort}, nil
}
