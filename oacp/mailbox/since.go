package mailbox

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// ParseSince reads the time with which a watch begins: now, epoch, a duration before now such as
// 30s, 5m, 2h or 7d, or a time of ISO 8601, which is in UTC if it has no offset.
func ParseSince(s string, now time.Time) (time.Time, error) {
	switch s {
	case "now":
		return now, nil
	case "epoch":
		return time.Unix(0, 0), nil
	}
	units := map[byte]time.Duration{'s': time.Second, 'm': time.Minute, 'h': time.Hour, 'd': 24 * time.Hour}
	if n := len(s) - 1; n > 0 && units[s[n]] != 0 {
		count, err := strconv.ParseUint(s[:n], 10, 63)
		if err == nil && s[0] != '+' {
			if unit := units[s[n]]; count <= uint64(1<<63-1)/uint64(unit) {
				return now.Add(-time.Duration(count) * unit), nil
			}
			return time.Unix(0, 0), nil // before everything
		}
	}
	date, clock, _ := strings.Cut(strings.Replace(s, " ", "T", 1), "T")
	for _, layout := range []string{"", "15", "15:04", "15:04:05", "15Z07:00", "15:04Z07:00", "15:04:05Z07:00"} {
		if t, err := time.ParseInLocation("2006-01-02T"+layout, date+"T"+clock, time.UTC); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("--since %.80q: use now, epoch, a duration like 30s, 5m, 2h or 7d, or a time like 2026-01-31T12:00:00Z", s)
}
