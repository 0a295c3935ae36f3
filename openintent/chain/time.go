package chain

import (
	"errors"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Time is a moment in microseconds of Unix time. 0 is none, and null in JSON.
type Time int64

// timeForm is read by every parser of ISO 8601 that agents use. Python's, up to 3.10,
// knows no Z and only three or six digits of a fraction.
const timeForm = "2006-01-02T15:04:05.000000+00:00"

func (t Time) toUTC() time.Time { return time.UnixMicro(int64(t)).UTC() }

// Add returns the moment that is d after t.
func (t Time) Add(d time.Duration) Time { return t + Time(d.Microseconds()) }

// Sub returns the time from u to t.
func (t Time) Sub(u Time) time.Duration { return time.Duration(t-u) * time.Microsecond }

// AppendJSON appends t to b as JSON.
func (t Time) AppendJSON(b []byte) []byte {
	if t == 0 {
		return append(b, "null"...)
	}
	b = append(b, '"')
	b = t.toUTC().AppendFormat(b, timeForm)
	return append(b, '"')
}

// MarshalJSON returns what AppendJSON appends.
func (t Time) MarshalJSON() ([]byte, error) { return t.AppendJSON(nil), nil }

// UnmarshalJSON reads null, or the text that [ParseTime] reads. Its error is [ErrTime].
func (t *Time) UnmarshalJSON(text []byte) error {
	v := jsontext.Value(text)
	if v.Kind() == 'n' {
		*t = 0
		return nil
	}
	raw, err := jsontext.AppendUnquote(nil, text)
	if err != nil {
		return ErrTime
	}
	*t, err = ParseTime(string(raw))
	return err
}

// ErrTime is the error of text that is no time.
var ErrTime = errors.New("a time is text in the form of RFC 3339, like 2006-01-02T15:04:05Z, in the years 1970 to 9999; without an offset it is UTC")

// ParseTime reads ISO 8601 as agents write it: with an offset, with Z, or without either,
// which is UTC. Its error is [ErrTime].
func ParseTime(text string) (Time, error) {
	// In a query, where + means a space.
	if i := strings.LastIndexByte(text, ' '); i >= 19 {
		text = text[:i] + "+" + text[i+1:]
	}
	for _, form := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999Z07:00", "2006-01-02 15:04:05.999999999"} {
		if t, err := time.Parse(form, text); err == nil {
			if s := Time(t.UnixMicro()); s > 0 && s.toUTC().Year() <= 9999 { // as it is written, also by a clock that was never set
				return s, nil
			}
			break
		}
	}
	return 0, ErrTime
}
