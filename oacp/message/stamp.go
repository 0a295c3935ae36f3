package message

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// StampLayout is the one form of a time in a message: UTC, in seconds.
const StampLayout = "2006-01-02T15:04:05Z"

// FormatTimestamp writes a time as messages hold it: UTC, in seconds.
func FormatTimestamp(t time.Time) string { return t.UTC().Format(StampLayout) }

func parseTimestamp(s string) (time.Time, bool) {
	t, err := time.Parse(StampLayout, s)
	return t, err == nil && FormatTimestamp(t) == s && t.Year() > 0
}

func isTimestamp(s string) bool {
	_, ok := parseTimestamp(s)
	return ok
}

// formatCompactTime writes a time as ids and file names hold it.
func formatCompactTime(now time.Time) string { return now.UTC().Format("20060102150405") }

// ParseExpiry returns the time that is a duration, such as "90m", "12h" or "2 D", after now.
func ParseExpiry(duration string, now time.Time) (string, error) {
	text := stripPythonSpace(duration)
	cut := max(len(text)-1, 0)
	count := stripPythonSpace(text[:cut])
	seconds := map[string]int64{"m": 60, "h": 3600, "d": 86400}[strings.ToLower(text[cut:])]
	if seconds == 0 || !isAllDigits(count) {
		return "", fmt.Errorf("%.80q is no duration: write a number and m, h or d, like 90m", duration)
	}
	n, err := strconv.ParseInt(count, 10, 64)
	last := time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC).Unix()
	if err != nil || n > (last-now.Unix())/seconds {
		return "", fmt.Errorf("duration %.80q ends after the year 9999: choose a shorter one", duration)
	}
	return FormatTimestamp(time.Unix(now.Unix()+n*seconds, 0)), nil
}
