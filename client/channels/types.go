package channels

import (
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// MessageType says what a message is for.
type MessageType string

// The types of messages.
const (
	TypeRequest   MessageType = "request"   // to an agent or role, which replies
	TypeResponse  MessageType = "response"  // to a request
	TypeNotify    MessageType = "notify"    // to anybody
	TypeBroadcast MessageType = "broadcast" // to everybody
)

// MessageStatus says how far a message has come.
type MessageStatus string

// The statuses of a message.
const (
	StatusPending   MessageStatus = "pending"   // kept here until its host is back
	StatusRefused   MessageStatus = "refused"   // by its host, after it was pending
	StatusDelivered MessageStatus = "delivered" // stored by its host
	StatusRead      MessageStatus = "read"      // its recipient has said so
	StatusExpired   MessageStatus = "expired"   // its ExpiresAt has passed
)

// ChannelStatus says whether a channel takes messages.
type ChannelStatus string

// The statuses of a channel.
const (
	StatusOpen   ChannelStatus = "open"
	StatusClosed ChannelStatus = "closed" // for good
)

// MemberPolicy says who may take part in a channel.
type MemberPolicy string

// The policies of a channel.
const (
	PolicyIntent   MemberPolicy = "intent"   // every agent with access to the intent
	PolicyExplicit MemberPolicy = "explicit" // only the channel's members
)

// Time is a time that a request writes in UTC, with microseconds.
type Time struct{ time.Time }

// MarshalJSONTo writes RFC 3339 in UTC, with microseconds, as the API's lists do.
func (t Time) MarshalJSONTo(enc *jsontext.Encoder) error {
	return enc.WriteToken(jsontext.String(t.UTC().Format("2006-01-02T15:04:05.000000+00:00")))
}

// UnmarshalJSONFrom reads RFC 3339 or null.
func (t *Time) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	return json.UnmarshalDecode(dec, &t.Time)
}

// IntentParams describe a new intent.
type IntentParams struct {
	Title       string `json:"title"`
	Description string `json:"description,omitzero"`
}

// Intent is a shared purpose, with its channels.
type Intent struct {
	ID          string         `json:"id"`
	Title       string         `json:"title"`
	Description string         `json:"description"`
	Version     int64          `json:"version"`
	Status      string         `json:"status"`
	State       jsontext.Value `json:"state"`
	CreatedBy   string         `json:"created_by"`
	CreatedAt   Time           `json:"created_at"`
	UpdatedAt   Time           `json:"updated_at"`
	JSON        jsontext.Value `json:"-"` // the whole object as the daemon answered it
}

// ChannelParams describe a new channel.
type ChannelParams struct {
	Policy  MemberPolicy   `json:"member_policy,omitzero"` // "": PolicyIntent
	Members []string       `json:"members,omitempty"`      // with PolicyExplicit
	Name    string         `json:"name"`
	Options ChannelOptions `json:"options"`
	TaskID  string         `json:"task_id,omitzero"` // the channel closes when the task is over
}

// ChannelOptions say what a channel does with its messages.
type ChannelOptions struct {
	Audit       bool  `json:"audit,omitzero"`        // keep each message in the intent's log too
	MaxMessages int   `json:"max_messages,omitzero"` // 0: 1,000
	TTLSecs     int64 `json:"ttl_seconds,omitzero"`  // the channel closes so long after the last message; 0: never
}

// ChannelChange says what changes of a channel. Zero values change nothing.
type ChannelChange struct {
	AddMembers    []string      `json:"add_members,omitempty"`
	RemoveMembers []string      `json:"remove_members,omitempty"`
	Status        ChannelStatus `json:"status,omitzero"` // StatusClosed: for good
}

// DeletedChannel is the answer to the removal of a channel.
type DeletedChannel struct {
	ChannelID string         `json:"channel_id"`
	JSON      jsontext.Value `json:"-"` // the whole object as the daemon answered it
}

// Channel is a named conversation inside an intent.
type Channel struct {
	ID            string         `json:"id"`
	IntentID      string         `json:"intent_id"`
	TaskID        string         `json:"task_id"` // "": none
	Name          string         `json:"name"`
	CreatedBy     string         `json:"created_by"`
	Home          string         `json:"home"` // daemon of the creator; "": the host
	Members       []string       `json:"members"`
	Policy        MemberPolicy   `json:"member_policy"`
	Options       ChannelOptions `json:"options"`
	Status        ChannelStatus  `json:"status"`
	CreatedAt     Time           `json:"created_at"`
	ClosedAt      Time           `json:"closed_at"` // zero: it is open
	MessageCount  int64          `json:"message_count"`
	LastMessageAt Time           `json:"last_message_at"` // zero: there was none
	Restricted    bool           `json:"restricted"`      // the caller is no member and sees nothing else
	JSON          jsontext.Value `json:"-"`               // the whole object as the daemon answered it
}

