package client

import (
	"errors"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// AttachParams are the params of attach, whose result is Attached: from then on this
// connection answers.
type AttachParams struct {
	Name          string              `json:"name"`
	Kinds         []string            `json:"kinds,omitempty"`   // empty: all that the daemon hands out
	Domains       []string            `json:"domains,omitempty"` // empty: any
	Topics        []string            `json:"topics,omitempty"`  // empty: any
	Capabilities  *kinds.Capabilities `json:"capabilities,omitzero"`
	MaxConcurrent int                 `json:"max_concurrent,omitzero"` // 0: 4
	TakeOver      bool                `json:"take_over,omitzero"`      // replace an agent of that name; not in the agents' folder
	Key           string              `json:"key,omitzero"`            // what an earlier attach of the name returned; "": the daemon draws one
}

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
	return errors.New("expected true or a list of types")
}

// MessageDirection tells whether a message came or went.
type MessageDirection string

// The directions of a message.
const (
	In  MessageDirection = "in"
	Out MessageDirection = "out"
)

// Message is the params of the notification message: a copy for a subscriber.
type Message struct {
	Envelope  wire.Envelope    `json:"envelope"`
	Direction MessageDirection `json:"direction"`
}

// EventType is what an event tells.
type EventType string

// The types of events.
const (
	EventUp               EventType = "up"
	EventDown             EventType = "down"
	EventRefused          EventType = "refused" // the peer does not trust this daemon
	EventDiscovered       EventType = "discovered"
	EventLost             EventType = "lost"
	EventPending          EventType = "pending"
	EventTrust            EventType = "trust"
	EventIdentityConflict EventType = "identity_conflict"
	EventMail             EventType = "mail"
)

// EventTypes returns all of them.
func EventTypes() []EventType {
	return []EventType{EventUp, EventDown, EventRefused, EventDiscovered, EventLost, EventPending, EventTrust, EventIdentityConflict, EventMail}
}

// Event is the params of the notification event.
type Event struct {
	Type    EventType      `json:"type"`
	Peer    identity.ID    `json:"peer,omitzero"`
	Name    string         `json:"name,omitzero"`
	At      time.Time      `json:"at"`
	Details jsontext.Value `json:"details,omitempty"`
}
