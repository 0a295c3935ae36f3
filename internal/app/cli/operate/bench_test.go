package operate_test

import (
	"context"
	"io"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/internal/app/cli"
	"github.com/acpd/acpd/internal/app/cli/clitest"
	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/internal/app/cli/ui"
	"github.com/acpd/acpd/kinds"
	"github.com/spf13/cobra"
)

func newBenchDaemon(t *testing.T, answer func(n int, p *client.PingParams) (uint64, error)) *clitest.FakeDaemon {
	f := clitest.NewFakeDaemon(t, func(f *frame.Frame) *cobra.Command { return cli.NewRootCmd(f, "test") })
	var pings atomic.Int32
	f.SetHandler(client.MethodPing, func(r *jsonrpc.Request) (any, error) {
		var p client.PingParams
		if err := r.ReadParams(&p); err != nil {
			return nil, err
		}
		rtt, err := answer(int(pings.Add(1)), &p)
		return &client.Answer{ID: clitest.SomeID, From: clitest.DeskID, Kind: kinds.KindPong, RTTUS: rtt, Payload: kinds.EncodePayload(&kinds.Pong{Status: "idle"})}, err
	})
	return f
}

type row struct {
	Size, Concurrency, Answered, Lost, Refused uint64
	Min                                        uint64 `json:"min_us"`
	P50                                        uint64 `json:"p50_us"`
	P90                                        uint64 `json:"p90_us"`
	P99                                        uint64 `json:"p99_us"`
	Max                                        uint64 `json:"max_us"`
	Error                                      *kinds.Error
}

// readRows returns what was measured, line by line.
func readRows(t *testing.T, out string) (rows []row) {
	t.Helper()
	for line := range strings.Lines(out) {
		var r row
		if err := json.Unmarshal([]byte(line), &r, json.MatchCaseInsensitiveNames(true)); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		rows = append(rows, r)
	}
	return rows
}

func TestBench(t *testing.T) {
	var sizes [3]atomic.Int32
	f := newBenchDaemon(t, func(n int, p *client.PingParams) (uint64, error) {
		sizes[map[uint64]int{0: 0, 1024: 1, 2 << 20: 2}[p.Pad]].Add(1)
		return uint64(n), nil
	})
	got := f.Run("bench", "desk", "-n", "200", "--size", "0,1k,2M", "--concurrency", "4", "--json")
	rows := readRows(t, got.Out)
	if got.Code != 0 || len(rows) != 3 {
		t.Fatalf("%+v", got)
	}
	for i, first := range []uint64{2, 202, 402} { // a first ping finds out whether anybody is there
		if want := (row{Size: []uint64{0, 1024, 2 << 20}[i], Concurrency: 4, Answered: 200, Min: first, P50: first + 99, P90: first + 179, P99: first + 197, Max: first + 199}); rows[i] != want {
			t.Errorf("%+v, want %+v", rows[i], want)
		}
	}
	if sizes[0].Load() != 201 || sizes[1].Load() != 200 || sizes[2].Load() != 200 {
		t.Errorf("%v pings of each size", &sizes)
	}
	got = f.RunInteractive("", "bench", "desk", "-n", "1", "--size", "0")
	if got.Code != 0 || !strings.Contains(got.Out, "SIZE") || !strings.Contains(got.Out, "PER SECOND") || !strings.Contains(got.Out, "0.602 ms") && !strings.Contains(got.Out, "0.603 ms") {
		t.Errorf("%+v", got)
	}
}

// No message is so large, so no daemon is asked.
func TestBenchOfSizesThatNoneTakes(t *testing.T) {
	f := newBenchDaemon(t, func(int, *client.PingParams) (uint64, error) {
		t.Error("a ping is sent")
		return 0, nil
	})
	if got := f.Run("bench", "desk", "--size", "0,17M"); got.Code != frame.ExitUsage || !strings.Contains(got.Err, "17M: no message is larger than 16777216 bytes") {
		t.Errorf("%+v", got)
	}
}

