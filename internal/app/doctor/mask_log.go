package doctor

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
)

// saidByAcpd are the attributes of a log line whose text acpd itself has written. The values of
// all others, such as peer, name and addr, are the owner's or a peer's.
var saidByAcpd = []string{"time", "level", "msg", "took", "err", "warning", "reason", "state", "event", "code", "kind"}

// attribute is one of a log line.
type attribute struct{ key, value string }

// parseLogLine returns the attributes of a line that package log/slog has written, as text or as
// JSON; nil for any other line.
func parseLogLine(line string) (all []attribute) {
	if strings.HasPrefix(line, `{"time":`) {
		var object map[string]any
		if json.Unmarshal([]byte(line), &object) != nil {
			return nil
		}
		for _, key := range slices.Sorted(maps.Keys(object)) {
			all = append(all, attribute{key, fmt.Sprint(object[key])})
		}
		return all
	}
	if !strings.HasPrefix(line, "time=") {
		return nil
	}
	for rest := line; rest != ""; {
		key, after, ok := strings.Cut(rest, "=")
		if !ok || strings.ContainsAny(key, " \"") {
			return nil
		}
		value, next, _ := strings.Cut(after, " ")
		if strings.HasPrefix(after, `"`) {
			quoted, err := strconv.QuotedPrefix(after)
			if err != nil {
				return nil
			}
			value, _ = strconv.Unquote(quoted)
			next = strings.TrimPrefix(after[len(quoted):], " ")
		}
		all = append(all, attribute{key, value})
		rest = next
	}
	return all
}

// listLogWords returns what the lines of a log name: peers, agents, addresses.
func listLogWords(text string) (words []string) {
	for line := range strings.Lines(text) {
		for _, a := range parseLogLine(strings.TrimRight(line, "\r\n")) {
			if !slices.Contains(saidByAcpd, a.key) && !isHarmless(a.value) {
				words = append(words, a.value)
			}
		}
	}
	return words
}

var (
	stackLine = regexp.MustCompile(`^(?:goroutine \d+ \[[a-zA-Z ,0-9]*\]:|\s+\S+\.go:\d+( \+0x[0-9a-f]+)?|created by \S+( in goroutine \d+)?|panic: runtime error: [a-zA-Z :\[\]0-9.*-]*|fatal error: [a-z ]*|\[signal .*\])$`)
	stackCall = regexp.MustCompile(`^([\w./*()\[\]…-]+)\([^ ]*.*\)$`)
	source    = regexp.MustCompile(`\S*/([\w.-]+/[\w.-]+\.go:\d+)`)
)

// maskLog returns the lines of a daemon's log, and of the stacks of a crash, masked. Of any other
// line it says only that there was one: nobody knows what stands in it.
func (m *mask) maskLog(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		call := stackCall.FindStringSubmatch(line)
		switch all := parseLogLine(line); {
		case all != nil:
			for i, a := range all {
				if i > 0 {
					b.WriteByte(' ')
				}
				b.WriteString(a.key + "=")
				value := m.text(a.value)
				if !slices.Contains(saidByAcpd, a.key) && !isHarmless(a.value) && value == a.value {
					value = "<masked>" // too short to be a word, or within one
				}
				if strings.ContainsAny(value, " =\"") {
					value = strconv.Quote(value)
				}
				b.WriteString(value)
			}
		case line == "":
		case stackLine.MatchString(line):
			b.WriteString(source.ReplaceAllString(line, "$1"))
		case call != nil && strings.Contains(call[1], "."):
			b.WriteString(call[1] + "(…)")
		case strings.HasPrefix(line, "panic: "):
			b.WriteString("panic: (…)")
		default:
			b.WriteString("(another line)")
		}
		b.WriteByte('\n')
	}
	return b.String()
}
