package operate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/internal/app/cli/ui"
	"github.com/acpd/acpd/internal/pace"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// Bounds of a benchmark, so that it harms neither side.
const (
	maxBenchPings       = 100_000 // of one size
	maxBenchTime        = time.Minute
	maxBenchConcurrency = 16
	maxBenchSizes       = 16
	maxBenchFailures    = 5 // in a row, until a size is given up

	shortestRefusalPause = 100 * time.Millisecond
	longestRefusalPause  = 10 * time.Second
)

// benchPlan says what acpctl bench does for each size.
type benchPlan struct {
	peer        string
	count       int           // pings; at most maxBenchPings
	duration    time.Duration // at most maxBenchTime
	concurrency int
}

// benchRow is what was measured with pings of one size. Its times are in microseconds.
type benchRow struct {
	Peer           string       `json:"peer"`
	Size           uint64       `json:"size"` // bytes of padding in a ping
	Concurrency    int          `json:"concurrency"`
	Answered       int          `json:"answered"`
	Lost           int          `json:"lost"`    // no answer came
	Refused        int          `json:"refused"` // the peer had too much to do, or its rate was used up
	ElapsedUS      int64        `json:"elapsed_us"`
	MinUS          uint64       `json:"min_us"`
	P50US          uint64       `json:"p50_us"`
	P90US          uint64       `json:"p90_us"`
	P99US          uint64       `json:"p99_us"`
	MaxUS          uint64       `json:"max_us"`
	PerSecond      float64      `json:"per_second"`       // answers
	BytesPerSecond float64      `json:"bytes_per_second"` // of padding that was answered
	Error          *kinds.Error `json:"error,omitzero"`   // why it ended early
}

