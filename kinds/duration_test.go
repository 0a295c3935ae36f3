package kinds

import (
	"testing"
	"time"
)

func TestFormatDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", time.Millisecond: "1ms", 1500 * time.Millisecond: "1.5s", 10 * time.Second: "10s", time.Minute: "1m", 10 * time.Minute: "10m",
		61 * time.Second: "1m1s", time.Hour: "1h", 90 * time.Minute: "1h30m", time.Hour + time.Second: "1h0m1s", MaxTaskDeadline: "720h", -time.Minute: "-1m",
	} {
		got := FormatDuration(d)
		if back, err := time.ParseDuration(got); got != want || err != nil || back != d {
			t.Errorf("%s: %s, which is read as %s (%v); want %s", d, got, back, err, want)
		}
	}
}
