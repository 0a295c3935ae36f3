package cli

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/internal/app/cli/ui"
	"github.com/acpd/acpd/internal/pace"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

type pingResult struct {
	Seq     int          `json:"seq"`
	RTTUS   uint64       `json:"rtt_us"`
	Payload wire.Payload `json:"payload"`
}

type pingLost struct {
	Seq   int          `json:"seq"`
	Error *kinds.Error `json:"error"`
}

type pingSummary struct {
	Sent     int    `json:"sent"`
	Received int    `json:"received"`
	MinUS    uint64 `json:"min_us"`
	AvgUS    uint64 `json:"avg_us"`
	MaxUS    uint64 `json:"max_us"`
	P99US    uint64 `json:"p99_us"`
}

func (a *app) newPingCmd() *cobra.Command {
	var count int
	var interval time.Duration
	cmd := &cobra.Command{
		Use:   "ping PEER",
		Short: "Check whether a peer answers, and how fast",
		Example: `  acpctl ping desk                  until interrupted
  acpctl ping desk -c 3
  acpctl ping desk -c 100 -i 10ms`,
		Long: `The peer's daemon answers by itself, without an agent. Each time is the time to that daemon
and back. The exit code is 0 if any answer came.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if count < 0 || cmd.Flags().Changed("count") && count == 0 {
				return frame.UsageErrorf("--count: expected 1 or more")
			}
			if interval < 0 {
				return frame.UsageErrorf("--interval: expected a duration like 1s")
			}
			return a.pingPeer(cmd.Context(), args[0], count, interval)
		},
	}
	cmd.Flags().IntVarP(&count, "count", "c", 0, "how many pings (default: until interrupted)")
	cmd.Flags().DurationVarP(&interval, "interval", "i", time.Second, "time from one ping to the next")
	return cmd
}

func (a *app) pingPeer(ctx context.Context, peer string, count int, interval time.Duration) error {
	var rtts []uint64 // 8 bytes a ping, for the percentile
	var last error
	sent := 0
	for count == 0 || sent < count {
		next := time.Now().Add(interval)
		sent++
		answer, err := a.Daemon.Ping(ctx, client.PingParams{To: peer})
		if ctx.Err() != nil {
			sent-- // nobody waited for the answer
			break
		}
		switch e, ok := errors.AsType[*kinds.Error](err); {
		case err == nil:
			rtts = append(rtts, answer.RTTUS)
			if err := a.printPong(peer, sent, answer); err != nil {
				return err
			}
		case ok && mayNextPingSucceed(e):
			last = err
			a.PrintData(pingLost{sent, e}, func() { a.PrintLine("%s: seq=%d %s", client.Line(peer), sent, a.describeLostPing(ctx, peer, e)) })
		default:
			return err
		}
		if err := a.CheckOutput(); err != nil {
			return err
		}
		if sent == count || pace.Sleep(ctx, time.Until(next)) != nil {
			break
		}
	}
	if err := a.printPingSummary(peer, summarizePings(sent, rtts)); err != nil {
		return err
	}
	switch {
	case ctx.Err() != nil:
		return frame.Exit(frame.ExitInterrupted)
	case len(rtts) == 0:
		_, code := a.ClassifyError(ctx, last)
		return frame.Exit(code)
	}
	return nil
}

// mayNextPingSucceed reports whether the next ping may succeed after this error.
func mayNextPingSucceed(e *kinds.Error) bool {
	return e.Code == kinds.Unreachable || e.Code == kinds.Timeout || e.Code == kinds.Overloaded
}

// describeLostPing returns why a ping was lost. The daemon's words for a timeout speak of a
// deadline and of an id, and a ping has neither.
func (a *app) describeLostPing(ctx context.Context, peer string, e *kinds.Error) string {
	if e.Code == kinds.Timeout && e.From == "" {
		return "no answer in time: the daemon there may be stopped or have too much to do, or the network loses packets"
	}
	return client.Line(strings.TrimPrefix(a.DescribeError(ctx, e), peer+": ")) + frame.DescribeDelivery(e) + a.DescribeQuoted(e)
}

func (a *app) printPong(peer string, seq int, answer *client.PingAnswer) error {
	if a.JSON {
		return a.PrintJSON(pingResult{seq, answer.RTTUS, answer.Payload})
	}
	pong, err := kinds.ParsePayload[kinds.Pong](answer.Payload)
	if err != nil {
		return err
	}
	a.PrintLine("%s: seq=%d time=%s %s, %d active", client.Line(peer), seq, ui.FormatMilliseconds(answer.RTTUS), client.Line(pong.Status), pong.ActiveTasks)
	return nil
}

func (a *app) printPingSummary(peer string, s pingSummary) error {
	return a.PrintData(s, func() {
		a.PrintLine("--- %s: %d sent, %d received", client.Line(peer), s.Sent, s.Received)
		if s.Received > 0 {
			a.PrintLine("min/avg/max/p99 = %s / %s / %s / %s", ui.FormatMilliseconds(s.MinUS), ui.FormatMilliseconds(s.AvgUS), ui.FormatMilliseconds(s.MaxUS), ui.FormatMilliseconds(s.P99US))
		}
	})
}

// summarizePings returns the summary of these round trips, in microseconds. The percentile is the
// nearest rank.
func summarizePings(sent int, rtts []uint64) pingSummary {
	s := pingSummary{Sent: sent, Received: len(rtts)}
	if len(rtts) == 0 {
		return s
	}
	sorted := slices.Sorted(slices.Values(rtts))
	var sum uint64
	for _, us := range sorted {
		sum += us
	}
	n := len(sorted)
	s.MinUS, s.MaxUS, s.AvgUS = sorted[0], sorted[n-1], sum/uint64(n)
	s.P99US = sorted[(99*n+99)/100-1]
	return s
}
