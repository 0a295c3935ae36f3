package doctor

import (
	"regexp"
	"strings"
)

var (
	logLine     = regexp.MustCompile(`^(?:time=\S+ level=|\{"time":")`)
	stackLine   = regexp.MustCompile(`^(?:goroutine \d+ .*:|\s+\S+\.go:\d+( \+0x[0-9a-f]+)?|created by \S+( in goroutine \d+)?|(?:fatal error|panic): [a-z ]*|\[signal .*\])$`)
	stackCall   = regexp.MustCompile(`^([\w./*()\[\]…-]+)\(.*\)$`)
	sourceLine  = regexp.MustCompile(`(\S*/)?([\w.-]+/[\w.-]+\.go:\d+)`)
	runtimePart = regexp.MustCompile(`^(?:fatal error|panic): runtime error: `)
)

// maskLog returns the lines of a daemon's log, and of the stacks of a crash, masked. Of any other
// line it says only that there was one: nobody knows what stands in it.
func (m *mask) maskLog(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		switch call := stackCall.FindStringSubmatch(line); {
		case logLine.MatchString(line), runtimePart.MatchString(line):
			b.WriteString(m.text(line))
		case line == "":
		case stackLine.MatchString(line):
			b.WriteString(sourceLine.ReplaceAllString(line, "$2"))
		case call != nil:
			b.WriteString(call[1] + "(…)")
		default:
			b.WriteString("(another line)")
		}
		b.WriteByte('\n')
	}
	return b.String()
}
