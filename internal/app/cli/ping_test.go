package cli

import "testing"

func TestSummarize(t *testing.T) {
	hundred := make([]uint64, 200)
	for i := range hundred {
		hundred[i] = uint64(200 - i)
	}
	for _, c := range []struct {
		rtts []uint64
		want pingSummary
	}{
		{nil, pingSummary{Sent: 3}},
		{[]uint64{7}, pingSummary{3, 1, 7, 7, 7, 7}},
		{[]uint64{9, 1}, pingSummary{3, 2, 1, 5, 9, 9}},
		{hundred, pingSummary{3, 200, 1, 100, 200, 198}},
	} {
		if got := summarizePings(3, c.rtts); got != c.want {
			t.Errorf("%d pings: %+v, want %+v", len(c.rtts), got, c.want)
		}
	}
}
