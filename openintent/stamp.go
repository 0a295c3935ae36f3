package openintent

import (
	"errors"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// stamp is a moment in microseconds of Unix time; 0 is none and null in JSON.
type stamp int64

// stampForm is read by every parser of ISO 8601 that agents use: Python's, up
// to 3.10, knows no Z and only three or six digits of a fraction.
const stampForm = "2006-01-02T15:04:05.000000+00:00"

func now() stamp { return stamp(time.Now().UnixMicro()) }

func (s stamp) time() time.Time           { return time.UnixMicro(int64(s)).UTC() }
func (s stamp) add(d time.Duration) stamp { return s + stamp(d.Microseconds()) }
func (s stamp) until(now stamp) time.Duration {
	return time.Duration(s-now) * time.Microsecond
}

// append appends s as JSON.
func (s stamp) append(b []byte) []byte {
	if s == 0 {
		return append(b, "null"...)
	}
	b = append(b, '"')
	b = s.time().AppendFormat(b, stampForm)
	return append(b, '"')
}

func (s stamp) MarshalJSON() ([]byte, error) { return s.append(nil), nil }

func (s *stamp) UnmarshalJSON(text []byte) error {
	v := jsontext.Value(text)
	if v.Kind() == 'n' {
		*s = 0
		return nil
	}
	raw, err := jsontext.AppendUnquote(nil, text)
	if err != nil {
		return errTime
	}
	*s, err = parseStamp(string(raw))
	return err
}

var errTime = errors.New("a time is text in the form of RFC 3339, like 2006-01-02T15:04:05Z, in the years 1970 to 9999; without an offset it is UTC")

// parseStamp reads ISO 8601 as agents write it: with an offset, with Z, or
// without either, which is UTC.
func parseStamp(text string) (stamp, error) {
	// In a query, where + means a space.
	if i := strings.LastIndexByte(text, ' '); i >= 19 {
		text = text[:i] + "+" + text[i+1:]
	}
	for _, form := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999Z07:00", "2006-01-02 15:04:05.999999999"} {
		if t, err := time.Parse(form, text); err == nil {
			if s := stamp(t.UnixMicro()); s > 0 && s.time().Year() <= 9999 { // as it is written, also by a clock that was never set
				return s, nil
			}
			break
		}
	}
	return 0, errTime
}
