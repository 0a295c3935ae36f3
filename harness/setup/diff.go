package setup

import (
	"fmt"
	"strings"
)

// longestShownLine bounds a line of a diff. Of longer ones only the changed part is shown.
const longestShownLine = 200

// maxDiffLines bounds how many lines in a row may differ, of both texts together.
const maxDiffLines = 2000

// formatDiff returns what changes from one text to the other, line by line, under the name
// of the file. It shows no line that stays. Where something is put into a line or taken out
// of it, it shows only that part: the rest of the file can be secret.
func formatDiff(name, from, to string) string {
	if from == to {
		return ""
	}
	var out strings.Builder
	fmt.Fprintf(&out, "--- %s\n+++ %s\n", name, name)
	old, now := strings.SplitAfter(from, "\n"), strings.SplitAfter(to, "\n")
	for _, h := range findHunks(old, now) {
		fmt.Fprintf(&out, "@@ line %d @@\n", h.to.start+1)
		removed, added := old[h.from.start:h.from.end], now[h.to.start:h.to.end]
		pairs := min(len(removed), len(added))
		var minus, plus strings.Builder
		for i, line := range removed {
			if i < pairs {
				line, added[i] = cutToChange(line, added[i])
			}
			writeDiffLine(&minus, "-", line)
		}
		for _, line := range added {
			writeDiffLine(&plus, "+", line)
		}
		out.WriteString(minus.String())
		out.WriteString(plus.String())
	}
	return out.String()
}

// writeDiffLine writes a line unless it is empty because the other one of its pair says all.
func writeDiffLine(out *strings.Builder, mark, line string) {
	if line == unshown || line == "" { // the text behind the last line end is no line
		return
	}
	line = strings.TrimRight(line, "\r\n")
	if len(line) > 4*longestShownLine {
		line = strings.ToValidUTF8(line[:4*longestShownLine], "") + "…"
	}
	out.WriteString(mark + line + "\n")
}

// unshown replaces a line of a pair if the other line shows the whole change.
const unshown = "\x00"

// cutToChange returns what is to be shown of a line that became another one. If something was
// put in or taken out, that is all.
func cutToChange(from, to string) (string, string) {
	begin, end := countShared([]byte(from), []byte(to))
	removed, added := from[begin:len(from)-end], to[begin:len(to)-end]
	around := func(s string) string {
		if strings.TrimSpace(to[:begin]) != "" {
			s = "…" + s
		}
		if strings.TrimSpace(to[len(to)-end:]) != "" {
			s += "…"
		}
		return s
	}
	switch {
	case strings.Trim(removed, "\r\n") == "" && strings.Trim(added, "\r\n") == "":
		return unshown, unshown // only the line's end
	case strings.TrimSpace(from) == "" || strings.TrimSpace(to) == "":
		return from, to
	case removed == "":
		return unshown, around(added)
	case added == "":
		return around(removed), unshown
	case len(from) > longestShownLine || len(to) > longestShownLine:
		return around(removed), around(added)
	}
	return from, to
}

// countShared returns how many elements two lists share at their beginnings, and how many of the
// others at their ends.
func countShared[T comparable](a, b []T) (begin, end int) {
	for begin < len(a) && begin < len(b) && a[begin] == b[begin] {
		begin++
	}
	for end < len(a)-begin && end < len(b)-begin && a[len(a)-1-end] == b[len(b)-1-end] {
		end++
	}
	return begin, end
}

// hunk is a run of lines that differ.
type hunk struct{ from, to span }

// findHunks compares two texts, line by line. Where they differ, it takes the fewest lines of both
// after which they are equal again.
func findHunks(from, to []string) (hunks []hunk) {
	begin, end := countShared(from, to)
	lastA, lastB := len(from)-end, len(to)-end
	for a, b := begin, begin; a < lastA || b < lastB; {
		if a < lastA && b < lastB && from[a] == to[b] {
			a, b = a+1, b+1
			continue
		}
		skipA, skipB := findEqual(from[a:lastA], to[b:lastB])
		hunks = append(hunks, hunk{span{a, a + skipA}, span{b, b + skipB}})
		a, b = a+skipA, b+skipB
	}
	return hunks
}

// findEqual returns how many elements of two lists, few in sum, precede elements that are equal. If no elements
// are equal, or if they come late, it returns all.
func findEqual(a, b []string) (inA, inB int) {
	for sum := 1; sum <= maxDiffLines && sum < len(a)+len(b); sum++ {
		for i := max(0, sum-len(b)+1); i <= min(sum, len(a)-1); i++ {
			if a[i] == b[sum-i] {
				return i, sum - i
			}
		}
	}
	return len(a), len(b)
}
