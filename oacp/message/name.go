package message

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// agentPattern is quoted in the reference's messages.
const agentPattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"

// LegalAgent tells whether name can name an agent: a letter or digit, then up to 63
// letters, digits, dots, underscores and hyphens.
func LegalAgent(name string) bool {
	return len(name) <= 64 && word(name) && alphanumeric(name[0])
}

// LegalFileName tells whether a file of this name can be a message on every
// machine: like an agent's name, at most 200 bytes, and ending in ".yaml".
func LegalFileName(name string) bool {
	return len(name) <= 200 && word(name) && alphanumeric(name[0]) &&
		len(name) > len(".yaml") && strings.HasSuffix(name, ".yaml")
}

// LegalSuffix tells whether suffix may stand in a file name: 1 to 64 letters, digits,
// dots, underscores and hyphens.
func LegalSuffix(suffix string) bool { return len(suffix) <= 64 && word(suffix) }

func word(s string) bool {
	for _, c := range []byte(s) {
		if !alphanumeric(c) && c != '.' && c != '_' && c != '-' {
			return false
		}
	}
	return s != ""
}

func alphanumeric(c byte) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || digit(c) }

func digit(c byte) bool { return '0' <= c && c <= '9' }

// stampLayout is the one form of a time in a message: UTC, in seconds.
const stampLayout = "2006-01-02T15:04:05Z"

// Stamp writes a time as messages hold it: UTC, in seconds.
func Stamp(t time.Time) string { return t.UTC().Format(stampLayout) }

// stampShaped tells what looks like a time, whether or not it is one.
func stampShaped(s string) bool {
	if len(s) != len(stampLayout) {
		return false
	}
	for i := range len(s) {
		if c := stampLayout[i]; digit(c) != digit(s[i]) || !digit(c) && c != s[i] {
			return false
		}
	}
	return true
}

func parseStamp(s string) (time.Time, bool) {
	if !stampShaped(s) || strings.HasPrefix(s, "0000") {
		return time.Time{}, false
	}
	t, err := time.Parse(stampLayout, s)
	return t, err == nil
}

func isStamp(s string) bool {
	_, ok := parseStamp(s)
	return ok
}

// compact is the form of a time in ids and file names.
func compact(now time.Time) string { return now.UTC().Format("20060102150405") }

// NewID draws the id of a message that sender writes now. Its random part is not
// that of the file's name.
func NewID(now time.Time, sender string) string {
	return fmt.Sprintf("msg-%s-%s-%04x", compact(now), sender, random()&0xffff)
}

// NewFileName draws the name of the file for a message. The suffix, which may be
// empty, is for people; see LegalSuffix. A name can be drawn twice, so a file must be
// created only where there is none.
func NewFileName(now time.Time, sender, typ, suffix string) string {
	name := fmt.Sprintf("%s_%s_%s_%04x", compact(now), sender, typ, random()&0xffff)
	if suffix != "" {
		name += "_" + suffix
	}
	return name + ".yaml"
}

// NewConversationID draws the id of a conversation that sender begins now.
func NewConversationID(now time.Time, sender string) string {
	return fmt.Sprintf("conv-%s-%s-%06d", now.UTC().Format("20060102"), sender, random()%1_000_000)
}

func random() uint64 {
	var b [8]byte
	rand.Read(b[:]) // never fails
	return binary.NativeEndian.Uint64(b[:])
}

var durationForm = regexp.MustCompile(`^([0-9]+)[\s\v\x1c-\x1f\x{85}\p{Z}]*([hHdDmM])$`)

// ExpiresAfter returns the time of expiry that a duration such as "90m", "12h" or
// "2 D" after now gives. The error is the reference's line.
func ExpiresAfter(duration string, now time.Time) (string, error) {
	m := durationForm.FindStringSubmatch(strip(duration))
	if m == nil {
		return "", fmt.Errorf("invalid duration format: %s — expected <number><unit> where unit is h/d/m", quote(duration))
	}
	seconds := map[string]int64{"m": 60, "h": 3600, "d": 86400}[strings.ToLower(m[2])]
	n, err := strconv.ParseInt(m[1], 10, 64)
	last := time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC).Unix()
	if err != nil || n > (last-now.Unix())/seconds {
		return "", fmt.Errorf("duration %s ends after the year 9999: choose a shorter one", quote(duration))
	}
	return Stamp(time.Unix(now.Unix()+n*seconds, 0)), nil
}
