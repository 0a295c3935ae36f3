package setup

import (
	"fmt"
	"strings"
)

// longestShownLine bounds a line of a diff. Of longer ones the changed part is shown alone.
const longestShownLine = 200

// maxDiffEdits bounds how many lines of a diff may differ.
const maxDiffEdits = 1000

// formatDiff returns what changes from one text to the other, line by line, under the name
// of the file. It shows no line that stays. Where something is put into a line or taken out
// of it, it shows that part alone: what else stands in the file can be secret.
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

// unshown stands for a line of a pair whose other line says all.
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
		return unshown, unshown // the line's end alone
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

// findHunks compares two texts, line by line, after Myers: with the fewest lines that differ.
// If very many do, all between the first and the last one count.
func findHunks(from, to []string) []hunk {
	begin, end := countShared(from, to)
	a, b := from[begin:len(from)-end], to[begin:len(to)-end]
	if len(a) == 0 || len(b) == 0 {
		return []hunk{{span{begin, begin + len(a)}, span{begin, begin + len(b)}}}
	}
	steps := [][]int{} // of each number of edits: how far each diagonal comes in a
	offset := maxDiffEdits + 1
	reach := make([]int, 2*offset+1)
	for edits := 0; edits <= maxDiffEdits; edits++ {
		steps = append(steps, append([]int(nil), reach[offset-edits-1:offset+edits+2]...))
		for k := -edits; k <= edits; k += 2 {
			x := 0
			switch {
			case edits == 0:
			case k == -edits || k != edits && reach[offset+k-1] < reach[offset+k+1]:
				x = reach[offset+k+1]
			default:
				x = reach[offset+k-1] + 1
			}
			for x < len(a) && x-k < len(b) && a[x] == b[x-k] {
				x++
			}
			reach[offset+k] = x
			if x >= len(a) && x-k >= len(b) {
				return traceHunks(steps, len(a), len(b), begin)
			}
		}
	}
	return []hunk{{span{begin, begin + len(a)}, span{begin, begin + len(b)}}}
}

// traceHunks walks the steps of findHunks back.
func traceHunks(steps [][]int, x, y, begin int) []hunk {
	var back []hunk
	add := func(from, to span) {
		if n := len(back); n > 0 && back[n-1].from.start == from.end && back[n-1].to.start == to.end {
			back[n-1].from.start, back[n-1].to.start = from.start, to.start
			return
		}
		back = append(back, hunk{from, to})
	}
	for edits := len(steps) - 1; edits > 0; edits-- {
		reach := func(k int) int { return steps[edits][k+edits+1] }
		k := x - y
		down := k == -edits || k != edits && reach(k-1) < reach(k+1)
		var px, py int
		if down {
			px = reach(k + 1)
			py = px - k - 1
			for x > px && y > py+1 {
				x, y = x-1, y-1
			}
			add(span{begin + px, begin + px}, span{begin + py, begin + py + 1})
		} else {
			px = reach(k - 1)
			py = px - k + 1
			for x > px+1 && y > py {
				x, y = x-1, y-1
			}
			add(span{begin + px, begin + px + 1}, span{begin + py, begin + py})
		}
		x, y = px, py
	}
	hunks := make([]hunk, 0, len(back))
	for i := len(back) - 1; i >= 0; i-- {
		hunks = append(hunks, back[i])
	}
	return hunks
}
