package openintent

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/acpd/acpd/openintent/object"
)

// cursor says how far a stream has come: in the feed here, and in the feed of each host whose entries
// it shows. It is the id of the stream's events, in the form "17,0102030405:9".
type cursor struct {
	here  int64            // -1 if a stream begins with what comes now
	hosts map[string]int64 // by the digits of the host
}

// parseCursor reads a Last-Event-ID. Other text is read as no cursor.
func parseCursor(text string) cursor {
	none := cursor{-1, make(map[string]int64)}
	here, rest, _ := strings.Cut(text, ",")
	c := cursor{hosts: make(map[string]int64)}
	var err error
	if c.here, err = strconv.ParseInt(here, 10, 64); err != nil || c.here < 0 {
		return none
	}
	for rest != "" {
		var part string
		part, rest, _ = strings.Cut(rest, ",")
		host, number, _ := strings.Cut(part, ":")
		at, err := strconv.ParseInt(number, 10, 64)
		if err != nil || at < 0 || !object.IsHex(host, object.HostDigits) {
			return none
		}
		c.hosts[host] = at
	}
	return c
}

// String returns the cursor as parseCursor reads it.
func (c *cursor) String() string {
	if len(c.hosts) == 0 {
		return strconv.FormatInt(c.here, 10)
	}
	b := strconv.AppendInt(nil, c.here, 10)
	for _, host := range slices.Sorted(maps.Keys(c.hosts)) {
		b = fmt.Appendf(b, ",%s:%d", host, c.hosts[host])
	}
	return string(b)
}
