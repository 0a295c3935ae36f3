package openintent

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/acpd/acpd/budget"
)

// numbers reads n entries of a stream, and what they are numbered by their host.
func (s *stream) numbers(n int) (all []int) {
	s.t.Helper()
	for range n {
		number, _ := s.next().data["n"].(float64)
		all = append(all, int(number))
	}
	return all
}

// TestWhatComesWithoutRoomIsToldToOpenStreams: who is there misses nothing of what a host
// tells while there is no room for it. Who resumes misses that and as many of the oldest, or,
// where the share of hosts is used up, all but the newest. Whatever comes when there is room
// again, both get.
func TestWhatComesWithoutRoomIsToldToOpenStreams(t *testing.T) {
	low := false
	floor := func(_ *host, is bool) { low = is }
	share := func(h *host, is bool) {
		used := int64(0)
		if is {
			used = budget.RelayedBytes.All
		}
		setAccountHolding(h.e.relayed, peerAccountKey(desk), used)
	}
	for what, c := range map[string]struct {
		none func(*host, bool)
		want []int // of 1 to 6 with room, 7 to 9 without, 10 and 11 with room again
	}{
		"below the floor": {floor, []int{4, 5, 6, 10, 11}},
		"no share":        {share, []int{9, 10, 11}},
	} {
		t.Run(what, func(t *testing.T) {
			h := start(t, func(c *Config) {
				c.Room = func(string) error {
					if low {
						return errors.New("the disk is almost full")
					}
					return nil
				}
			})
			var there *stream
			tell := func(from, to int) {
				t.Helper()
				var b strings.Builder
				var want []int
				for n := from; n <= to; n++ {
					b.WriteString(told(farID, n, `"reviewer"`, "text"))
					want = append(want, n)
				}
				if err := h.e.ReceiveHostStream(t.Context(), farID+idRest, strings.NewReader(b.String()), nil); err != nil {
					t.Fatal(err)
				}
				if got := there.numbers(len(want)); !slices.Equal(got, want) {
					t.Errorf("the stream that is open has told %v, want %v", got, want)
				}
			}
			const own = "/agents/reviewer/subscribe"
			there = h.follow(h.as("reviewer"), own)
			defer there.stop()
			tell(1, 6)
			c.none(h, true)
			tell(7, 9)
			c.none(h, false)
			tell(10, 11)
			back := h.followFrom(h.as("reviewer"), own, "0")
			defer back.stop()
			if got := back.numbers(len(c.want)); !slices.Equal(got, c.want) {
				t.Errorf("who resumes is told %v, want %v", got, c.want)
			}
			tell(12, 12)
			if got := back.numbers(1); got[0] != 12 {
				t.Errorf("who resumes is also told %v", got)
			}
		})
	}
}
