package ui

import (
	"fmt"
	"strings"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/kinds"
)

// FormatTime writes a time in the local zone, which it names, for a person; else as RFC 3339
// in UTC.
func (t *Terminal) FormatTime(at time.Time) string {
	switch {
	case at.IsZero() || at.Unix() == 0:
		return "-"
	case t.OutTTY:
		return at.Local().Format("Jan _2 15:04:05 MST")
	}
	return at.UTC().Format(time.RFC3339)
}

// FormatAge writes for a person how long ago a time of the last day was; else it does as
// FormatTime.
func (t *Terminal) FormatAge(at time.Time) string {
	ago := time.Since(at)
	switch {
	case !t.OutTTY || at.IsZero() || ago > 24*time.Hour:
		return t.FormatTime(at)
	case ago < time.Second:
		return "now"
	case ago < time.Minute:
		return ago.Truncate(time.Second).String() + " ago"
	}
	return kinds.FormatDuration(ago.Truncate(time.Minute)) + " ago"
}

// FormatMoment writes for a person when something happens in the next days: the time in the local zone, and the day if
// that is not today.
func FormatMoment(at time.Time) string {
	at, now := at.Local(), time.Now()
	const day = "2006-01-02"
	switch at.Format(day) {
	case now.Format(day):
		return at.Format("15:04")
	case now.AddDate(0, 0, 1).Format(day):
		return "tomorrow " + at.Format("15:04")
	}
	return at.Format("Jan _2 15:04")
}

// FormatMilliseconds writes a round trip, given in microseconds, as the tool ping does.
func FormatMilliseconds(us uint64) string { return fmt.Sprintf("%.3f ms", float64(us)/1000) }

// FormatBytes returns n bytes in a fitting unit, without decimals if that is exact.
func FormatBytes(n uint64) string {
	for i, name := range []string{"GiB", "MiB", "KiB"} {
		switch unit := uint64(1) << (30 - 10*i); {
		case n >= unit && n%unit == 0:
			return fmt.Sprintf("%d %s", n/unit, name)
		case n >= unit:
			return fmt.Sprintf("%.1f %s", float64(n)/float64(unit), name)
		}
	}
	return fmt.Sprintf("%d bytes", n)
}

// FormatPeerName returns the name of a peer as people see it: its petname, else its claim in quotes.
func FormatPeerName(p *client.Peer) string {
	switch {
	case p.Name != "":
		return p.Name
	case p.Claim == "":
		return "-"
	case p.NameConflict:
		return `"` + client.Line(p.Claim) + `" (a trusted peer's name!)`
	}
	return `"` + client.Line(p.Claim) + `"`
}

// DashIfEmpty returns s on one line, "-" if it is empty.
func DashIfEmpty(s string) string {
	if s == "" {
		return "-"
	}
	return client.Line(s)
}

// ShortenText returns text cut to at most so many characters.
func ShortenText(text string, most int) string {
	if r := []rune(text); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return text
}

// FormatAgentNames lists the names that a peer gives its agents: at most so many, and "?" once for all that no agent
// can have.
func FormatAgentNames(names []string, most int) string {
	var plain, odd []string
	for _, name := range names {
		if client.IsPlainAgentName(name) {
			plain = append(plain, name)
		} else {
			odd = []string{"?"}
		}
	}
	more := ""
	if n := len(plain) - most; n > 0 {
		plain, more = plain[:most], fmt.Sprintf(" and %d more", n)
	}
	return strings.Join(append(plain, odd...), ", ") + more
}

// IsStranger reports whether a peer is neither trusted nor blocked.
func IsStranger(p client.Peer) bool {
	return p.State == client.PeerPending || p.State == client.PeerDiscovered
}

// DescribeAgentAway says that the agent that has accepted an open delegation is not attached.
func (t *Terminal) DescribeAgentAway(agent string, since client.Time) string {
	return client.Line(agent) + " is not attached, seen last " + t.FormatAge(since.Time) + ": acpctl doctor"
}
