package kinds

import (
	"strings"
	"time"
)

// FormatDuration returns a duration as a person writes it, and as settings and flags take it: 1m, 720h or 1h30m,
// where its String has 1m0s, 720h0m0s and 1h30m0s.
func FormatDuration(d time.Duration) string {
	text := d.String()
	for _, nothing := range []struct{ of, left string }{{"m0s", "m"}, {"h0m", "h"}} {
		if short, ok := strings.CutSuffix(text, nothing.of); ok {
			text = short + nothing.left
		}
	}
	return text
}