func (v *verbs) newBenchCmd() *cobra.Command {
	var sizes string
	p := benchPlan{}
	cmd := &cobra.Command{
		Use:   "bench PEER",
		Short: "Measure latency and throughput to a peer",
		Example: `  acpctl bench desk
  acpctl bench desk -n 1000 --size 0,16k --concurrency 8
  acpctl bench desk --duration 10s --json`,
		Long: `Sends pings to the daemon of a peer, for each size a number or a time of them, and prints a row
of a table for each size. SIZE is the padding that a ping carries there; nothing of it comes
back. MIN to MAX are times from daemon to daemon and back, without agents; P99 is the time
that 99 of 100 answers kept. PER SECOND and BYTES/S are what came through this daemon.
Through the agents' socket there is no padding.

Each size takes a minute at most. If the peer refuses pings, since it has too much to do or
by its limits.rate, bench waits as long as the peer says, and counts them as REFUSED.
After 5 failures in a row it gives a size up. An interrupt prints what there is. Exits 0 if
every size was measured to its end.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			flags := cmd.Flags()
			p.peer = args[0]
			switch {
			case p.count < 1 || p.count > maxBenchPings:
				return frame.UsageErrorf("--count: expected 1 to %d", maxBenchPings)
			case p.concurrency < 1 || p.concurrency > maxBenchConcurrency:
				return frame.UsageErrorf("--concurrency: expected 1 to %d", maxBenchConcurrency)
			case flags.Changed("count") && flags.Changed("duration"):
				return frame.UsageErrorf("--count and --duration: leave one of them out")
			case !flags.Changed("duration"):
				p.duration = maxBenchTime
			case p.duration < time.Millisecond || p.duration > maxBenchTime:
				return frame.UsageErrorf("--duration: expected a duration of 1ms to %s", kinds.FormatDuration(maxBenchTime))
			default:
				p.count = maxBenchPings
			}
			if v.AsGuest && !flags.Changed("size") {
				sizes = "0"
			}
			all, err := parseSizes(sizes)
			if err != nil {
				return err
			}
			return v.bench(cmd.Context(), p, all)
		},
	}
	f := cmd.Flags()
	f.IntVarP(&p.count, "count", "n", 100, "pings of each size")
	f.DurationVar(&p.duration, "duration", 0, "how long pings of each size are sent, at most 1m, instead of --count")
	f.StringVar(&sizes, "size", "0,1k,64k", "bytes of padding, one or several, like 0,512,64k")
	f.IntVar(&p.concurrency, "concurrency", 1, "how many pings are under way at a time, at most 16")
	return cmd
}

// parseSizes returns the sizes in a list like 0,512,64k.
func parseSizes(list string) (sizes []uint64, err error) {
	for word := range strings.SplitSeq(list, ",") {
		digits, unit := strings.ToLower(strings.TrimSpace(word)), uint64(1)
		if kilo, ok := strings.CutSuffix(digits, "k"); ok {
			digits, unit = kilo, 1<<10
		} else if mega, ok := strings.CutSuffix(digits, "m"); ok {
			digits, unit = mega, 1<<20
		}
		n, err := strconv.ParseUint(digits, 10, 32)
		if err != nil {
			return nil, frame.UsageErrorf("--size: %.64q: expected numbers of bytes, like 0,512,64k", word)
		}
		if n*unit > wire.MaxMaxMessage {
			return nil, frame.UsageErrorf("--size: %.64s: no message is larger than %d bytes", word, wire.MaxMaxMessage)
		}
		sizes = append(sizes, n*unit)
	}
	if len(sizes) > maxBenchSizes {
		return nil, frame.UsageErrorf("--size: %d are too many: at most %d", len(sizes), maxBenchSizes)
	}
	return sizes, nil
}

// bench measures each size and prints a row for it. If nobody answers at all it returns that error.
func (v *verbs) bench(ctx context.Context, p benchPlan, sizes []uint64) error {
	// The connection is there for the rest then. A peer that refuses is there too.
	_, err := v.Daemon.Ping(ctx, client.PingParams{To: p.peer})
	if e, ok := errors.AsType[*kinds.Error](err); err != nil && (!ok || e.Code != kinds.Overloaded) {
		return err
	}
	var rows []*benchRow
	var failed error
	for _, size := range sizes {
		row := v.measureSize(ctx, p, size)
		rows = append(rows, row)
		if row.Error != nil && failed == nil {
			failed = row.Error
		}
		if v.JSON {
			if err := v.PrintJSON(row); err != nil {
				return err
			}
		}
		if ctx.Err() != nil || row.Error != nil && row.Error.Code == kinds.DaemonUnavailable {
			break
		}
	}
	if !v.JSON {
		v.printBench(rows)
	}
	switch {
	case ctx.Err() != nil:
		return frame.Exit(frame.ExitInterrupted)
	case failed != nil:
		_, code := v.ClassifyError(ctx, failed)
		return frame.Exit(code)
	}
	return nil
}

// printBench prints the rows of a benchmark, and why sizes were given up.
func (v *verbs) printBench(rows []*benchRow) {
	head := []string{"SIZE", "AT ONCE", "ANSWERED", "LOST", "REFUSED", "MIN", "P50", "P90", "P99", "MAX", "PER SECOND", "BYTES/S"}
	var lines [][]string
	for _, r := range rows {
		line := []string{strconv.FormatUint(r.Size, 10), strconv.Itoa(r.Concurrency), strconv.Itoa(r.Answered), strconv.Itoa(r.Lost), strconv.Itoa(r.Refused)}
		for _, us := range []uint64{r.MinUS, r.P50US, r.P90US, r.P99US, r.MaxUS} {
			said := "-"
			if r.Answered > 0 {
				said = ui.FormatMilliseconds(us)
			}
			line = append(line, said)
		}
		lines = append(lines, append(line, fmt.Sprintf("%.0f", r.PerSecond), fmt.Sprintf("%.0f", r.BytesPerSecond)))
	}
	v.PrintTable(head, lines)
	for _, r := range rows {
		if r.Error != nil {
			why := client.Line(strings.TrimPrefix(r.Error.Message, "pad: "))
			if r.Error.From != "" {
				why = client.Line(r.Peer) + " says: " + why
			}
			v.Warn("%d bytes: ended early: %s", r.Size, why)
		}
	}
}

// measureSize sends pings of one size and returns what it measured, also if ctx ends meanwhile.
func (v *verbs) measureSize(ctx context.Context, p benchPlan, size uint64) *benchRow {
	ctx, cancel := context.WithTimeout(ctx, p.duration)
	defer cancel()
	m := &benchMeter{left: p.count, end: cancel}
	began := time.Now()
	var workers sync.WaitGroup
	for range p.concurrency {
		workers.Go(func() {
			for m.begin(ctx) {
				answer, err := v.Daemon.Ping(ctx, client.PingParams{To: p.peer, Pad: size})
				if ctx.Err() == nil || err == nil { // else nobody waited for the answer
					m.record(answer, err)
				}
			}
		})
	}
	workers.Wait()
	row := m.summarize(time.Since(began))
	row.Peer, row.Size, row.Concurrency = p.peer, size, p.concurrency
	row.BytesPerSecond = row.PerSecond * float64(size)
	return row
}

// benchMeter counts the pings of one size. Its methods may be called from several goroutines.
type benchMeter struct {
	end func() // ends all pings

	mu       sync.Mutex // guards the rest
	left     int        // pings that have not begun
	rtts     []uint64
	lost     int
	refused  int
	failures int       // in a row
	resume   time.Time // no ping begins before
	failed   *kinds.Error
}

// begin reports whether a ping may begin. It blocks as long as the peer wants none.
func (m *benchMeter) begin(ctx context.Context) bool {
	m.mu.Lock()
	resume, ok := m.resume, m.left > 0 && m.failed == nil
	if ok {
		m.left--
	}
	m.mu.Unlock()
	if wait := time.Until(resume); ok && wait > 0 {
		return pace.Sleep(ctx, wait) == nil
	}
	return ok && ctx.Err() == nil
}

// record notes the answer or the error of a ping. After an error that the next ping will get
// too, or too many in a row, no further one begins.
func (m *benchMeter) record(answer *client.PingAnswer, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err == nil {
		m.failures = 0
		m.rtts = append(m.rtts, answer.RTTUS)
		return
	}
	e, ok := errors.AsType[*kinds.Error](err)
	if !ok {
		e = kinds.Errorf(kinds.Internal, "%v", err)
	}
	m.failures++
	mayGoOn := m.failures < maxBenchFailures
	switch e.Code {
	case kinds.Overloaded:
		m.refused++
		pause := time.Duration(min(e.RetryAfterMS, uint64(longestRefusalPause.Milliseconds()))) * time.Millisecond
		m.resume = time.Now().Add(max(pause, shortestRefusalPause))
	case kinds.Timeout, kinds.Unreachable:
		m.lost++
		m.resume = time.Now().Add(shortestRefusalPause)
	default:
		mayGoOn = false
	}
	if !mayGoOn && m.failed == nil {
		m.failed = e
		m.end()
	}
}

// summarize returns what was measured in that time. Percentiles are nearest ranks.
func (m *benchMeter) summarize(elapsed time.Duration) *benchRow {
	m.mu.Lock()
	defer m.mu.Unlock()
	row := &benchRow{Answered: len(m.rtts), Lost: m.lost, Refused: m.refused, ElapsedUS: elapsed.Microseconds(), Error: m.failed}
	if n := len(m.rtts); n > 0 {
		slices.Sort(m.rtts)
		rank := func(percent int) uint64 { return m.rtts[(percent*n+99)/100-1] }
		row.MinUS, row.P50US, row.P90US, row.P99US, row.MaxUS = m.rtts[0], rank(50), rank(90), rank(99), m.rtts[n-1]
		row.PerSecond = float64(n) / max(elapsed.Seconds(), 1e-6)
	}
	return row
}
