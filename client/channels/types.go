package channels

import (
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// MessageType is what a message is for.
type MessageType string

// The types of messages.
const (
	TypeRequest   MessageType = "request"
	TypeResponse  MessageType = "response"
	TypeNotify    MessageType = "notify"
	TypeBroadcast MessageType = "broadcast"
)

// MessageStatus is how far a message has come.
type MessageStatus string

// The statuses of a message.
const (
	StatusPending   MessageStatus = "pending" // kept here until its host is back
	StatusRefused   MessageStatus = "refused" // by its host, after it was pending
	StatusDelivered MessageStatus = "delivered"
	StatusRead      MessageStatus = "read"
	StatusExpired   MessageStatus = "expired"
)

// ChannelStatus says whether a channel takes messages.
type ChannelStatus string

// The statuses of a channel.
const (
	StatusOpen   ChannelStatus = "open"
	StatusClosed ChannelStatus = "closed"
)

// MemberPolicy says who may take part in a channel.
type MemberPolicy string

// The policies of a channel.
const (
	PolicyIntent   MemberPolicy = "intent" // every agent with access to the intent
	PolicyExplicit MemberPolicy = "explicit"
)

// Time is a time that a request writes in UTC, with microseconds.
type Time struct{ time.Time }

// MarshalJSONTo writes the time as the API's lists do.
func (t Time) MarshalJSONTo(enc *jsontext.Encoder) error {
	return enc.WriteToken(jsontext.String(t.UTC().Format("2006-01-02T15:04:05.000000+00:00")))
}

// UnmarshalJSONFrom reads RFC 3339 or null.
func (t *Time) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	return json.UnmarshalDecode(dec, &t.Time)
}

// IntentParams are what an intent is created with.
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
}

// ChannelParams are what a channel is created with.
type ChannelParams struct {
	Policy  MemberPolicy   `json:"member_policy,omitzero"` // "": PolicyIntent
	Members []string       `json:"members,omitempty"`      // with PolicyExplicit
	Name    string         `json:"name"`
	Options ChannelOptions `json:"options"`
	TaskID  string         `json:"task_id,omitzero"` // the channel closes when the task is over
}

// ChannelOptions are what a channel does with its messages.
type ChannelOptions struct {
	Audit       bool  `json:"audit,omitzero"`        // keep each message in the intent's log too
	MaxMessages int   `json:"max_messages,omitzero"` // 0: 1,000
	TTLSecs     int64 `json:"ttl_seconds,omitzero"`  // the channel closes so long after the last message; 0: never
}

// ChannelChange is what changes of a channel.
type ChannelChange struct {
	Status ChannelStatus `json:"status"`
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
}

// SendParams are what a message is sent with.
type SendParams struct {
	ExpiresAt Time           `json:"expires_at,omitzero"` // nobody needs to read it any more then
	Type      MessageType    `json:"message_type"`
	Metadata  jsontext.Value `json:"metadata,omitempty"`
	Payload   jsontext.Value `json:"payload"`
	To        string         `json:"to,omitzero"` // an agent or role:ROLE; "": everybody
}

// AskParams are what a request that is waited for is sent with.
type AskParams struct {
	All          bool           `json:"all"`           // wait for everybody, or what there is at the timeout
	MinResponses int            `json:"min_responses"` // 0: one
	Payload      jsontext.Value `json:"payload"`
	TimeoutSecs  float64        `json:"timeout"` // 0: 30 s; at most an hour
	To           string         `json:"to"`      // an agent or role:ROLE
}

// Responses are what an ask for several responses returns.
type Responses struct {
	Request   Message   `json:"request"`
	Responses []Message `json:"responses"`
}

// ReplyParams are what a response is sent with.
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
}
