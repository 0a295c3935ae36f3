package web

import (
	"cmp"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/kinds"
)

// joinChains says of each open call from which other row it follows, as acpctl waiting does
// (client.FindOpenParents), or about which delegation it asks that is not among the open calls. The rows of the
// open calls are the first, in their order; place has the row of each call.
func joinChains(rows []waitingRow, open []client.TrafficEntry, place map[callKey]int) {
	for i, parent := range client.FindOpenParents(open) {
		e, r := &open[i], &rows[i]
		if parent >= 0 {
			r.After, r.IsGuess = rows[parent].Key, e.Guessed && e.Ref.IsZero()
		}
		if !r.IsAsked {
			continue
		}
		about := callKey{turn(e.Direction), cmp.Or(e.Name, e.Peer.String()), kinds.KindDelegate, e.Ref}
		if at, known := place[about]; known && at >= len(open) {
			r.After = rows[at].Key
		}
	}
}
