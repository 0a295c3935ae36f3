package message

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// StampLayout is the one form of a time in a message: UTC, in seconds.
const StampLayout = "2006-01-02T15:04:05Z"

// FormatTimestamp writes a time as messages hold it: UTC, in seconds.
func FormatTimestamp(t time.Time) string { return t.UTC().Format(StampLayout) }

// isTimestampShaped reports whether s looks like a time, whether or not it is one.
func isTimestampShaped(s string) bool {
	if len(s) != len(StampLayout) {
		return false
	}
	for i := range len(s) {
		if c := StampLayout[i]; isDigit(c) != isDigit(s[i]) || !isDigit(c) && c != s[i] {
			return false
		}
	}
	return true
}

func parseTimestamp(s string) (time.Time, bool) {
	if !isTimestampShaped(s) || strings.HasPrefix(s, "0000") {
		return time.Time{}, false
	}
	t, err := time.Parse(StampLayout, s)
	return t, err == nil
}

func isTimestamp(s string) bool {
	_, ok := parseTimestamp(s)
	return ok
}

// formatCompactTime writes a time as ids and file names hold it.
func formatCompactTime(now time.Time) string { return now.UTC().Format("20060102150405") }

var durationForm = regexp.MustCompile(`^([0-9]+)[\s\v\x1c-\x1f\x{85}\p{Z}]*([hHdDmM])$`)

// ParseExpiry returns the time that lies a duration, such as "90m", "12h" or "2 D", after
// now. The error is the reference's line.
func ParseExpiry(duration string, now time.Time) (string, error) {
	m := durationForm.FindStringSubmatch(stripPythonSpace(duration))
	if m == nil {
		return "", fmt.Errorf("invalid duration format: %s — expected <number><unit> where unit is h/d/m", formatPythonRepr(duration))
	}
	seconds := map[string]int64{"m": 60, "h": 3600, "d": 86400}[strings.ToLower(m[2])]
	n, err := strconv.ParseInt(m[1], 10, 64)
	last := time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC).Unix()
	if err != nil || n > (last-now.Unix())/seconds {
		return "", fmt.Errorf("duration %s ends after the year 9999: choose a shorter one", formatPythonRepr(duration))
	}
	return FormatTimestamp(time.Unix(now.Unix()+n*seconds, 0)), nil
}
