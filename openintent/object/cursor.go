package object

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Cursor says how far a stream has come: in the feed here, and in the feed of each host whose entries
// it shows. It is the id of the stream's events, in the form "17,0102030405:9".
type Cursor struct {
	Here  int64            // -1 if a stream begins with what comes now
	Hosts map[string]int64 // by the digits of the host
}

// ParseCursor reads a Last-Event-ID. Other text is read as no cursor.
func ParseCursor(text string) Cursor {
	none := Cursor{-1, make(map[string]int64)}
	here, rest, _ := strings.Cut(text, ",")
	c := Cursor{Hosts: make(map[string]int64)}
	var err error
	if c.Here, err = strconv.ParseInt(here, 10, 64); err != nil || c.Here < 0 {
		return none
	}
	for rest != "" {
		var part string
		part, rest, _ = strings.Cut(rest, ",")
		host, number, _ := strings.Cut(part, ":")
		at, err := strconv.ParseInt(number, 10, 64)
		if err != nil || at < 0 || !IsHex(host, HostDigits) {
			return none
		}
		c.Hosts[host] = at
	}
	return c
}

// String returns the cursor as ParseCursor reads it.
func (c *Cursor) String() string {
	if len(c.Hosts) == 0 {
		return strconv.FormatInt(c.Here, 10)
	}
	b := strconv.AppendInt(nil, c.Here, 10)
	for _, host := range slices.Sorted(maps.Keys(c.Hosts)) {
		b = fmt.Appendf(b, ",%s:%d", host, c.Hosts[host])
	}
	return string(b)
}
