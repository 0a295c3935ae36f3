package client

import (
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// AttachParams are the params of attach, whose result is Attached. From then on the daemon
// hands messages for the agent to this connection, and its calls are the agent's.
type AttachParams struct {
	Name          string              `json:"name"`
	Kinds         []string            `json:"kinds,omitempty"`   // empty: all that the daemon hands out
	Domains       []string            `json:"domains,omitempty"` // empty: any
	Topics        []string            `json:"topics,omitempty"`  // empty: any
	Capabilities  *kinds.Capabilities `json:"capabilities,omitzero"`
	MaxConcurrent int                 `json:"max_concurrent,omitzero"` // queries and delegations at a time; 0: 4
	TakeOver      bool                `json:"take_over,omitzero"`      // replace an agent of that name; not in the agents' folder
	Key           string              `json:"key,omitzero"`            // what an earlier attach of the name returned; "": the daemon draws one
	Session       *SessionInfo        `json:"session,omitzero"`        // the agent is a live session, which answers only while it has a turn; nil: it answers by itself
	About         string              `json:"about,omitzero"`          // what it is for, which peers can read: one line of at most 120 characters
}

const (
	MaxSessionText = 64  // bytes of SessionInfo.Harness and Version
	MaxReason      = 200 // bytes of SessionInfo.Unwakeable
)

// SessionInfo says which program a session runs in.
//
// A notify, result or error for a session goes to the inbox first. Then the daemon calls
// wake, with which it tells the session of the message.
type SessionInfo struct {
	Harness string `json:"harness"`          // such as claude, codex, opencode
	Version string `json:"version,omitzero"` // of the program

	// Unwakeable says why nothing can wake the session, in a line for the daemon's owner: "it has
	// no folder ~/.codex here". "": something can wake it.
	Unwakeable string `json:"unwakeable,omitzero"`

	// Asks is the program, such as Codex, if it asks its user before a tool runs, and waits for the answer.
	// It is empty if nobody is asked.
	Asks string `json:"asks,omitzero"`

	// Folder identifies the directory of the session: sessions with the same one are in one directory.
	// Begun is when the session began. If a program has several sessions in one directory, a message that
	// names no session goes to the one that began last.
	Folder string `json:"folder,omitzero"`
	Begun  Time   `json:"begun,omitzero"`
}

// WakeGrant is the daemon's word that a session may be woken for a message. It rests on what
// the daemon's owner has allowed, and on the bounds of woken turns.
type WakeGrant struct {
	Unattended bool `json:"unattended"`    // also if nobody is there to be asked for permissions
	Test       bool `json:"test,omitzero"` // its owner tries whether it can be woken: there is no message
}

// WakeAnswer is the answer of a session to wake. A session that is busy answers when its turn has ended: the
// daemon waits as long as the session is attached.
type WakeAnswer struct {
	// Posted says that the session's program was given a pointer to the message: a turn begins,
	// or takes the pointer up. It is ignored if the message had no grant.
	Posted bool `json:"posted"`
	// Proven says that the program has proved that the message's text is in the input of the
	// model. The daemon then removes the message from the inbox.
	Proven bool `json:"proven"`
	// Refused says why the program took no pointer and would take none now, in a line for the
	// daemon's owner: "the session is unattended". For a minute, peers then learn that the session
	// answers when it is active. It is "" if the message was read meanwhile, or nobody waits for it.
	Refused string `json:"refused,omitzero"`
	// NeedsPerson says that a person is what is missing: nobody is asked before the session's tools run,
	// or its program waits for its user to allow the pointer. The daemon tells its owner.
	NeedsPerson bool `json:"needs_person,omitzero"`
}

// UnpostedParams are the params of unposted, whose result is {}. It is for sessions that answer wake with
// Posted while they are busy: the program of the session that calls was not given the pointer to the message
// after all. acpctl answers when that is known.
type UnpostedParams struct {
	Peer identity.ID    `json:"peer"` // who sent the message
	ID   wire.MessageID `json:"id"`

	Refused     string `json:"refused,omitzero"`      // as in WakeAnswer
	NeedsPerson bool   `json:"needs_person,omitzero"` // as in WakeAnswer
}

// SessionState is the result of session, which has no params and is for an agent that has
// attached, or a connection that speaks as one.
type SessionState struct {
	Unread  int      `json:"unread"`  // messages in the inbox that are for this agent or for any, counted up to MaxUnread
	Shown   int      `json:"shown"`   // of these, messages that the agent was shown
	Notices []string `json:"notices"` // what the daemon's owner should know of this session, one line each
}

// MaxUnread is the largest value of SessionState.Unread.
const MaxUnread = 99

// Attached is the result of attach.
type Attached struct {
	Key string `json:"key"` // a secret: with it the agent comes back to its name and to what is its own
}

// SpeakParams are the params of speak, whose result is {}: from then on this connection
// calls as the agent of that name, and answers nothing.
type SpeakParams struct {
	Name string `json:"name"`
	Key  string `json:"key"` // what its attach returned
}

// SubscribeParams are the params of subscribe, whose result is {}. Empty filters
// match everything.
type SubscribeParams struct {
	Kinds  []string    `json:"kinds,omitempty"`
	Topics []string    `json:"topics,omitempty"`
	Peers  []string    `json:"peers,omitempty"`
	Events EventFilter `json:"events,omitzero"`
}

// NoKind is the kind of no message: a subscription only to it gets events, and no messages.
const NoKind = "none"

// EventFilter says which events a subscriber gets: all (JSON true), those of the
// listed types, or none (the zero value).
type EventFilter struct {
	All   bool
	Types []EventType
}

// MarshalJSONTo writes true, false or a list.
func (f EventFilter) MarshalJSONTo(enc *jsontext.Encoder) error {
	if f.All || len(f.Types) == 0 {
		return enc.WriteToken(jsontext.Bool(f.All))
	}
	return json.MarshalEncode(enc, f.Types)
}

// UnmarshalJSONFrom reads true, false or a list.
func (f *EventFilter) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	*f = EventFilter{}
	switch dec.PeekKind() {
	case 't', 'f':
		return json.UnmarshalDecode(dec, &f.All)
	case '[':
		return json.UnmarshalDecode(dec, &f.Types)
	}
	if err := dec.SkipValue(); err != nil {
		return err
	}
	return ownwords.New("expected true or a list of types")
}

