package web

import (
	"cmp"
	"time"

	"github.com/acpd/acpd/client"
)

// line is a message or an event that has passed.
type line struct {
	N    uint64    `json:"n"`
	At   time.Time `json:"at"`   // of a message: when it ended, as lines come in that order
	Peer string    `json:"peer"` // its name, or the beginning of its id
	ID   string    `json:"id"`   // of the peer

	// Of a message.
	Seq       uint64 `json:"seq,omitzero"` // the daemon's number of it
	Direction string `json:"dir,omitzero"`
	From      string `json:"from,omitzero"` // agents
	To        string `json:"to,omitzero"`
	Kind      string `json:"kind,omitzero"`
	Thread    string `json:"thread,omitzero"`
	Topic     string `json:"topic,omitzero"`
	Text      string `json:"text"`
	Answer    string `json:"answer,omitzero"`
	Outcome   string `json:"outcome,omitzero"`
	TookUS    uint64 `json:"took_us,omitzero"`

	Event string `json:"event,omitzero"` // its type; "": a message
	Lost  uint64 `json:"lost,omitzero"`  // messages that nobody read in time; then this is no message

	// Owner is the trusted peer in whose share the line is; "" for the share of all strangers, of whom there may
	// be any number, and of lines without a peer.
	Owner string `json:"owner,omitzero"`
}

func (l *line) setNumber(n uint64) { l.N = n }

func (l *line) owner() string { return l.Owner }

func newMessageLine(e *client.TrafficEntry) *line {
	return &line{
		At: e.At.Add(time.Duration(e.TookUS) * time.Microsecond), Peer: showName(cmp.Or(e.Name, e.Peer.Label())), ID: e.Peer.String(), Owner: e.Peer.String(), Seq: e.Seq, Direction: string(e.Direction),
		From: showName(e.FromAgent), To: showName(e.Agent), Kind: showName(e.Kind), Thread: showName(e.Thread), Topic: showName(e.Topic),
		Text: showLine(e.Text, maxShown), Answer: showLine(e.Answer, maxShown), Outcome: showName(e.Outcome), TookUS: e.TookUS,
	}
}

func newEventLine(e *client.Event) *line {
	l := &line{At: e.At, Event: showName(string(e.Type)), Text: showLine(e.DescribeDetails(), maxShown)}
	if !e.Peer.IsZero() {
		l.Peer, l.ID = showName(cmp.Or(e.Name, e.Peer.Label())), e.Peer.String()
	}
	if e.Name != "" {
		l.Owner = l.ID
	}
	return l
}
