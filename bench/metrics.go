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
	"slices"
	"time"

	"github.com/acpd/acpd/internal/pace"
)

const (
	metricsRounds = 5
	metricsTurns  = 8 // of each pair of daemons in a round
	metricsWindow = 300 * time.Millisecond
	metricsTarget = 1.02 // times the CPU of daemons without metrics
	metricsRest   = 5    // daemons with, and as many without, whose memory is looked at
	metricsScrape = 5 * time.Second
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
		text = fmt.Sprintf("metrics: {listen: %q, peers: true}\n", h.metricsPath())
	}
	return os.WriteFile(filepath.Join(h.dir, "config.yaml"), []byte(text), 0o600)
}

// scrapeMetrics reads the metrics of the daemon on h, and returns their size.
func (h home) scrapeMetrics(ctx context.Context) (int, error) {
	at := http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", h.metricsPath())
	}}}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1/metrics", nil)
	if err != nil {
		return 0, err
	}
	answer, err := at.Do(r)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = errors.New(answer.Status)
	}
	return len(text), err
}

// benchMetrics measures what metrics cost the daemons that serve them: CPU for a message, and memory
// while they rest.
func benchMetrics(ctx context.Context, out, log io.Writer) error {
	return measureParts(ctx, acpdVariant, out, log,
		part{"CPU for a message", func(f *fleet) ([]figure, error) { return measureMetricsCPU(f, log) }},
		part{"rest", func(f *fleet) ([]figure, error) { return measureMetricsMemory(f, log) }})
}

// measureMetricsCPU has daemons with and without metrics carry the same load in turn, and compares
// the CPU time that they spend on a message.
func measureMetricsCPU(f *fleet, log io.Writer) ([]figure, error) {
	figures := make([]figure, len(metricsCells))
	for i, c := range metricsCells {
		figures[i] = figure{what: fmt.Sprintf("daemons' CPU for a query of %d bytes, %d at a time: with metrics / without", c.size, c.conc), unit: "times", target: metricsTarget}
	}
	for round := range metricsRounds {
		if err := measureMetricsRound(f, round, figures, log); err != nil {
			return nil, err
		}
	}
	return figures, nil
}

func measureMetricsRound(f *fleet, round int, figures []figure, log io.Writer) (err error) {
	var both [2]*fleet // without, with
	defer func() {
		for _, g := range both {
			if g != nil {
				err = errors.Join(err, g.stopAll())
			}
		}
	}()
	for i := range both {
		if both[i], err = startFleet(f.ctx, metricsVariant(i == 1), f.bin); err != nil {
			return err
		}
	}
	for i, c := range metricsCells {
		var cpu [2]time.Duration
		var requests [2]float64
		for turn := range 2 * metricsTurns {
			which := (turn + (turn/2)%2 + round) % 2 // 0 1 1 0 …, and from round to round the other way
			g := both[which]
			if turn < 2 { // warm-up
				if _, err := g.loadCell(c, metricsWindow); err != nil {
					return err
				}
			}
			before, err := g.sumDaemonCPU()
			if err != nil {
				return err
			}
			res, err := g.loadCell(c, metricsWindow)
			if err != nil {
				return err
			}
			after, err := g.sumDaemonCPU()
			if err != nil {
				return err
			}
			cpu[which] += after - before
			requests[which] += float64(res.requests)
		}
		without, with := toMicros(cpu[0])/requests[0], toMicros(cpu[1])/requests[1]
		fmt.Fprintf(log, "  round %d, %d bytes, %d at a time: %.2f µs without, %.2f µs with metrics: %.3f\n", round+1, c.size, c.conc, without, with, with/without)
		figures[i].values = append(figures[i].values, with/without)
	}
	return nil
}

// sumDaemonCPU returns the CPU time that the daemons of the fleet have spent so far.
func (f *fleet) sumDaemonCPU() (sum time.Duration, err error) {
	for _, p := range f.procs {
		if p.stdin != nil { // a role
			continue
		}
		d, err := cpuTime(p.cmd.Process.Pid)
		if err != nil {
			return 0, err
		}
		sum += d
	}
	return sum, nil
}

// measureMetricsMemory looks at daemons with and without metrics that rest together. Those with metrics
// are scraped.
func measureMetricsMemory(f *fleet, log io.Writer) ([]figure, error) {
	const rest = 30 * time.Second
	without := figure{what: fmt.Sprintf("memory of acpd without metrics %v after ready", rest), unit: "MB"}
	with := figure{what: fmt.Sprintf("memory of acpd with metrics, scraped every %v", metricsScrape), unit: "MB"}
	more := figure{what: "– more than without, by the medians", unit: "MB", target: 1}
	effort := figure{what: "CPU time of a scrape", unit: "ms"}
	var measured []home
	for i := range 2 * metricsRest {
		h, err := createHome(f.joinPath(fmt.Sprint("home", i)))
		if err != nil {
			return nil, err
		}
		if err := h.configureMetrics(i%2 == 1); err != nil {
			return nil, err
		}
		if i%2 == 1 {
			measured = append(measured, h)
		}
		if _, err := f.spawnDaemon(h.dir, "--no-mdns"); err != nil {
			return nil, err
		}
	}
	for end := time.Now().Add(rest); time.Now().Before(end); {
		if err := pace.Sleep(f.ctx, metricsScrape); err != nil {
			return nil, err
		}
		for i, h := range measured {
			daemon := f.procs[2*i+1].cmd.Process.Pid
			before, err := cpuTime(daemon)
			if err != nil {
				return nil, err
			}
			size, err := h.scrapeMetrics(f.ctx)
			if err != nil {
				return nil, err
			}
			after, err := cpuTime(daemon)
			if err != nil {
				return nil, err
			}
			effort.values = append(effort.values, toMillis(after-before))
			if i == 0 && len(effort.values) == 1 {
				fmt.Fprintf(log, "  a scrape has %d bytes\n", size)
			}
		}
	}
	for i, p := range f.procs {
		bytes, err := residentMemory(p.cmd.Process.Pid)
		if err != nil {
			return nil, err
		}
		one := &without
		if i%2 == 1 {
			one = &with
		}
		one.values = append(one.values, toMegabytes(bytes))
	}
	fmt.Fprintf(log, "  MB without: %.2f\n  MB with: %.2f\n", slices.Sorted(slices.Values(without.values)), slices.Sorted(slices.Values(with.values)))
	more.values = []float64{summarizeValues(with.values).median - summarizeValues(without.values).median}
	return []figure{without, with, more, effort}, nil
}
