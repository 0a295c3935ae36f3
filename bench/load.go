package main

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// A cell is one kind of load: so many requests in flight, each with a payload of
// so many bytes.
type cell struct {
	size int
	conc int
}

// newCall makes what one worker calls for each request: it sends the payload,
// waits for the echo and returns it, valid until the next call.
type newCall func() func(payload []byte) ([]byte, error)

// A result is what a driver saw of a cell.
type result struct {
	requests int
	elapsed  time.Duration
	p50, p99 time.Duration
}

// A sample is one cell in one round or turn.
type sample struct {
	p50, p99 float64 // microseconds
	rate     float64 // requests per second
	cpu      float64 // microseconds per request, of the processes whose time was counted
}

func (r result) toSample(cpu time.Duration) sample {
	return sample{
		p50:  toMicros(r.p50),
		p99:  toMicros(r.p99),
		rate: float64(r.requests) / r.elapsed.Seconds(),
		cpu:  toMicros(cpu) / float64(r.requests),
	}
}

func toMicros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// driveLoad runs the orders it reads from in and writes a line for each to out, until in ends.
func driveLoad(in io.Reader, out io.Writer, call newCall) error {
	return answerOrders(in, out, func(order string) (string, error) {
		var c cell
		var rate int
		var window time.Duration
		if _, err := fmt.Sscan(order, &c.size, &c.conc, &rate, &window); err != nil {
			return "", fmt.Errorf("order %q: %w", order, err)
		}
		r, err := c.runLoad(call, window, rate)
		return fmt.Sprint(r.requests, " ", int64(r.elapsed), " ", int64(r.p50), " ", int64(r.p99)), err
	})
}

// writeOrder and parseResult are the parent's side of drive.
func writeOrder(w io.Writer, c cell, window time.Duration, rate int) error {
	_, err := fmt.Fprintln(w, c.size, c.conc, rate, int64(window))
	return err
}

func parseResult(line string) (result, error) {
	var r result
	if _, err := fmt.Sscan(line, &r.requests, &r.elapsed, &r.p50, &r.p99); err != nil {
		return result{}, fmt.Errorf("result %q: %w", line, err)
	}
	return r, nil
}

// runLoad keeps c.conc requests in flight until the window is over, then lets those
// under way finish. With a rate it begins so many a second, as far as c.conc in flight allow.
func (c cell) runLoad(call newCall, window time.Duration, rate int) (result, error) {
	payload := makeQuestionPayload(c.size)
	latencies := make([][]time.Duration, c.conc)
	start := time.Now()
	var begun atomic.Int64
	var workers errgroup.Group
	for i := range c.conc {
		do := call()
		workers.Go(func() error {
			for now := start; now.Sub(start) < window; {
				if rate > 0 {
					time.Sleep(time.Until(start.Add(time.Duration(begun.Add(1)-1) * time.Second / time.Duration(rate))))
				}
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
	return result{
		requests: len(all),
		elapsed:  elapsed,
		p50:      all[len(all)/2],
		p99:      all[len(all)*99/100],
	}, nil
}

const (
	questionHead = `{"question":"`
	questionTail = `","summary":""}`
)

// makeQuestionPayload is the payload of a query and of its response alike: a JSON
// object of exactly size bytes.
func makeQuestionPayload(size int) []byte {
	return []byte(questionHead + strings.Repeat("x", size-len(questionHead)-len(questionTail)) + questionTail)
}
