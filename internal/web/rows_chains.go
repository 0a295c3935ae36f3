package web

// joinChains says of each call from which other one it follows, as acpctl waiting does. A question about a
// delegation names it. Any other call follows from the one that waits for its caller, if that began before, in
// the same thread and one hop before. If several are so, it follows from none: what the daemon knows does not tell
// them apart. Peers choose threads and hops, so a chain says no more than
// who waits for whom.
func joinChains(rows []waitingRow) {
	calls, called := make(map[callKey]int), make(map[party][]int)
	for i := range rows {
		if r := &rows[i]; r.call != (callKey{}) {
			calls[r.call] = i
			called[r.Whom] = append(called[r.Whom], i)
		}
	}
	for i := range rows {
		r := &rows[i]
		if at, there := calls[r.about]; there {
			r.After = rows[at].Key
		} else if at := findBefore(rows, called[r.Who], r); at >= 0 {
			r.After = rows[at].Key
		}
	}
}

// findBefore returns which one of some rows, which wait for r's caller, r follows from; -1: it is not known.
func findBefore(rows []waitingRow, some []int, r *waitingRow) int {
	found := -1
	if r.hops == 0 || r.Who.Agent == "" || r.Since.IsZero() {
		return found
	}
	for _, at := range some {
		b := &rows[at]
		if b.hops != r.hops-1 || b.thread != r.thread || b.Since.IsZero() || !b.Since.Before(r.Since.Time) {
			continue
		}
		if found >= 0 {
			return -1
		}
		found = at
	}
	return found
}