// TestBenchOfAPeerThatRefuses: the peer's word is kept, and after some refusals in a row no ping
// goes out any more.
func TestBenchOfAPeerThatRefuses(t *testing.T) {
	busy := kinds.Errorf(kinds.Overloaded, "slowly")
	busy.From = clitest.DeskID.String()
	var sent atomic.Int32
	f := newBenchDaemon(t, func(n int, _ *client.PingParams) (uint64, error) {
		sent.Add(1)
		if n == 4 {
			return 7, nil
		}
		return 0, busy
	})
	got := f.Run("bench", "desk", "-n", "50", "--size", "0,1k", "--json")
	rows := readRows(t, got.Out)
	if got.Code != frame.FindExitCode(busy) || len(rows) != 2 || sent.Load() != 1+2+1+5+5 {
		t.Fatalf("%d pings: %+v", sent.Load(), got)
	}
	if r := rows[0]; r.Answered != 1 || r.Refused != 7 || r.Lost != 0 || r.Max != 7 || r.Error == nil || r.Error.Code != kinds.Overloaded {
		t.Errorf("%+v", r)
	}
}

func TestBenchOfAPeerThatIsAway(t *testing.T) {
	f := newBenchDaemon(t, func(n int, _ *client.PingParams) (uint64, error) {
		return 0, kinds.Errorf(kinds.Unreachable, "desk: nothing listens").WithDelivered(kinds.DeliveredNo)
	})
	if got := f.Run("bench", "desk"); got.Code != 5 || got.Out != "" {
		t.Errorf("%+v", got)
	}
	f = newBenchDaemon(t, func(n int, _ *client.PingParams) (uint64, error) { // killed in the middle
		if n < 10 {
			return 3, nil
		}
		return 0, kinds.Errorf(kinds.Unreachable, "desk: nothing listens")
	})
	got := f.Run("bench", "desk", "--size", "0", "--duration", "20s")
	if cells := strings.Split(got.Out, "\t"); got.Code != 5 || len(cells) != 12 || cells[2] != "8" || cells[3] != "5" || got.Err != "acpctl bench: 0 bytes: ended early: desk: nothing listens\n" {
		t.Errorf("%+v", got)
	}
}

// TestBenchInterrupted: an interrupt prints what there is.
func TestBenchInterrupted(t *testing.T) {
	var sent atomic.Int32
	stuck := make(chan struct{})
	defer close(stuck)
	f := newBenchDaemon(t, func(n int, _ *client.PingParams) (uint64, error) {
		sent.Add(1)
		if n > 10 {
			<-stuck
		}
		return 3, nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	var out strings.Builder
	ended := make(chan int, 1)
	go func() {
		ended <- f.RunWithoutHome(ctx, ui.Terminal{In: strings.NewReader(""), Out: &out, Err: io.Discard}, "--home", f.Home, "bench", "desk")
	}()
	await.Until(t, "pings", func() bool { return sent.Load() == 11 })
	cancel()
	if code := await.Receive(t, "the end", ended); code != frame.ExitInterrupted || !strings.HasPrefix(out.String(), "0\t1\t9\t0\t0\t0.003 ms\t") || strings.Count(out.String(), "\n") != 1 {
		t.Errorf("exit code %d: %s", code, &out)
	}
}

func TestBenchBounds(t *testing.T) {
	f := newBenchDaemon(t, func(int, *client.PingParams) (uint64, error) { t.Error("a ping is sent"); return 0, nil })
	for _, args := range []string{"-n 0", "-n 100001", "--concurrency 0", "--concurrency 17", "--duration 2m", "--duration 0s", "-n 5 --duration 1s", "--size x", "--size -1", "--size 0,,1", "--size " + strings.Repeat("1,", 16) + "1"} {
		if got := f.Run(append([]string{"bench", "desk"}, strings.Fields(args)...)...); got.Code != frame.ExitUsage {
			t.Errorf("%s: %+v", args, got)
		}
	}
}
