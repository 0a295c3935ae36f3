package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// cellWindow is for how long a cell is measured in one round. A fifth of it precedes as warm-up.
const cellWindow = time.Second

// A cell is one kind of load: so many requests in flight, each with a payload of so many bytes.
type cell struct {
	size int
	conc int
}

func (c cell) String() string { return fmt.Sprintf("%s, %d at a time", formatSize(c.size), c.conc) }

// formatSize writes a number of bytes.
func formatSize(bytes int) string {
	switch {
	case bytes%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", bytes>>20)
	case bytes%(1<<10) == 0:
		return fmt.Sprintf("%d KiB", bytes>>10)
	}
	return fmt.Sprintf("%d B", bytes)
}

// newCall makes what one worker calls for each request: it sends the payload, waits for the echo and
// returns it, valid until the next call.
type newCall func() func(payload []byte) ([]byte, error)

// A result is what the process that asks saw of a cell.
type result struct {
	requests     int
	elapsed, p50 time.Duration
}

// A sample is one cell in one round.
type sample struct {
	p50  float64 // milliseconds
	rate float64 // requests a second
	cpu  float64 // microseconds for a request, of the measured processes
}

func (r result) toSample(cpu time.Duration) sample {
	return sample{
		p50:  toMillis(r.p50),
		rate: float64(r.requests) / r.elapsed.Seconds(),
		cpu:  toMicros(cpu) / float64(r.requests),
	}
}

func toMillis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func toMicros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// driveLoad runs the orders that it reads from in, and writes a line for each to out, until in ends.
func driveLoad(in io.Reader, out io.Writer, call newCall) error {
	orders := bufio.NewScanner(in)
	for orders.Scan() {
		var c cell
		var window time.Duration
		if _, err := fmt.Sscan(orders.Text(), &c.size, &c.conc, &window); err != nil {
			return fmt.Errorf("order %q: %w", orders.Text(), err)
		}
		r, err := c.runLoad(call, window)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintln(out, r.requests, int64(r.elapsed), int64(r.p50)); err != nil {
			return err
		}
	}
	return orders.Err()
}

// writeOrder and parseResult are the parent's side of driveLoad.
func writeOrder(w io.Writer, c cell, window time.Duration) error {
	_, err := fmt.Fprintln(w, c.size, c.conc, int64(window))
	return err
}

func parseResult(line string) (r result, err error) {
	if _, err := fmt.Sscan(line, &r.requests, &r.elapsed, &r.p50); err != nil {
		return result{}, fmt.Errorf("result %q: %w", line, err)
	}
	return r, nil
}

// runLoad keeps c.conc requests in flight until the window is over, then lets those under way finish.
func (c cell) runLoad(call newCall, window time.Duration) (result, error) {
	payload := makePayload(c.size)
	latencies := make([][]time.Duration, c.conc)
	start := time.Now()
	var workers errgroup.Group
	for i := range c.conc {
		do := call()
		workers.Go(func() error {
			for now := start; now.Sub(start) < window; {
				sent := time.Now()
				echo, err := do(payload)
				if err != nil {
					return err
				}
				if !bytes.Equal(echo, payload) {
					return fmt.Errorf("the echo of %d bytes came back as %d other bytes", len(payload), len(echo))
				}
				now = time.Now()
				latencies[i] = append(latencies[i], now.Sub(sent))
			}
			return nil
		})
	}
	if err := workers.Wait(); err != nil {
		return result{}, err
	}
	elapsed := time.Since(start)
	all := slices.Concat(latencies...)
	slices.Sort(all)
	return result{requests: len(all), elapsed: elapsed, p50: all[len(all)/2]}, nil
}

// question is the payload of all requests, and of their answers. As JSON it is the payload of a query
// and of a response alike.
type question struct {
	Question string `json:"question"`
	Summary  string `json:"summary"`
}

const (
	questionHead = `{"question":"`
	questionTail = `","summary":""}`
)

// makePayload makes a question of exactly size bytes.
func makePayload(size int) []byte {
	return []byte(questionHead + strings.Repeat("x", size-len(questionHead)-len(questionTail)) + questionTail)
}
