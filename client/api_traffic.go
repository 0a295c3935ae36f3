package client

import (
	"context"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/wire"
)

// MethodTraffic is the method by which the daemon's owner watches the messages that pass.
const MethodTraffic = "traffic"

const (
	MaxTrafficFilter  = 64               // items of each list of TrafficParams
	MaxTrafficEntries = 1000             // entries of one answer, and as many open calls
	MaxTrafficWait    = 30 * time.Second // TrafficParams.WaitMS
	MaxTrafficText    = 200              // bytes of TrafficEntry.Text and Answer
)

// TrafficParams are the params of traffic. Empty filters match everything. The first call on a
// connection begins to watch: of what passed before, the history is there unless config.yaml turns it off.
// The end of the connection ends it.
type TrafficParams struct {
	After  uint64 `json:"after,omitzero"`   // Next of the answer that this one continues; 0: from the oldest entry that is kept, or from now on if the history is off
	Limit  int    `json:"limit,omitzero"`   // of entries; 0: MaxTrafficEntries, which is also the most
	WaitMS uint64 `json:"wait_ms,omitzero"` // answer when an entry has come, or after so long; up to MaxTrafficWait; 0: at once

	Kinds   []string `json:"kinds,omitempty"`
	Topics  []string `json:"topics,omitempty"` // of notifies; "ci" is also "ci.test"
	Peers   []string `json:"peers,omitempty"`
	Threads []string `json:"threads,omitempty"`
	Agents  []string `json:"agents,omitempty"` // the agent that sent it, or that it is for

	Payload bool `json:"payload,omitzero"` // entries have their payloads
	Open    bool `json:"open,omitzero"`    // the answer has the open calls
}

// TrafficAnswer is the result of traffic.
type TrafficAnswer struct {
	Entries []TrafficEntry `json:"entries"` // in the order in which they ended
	Next    uint64         `json:"next"`    // the After that continues; never 0
	Lost    uint64         `json:"lost"`    // entries behind After that are not kept, or no longer, whatever the filter

	// Open has the queries and delegations that are open now, the oldest first, at most
	// MaxTrafficEntries, also those that began when nobody watched. nil: they were not asked for.
	Open     []TrafficEntry `json:"open,omitzero"`
	OpenMore int            `json:"open_more,omitzero"` // open calls that are not there for want of room: peers have turns then
}

// TrafficEntry is one message that has passed the daemon, with what became of it; or in
// TrafficAnswer.Open a call that has no outcome yet.
type TrafficEntry struct {
	Seq       uint64           `json:"seq,omitzero"` // 0: the call is open
	At        time.Time        `json:"at"`           // when it began
	Direction MessageDirection `json:"direction"`
	Peer      identity.ID      `json:"peer"`                // who sent it, or to whom it went
	Name      string           `json:"name"`                // petname of the peer; "" if it has no petname any more
	Agent     string           `json:"agent,omitzero"`      // the agent that it is for; in: the one that was chosen, if that is known
	FromAgent string           `json:"from_agent,omitzero"` // the agent that sent it; in: a claim of the peer's daemon
	Kind      string           `json:"kind"`
	ID        wire.MessageID   `json:"id"`
	Ref       wire.MessageID   `json:"ref,omitzero"`
	Thread    string           `json:"thread,omitzero"`
	Hops      uint64           `json:"hops,omitzero"`    // of an open call: messages that led to it; in: as the sender says
	Parent    wire.MessageID   `json:"parent,omitzero"`  // out: the message that led to it, as the caller has named it
	Guessed   bool             `json:"guessed,omitzero"` // Parent is a guess of the caller's
	Chain     string           `json:"chain,omitzero"`   // name of the chain that it belongs to, 32 hex digits, the same at each daemon; in: as the sender says
	Topic     string           `json:"topic,omitzero"`
	Text      string           `json:"text"`            // the beginning of what it says, on one line, without what a terminal would obey
	Answer    string           `json:"answer,omitzero"` // likewise of its reply, or of the error that it ended with
	Bytes     int              `json:"bytes"`           // of the payload
	Outcome   string           `json:"outcome"`         // ok, handed, held, sent or refused, or the code of the error; "": it is open
	TookUS    uint64           `json:"took_us"`         // from At until there was an outcome, or until now

	AgentAwaySince Time `json:"agent_away_since,omitzero"` // of an open delegation that came: since when no agent of the name Agent is attached; null, and left out: one is

	Payload       wire.Payload `json:"payload,omitzero"`        // if it was asked for, and Bytes is at most 64 KiB
	AnswerPayload wire.Payload `json:"answer_payload,omitzero"` // likewise of the reply
}

// The outcomes of a TrafficEntry that are no code of an error.
const (
	TrafficOK     = "ok"           // a request has its reply; a partial result that no agent took is with its delegation
	TrafficHanded = string(Handed) // as of a receipt
	TrafficHeld   = string(Held)
	TrafficSent   = string(Sent)

	TrafficRefused = string(TaskRefused) // the ack of a delegate or cancel says no
)

// Traffic returns messages that have passed the daemon, as p selects them. With p.WaitMS it blocks
// until there is one, or so long. The daemon keeps some thousands: a caller that comes too late is
// told how many it has missed.
func (c *Client) Traffic(ctx context.Context, p *TrafficParams) (*TrafficAnswer, error) {
	wait := time.Duration(min(p.WaitMS, uint64(MaxTrafficWait.Milliseconds()))) * time.Millisecond
	r := new(TrafficAnswer)
	return r, c.callWhileDaemonAlive(ctx, wait+grace, MethodTraffic, p, r)
}
