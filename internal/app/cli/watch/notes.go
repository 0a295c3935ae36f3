package watch

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/internal/app/cli/ui"
	"github.com/acpd/acpd/kinds"
)

// callNotes is what a daemon knows in addition to its open calls: which peers are connected, and the deadlines of
// delegations. It knows no deadlines of queries.
type callNotes struct {
	*frame.Frame
	peers map[identity.ID]client.Peer
	tasks []client.Task
}

// readCallNotes asks the daemon for what waiting says of these calls.
func readCallNotes(ctx context.Context, f *frame.Frame, open []client.TrafficEntry) (*callNotes, error) {
	n := &callNotes{Frame: f, peers: make(map[identity.ID]client.Peer)}
	if len(open) == 0 {
		return n, nil
	}
	peers, err := f.Daemon.Peers(ctx)
	if err != nil {
		return nil, err
	}
	for _, p := range peers {
		n.peers[p.ID] = p
	}
	if slices.ContainsFunc(open, func(e client.TrafficEntry) bool { return e.Kind == kinds.KindDelegate }) {
		n.tasks, err = f.Daemon.Tasks(ctx)
	}
	return n, err
}

// describeCall returns what a line about an open call says behind its text, "" if it is nothing.
func (n *callNotes) describeCall(e *client.TrafficEntry) string {
	return ui.JoinNotes(n.describePeerAway(e), n.DescribeAgentAway(e.Agent, e.AgentAwaySince), n.describeDeadline(e))
}

// describePeerAway says that the peer of a call is not connected: "" if it is.
func (n *callNotes) describePeerAway(e *client.TrafficEntry) string {
	p := n.peers[e.Peer]
	if p.State == client.PeerConnected {
		return ""
	}
	text := "not connected" // the row tells which peer
	if !p.LastSeen.IsZero() && p.LastSeen.Unix() > 0 {
		text += ", seen last at " + n.FormatClock(p.LastSeen.Time)
	}
	return text
}

// describeDeadline says when an open delegation is over, done or not: "" if it has no deadline.
func (n *callNotes) describeDeadline(e *client.TrafficEntry) string {
	direction := client.Given
	if e.Direction == client.In {
		direction = client.Taken
	}
	peer := cmp.Or(e.Name, e.Peer.String())
	i := slices.IndexFunc(n.tasks, func(t client.Task) bool { return t.ID == e.ID && t.Direction == direction && t.Peer == peer })
	switch {
	case e.Kind != kinds.KindDelegate || i < 0 || n.tasks[i].Deadline.IsZero():
		return ""
	case time.Now().After(n.tasks[i].Deadline.Time):
		return "past its deadline"
	}
	return "deadline " + n.FormatClock(n.tasks[i].Deadline.Time)
}

// setApart returns what somebody has said so that it cannot look like a note behind it: in quotes if it has
// brackets or quotes.
func setApart(text string) string {
	if strings.ContainsAny(text, `("`) {
		return strconv.Quote(text)
	}
	return text
}