// MessageDirection says whether a daemon received a message or sent it.
type MessageDirection string

// The directions of a message.
const (
	In  MessageDirection = "in"  // received
	Out MessageDirection = "out" // sent
)

// Message is the params of the notification message: a copy for a subscriber.
type Message struct {
	Envelope  wire.Envelope    `json:"envelope"`
	Direction MessageDirection `json:"direction"`
}

// EventType says what an event tells.
type EventType string

// The types of events.
const (
	EventUp               EventType = "up"                // a peer is connected
	EventMoved            EventType = "moved"             // it is connected at another address, or by another path
	EventDown             EventType = "down"              // it is no longer
	EventRefused          EventType = "refused"           // the peer does not trust this daemon
	EventDiscovered       EventType = "discovered"        // a daemon was found on the network
	EventLost             EventType = "lost"              // it no longer does
	EventPending          EventType = "pending"           // a stranger called
	EventTrust            EventType = "trust"             // a peer was trusted, or its name or addresses changed
	EventIdentityConflict EventType = "identity_conflict" // see the error of that code
	EventMail             EventType = "mail"              // mail came or went, or was parked; the details are a MailEvent
	EventBudget           EventType = "budget"            // a bound kept a session from being woken, or a message of its own from leaving
	EventApproval         EventType = "approval"          // a message waits for the owner's approval before it wakes a session
	EventRelay            EventType = "relay"             // a relay is in use, or no longer; the details are a RelayEvent
	EventKept             EventType = "kept"              // a message is kept for a peer that is away, or has ended; the details are a KeptEvent
	EventMissed           EventType = "missed"            // this subscriber reads too slowly; the details are a Missed. It comes whatever was selected
)

// EventTypes returns all types of events.
func EventTypes() []EventType {
	return []EventType{EventUp, EventMoved, EventDown, EventRefused, EventDiscovered, EventLost, EventPending, EventTrust, EventIdentityConflict, EventMail, EventBudget, EventApproval, EventRelay, EventKept, EventMissed}
}

// Missed is what a subscriber was not sent, since it read too slowly.
type Missed struct {
	Messages uint64 `json:"messages"` // copies
	Events   uint64 `json:"events"`
}

// Event is the params of the notification event.
type Event struct {
	Type    EventType      `json:"type"`
	Peer    identity.ID    `json:"peer,omitzero"`
	Name    string         `json:"name,omitzero"`
	At      time.Time      `json:"at"`
	Details jsontext.Value `json:"details,omitempty"`
}