// SendParams describe a message to send.
type SendParams struct {
	ExpiresAt Time           `json:"expires_at,omitzero"` // nobody needs to read it any more then; zero: never, or for a request the host's default
	Type      MessageType    `json:"message_type"`
	Metadata  jsontext.Value `json:"metadata,omitempty"`
	Payload   jsontext.Value `json:"payload"`
	To        string         `json:"to,omitzero"` // an agent or role:ROLE; "": everybody
}

// AskParams describe a request whose responses the caller waits for.
type AskParams struct {
	All          bool           `json:"all"`           // wait for everybody, or what there is at the timeout
	MinResponses int            `json:"min_responses"` // 0: one
	Payload      jsontext.Value `json:"payload"`
	TimeoutSecs  float64        `json:"timeout"` // 0: 30 s; at most an hour
	To           string         `json:"to"`      // an agent or role:ROLE
}

// Responses are the answer to an ask for several responses.
type Responses struct {
	Request   Message        `json:"request"`
	Responses []Message      `json:"responses"`
	JSON      jsontext.Value `json:"-"` // the whole object as the daemon answered it
}

// ReplyParams describe a response to send.
type ReplyParams struct {
	Metadata jsontext.Value `json:"metadata,omitempty"`
	Payload  jsontext.Value `json:"payload"`
}

// Message is a message of a channel.
type Message struct {
	ID            string         `json:"id"`
	ChannelID     string         `json:"channel_id"`
	Sender        string         `json:"sender"`
	To            string         `json:"to"` // "": everybody
	Type          MessageType    `json:"message_type"`
	CorrelationID string         `json:"correlation_id"` // of a response: the id of its request
	Payload       jsontext.Value `json:"payload"`
	Metadata      jsontext.Value `json:"metadata"`
	Status        MessageStatus  `json:"status"`
	CreatedAt     Time           `json:"created_at"`
	ExpiresAt     Time           `json:"expires_at"` // zero: never
	JSON          jsontext.Value `json:"-"`          // the whole object as the daemon answered it

	// Only messages that have not come to their host have these.
	IntentID    string      `json:"intent_id"`    // of a message to a channel by its name
	ChannelName string      `json:"channel_name"` // of the same
	Refusal     HostRefusal `json:"refusal"`      // with StatusRefused
	Seq         int64       `json:"seq"`          // its place in [Client.Unsent]
}

// HostRefusal says why a host did not take a message that was pending.
type HostRefusal struct {
	Status  int    `json:"status"` // of HTTP
	Code    string `json:"error"`  // of the API
	Message string `json:"message"`
}

// RegisterParams describe an agent to register.
type RegisterParams struct {
	ID           string         `json:"agent_id"`
	Role         string         `json:"role_id,omitzero"`
	Name         string         `json:"name,omitzero"`
	Capabilities []string       `json:"capabilities,omitempty"`
	Metadata     jsontext.Value `json:"metadata,omitempty"`
	PublicKey    string         `json:"public_key,omitzero"`
}

// Agent is a registered agent.
type Agent struct {
	ID           string         `json:"agent_id"`
	Role         string         `json:"role_id"` // "": none
	Name         string         `json:"name"`
	Status       string         `json:"status"`
	Capabilities []string       `json:"capabilities"`
	Metadata     jsontext.Value `json:"metadata"`
	PublicKey    string         `json:"public_key"`
	Host         string         `json:"host"` // id of the daemon where the agent is at home; "": the caller's
	RegisteredAt Time           `json:"registered_at"`
	LastSeen     Time           `json:"last_heartbeat_at"`
	JSON         jsontext.Value `json:"-"` // the whole object as the daemon answered it
}

// Home says where an agent that has used an intent is at home.
type Home struct {
	Agent string         `json:"agent_id"`
	Home  string         `json:"home"` // id of the daemon; "": the intent's host
	JSON  jsontext.Value `json:"-"`    // the whole object as the daemon answered it
}

// decodeObject decodes an object into fields, and keeps a copy of it in text.
func decodeObject(dec *jsontext.Decoder, fields any, text *jsontext.Value) error {
	v, err := dec.ReadValue()
	if err != nil {
		return err
	}
	*text = v.Clone()
	return json.Unmarshal(v, fields)
}

// Each type of an answer keeps the text in addition to its fields, which may not have all of it.

func (i *Intent) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	type fields Intent
	return decodeObject(dec, (*fields)(i), &i.JSON)
}

func (c *Channel) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	type fields Channel
	return decodeObject(dec, (*fields)(c), &c.JSON)
}

func (d *DeletedChannel) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	type fields DeletedChannel
	return decodeObject(dec, (*fields)(d), &d.JSON)
}

func (m *Message) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	type fields Message
	return decodeObject(dec, (*fields)(m), &m.JSON)
}

func (r *Responses) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	type fields Responses
	return decodeObject(dec, (*fields)(r), &r.JSON)
}

func (a *Agent) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	type fields Agent
	return decodeObject(dec, (*fields)(a), &a.JSON)
}

func (h *Home) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	type fields Home
	return decodeObject(dec, (*fields)(h), &h.JSON)
}
