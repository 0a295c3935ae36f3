package object

import (
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/openintent/chain"
)

const (
	KindRequest   = "request"
	KindResponse  = "response"
	KindNotify    = "notify"
	KindBroadcast = "broadcast"

	StatusDelivered = "delivered"
	StatusRead      = "read"
	StatusExpired   = "expired"
)

var (
	messageKinds    = []string{KindRequest, KindResponse, KindNotify, KindBroadcast}
	messageStatuses = []string{StatusDelivered, StatusRead, StatusExpired}
)

// SendMessage asks to send a message.
type SendMessage struct {
	Sender      string         `json:"sender"`
	To          *string        `json:"to"`
	Home        string         `json:"home,omitzero"` // of the agent that To names
	Kind        string         `json:"message_type"`
	Correlation *string        `json:"correlation_id"`
	Payload     jsontext.Value `json:"payload"`
	Metadata    jsontext.Value `json:"metadata"`
	ExpiresAt   chain.Time     `json:"expires_at"`
	IntentID    string         `json:"intent_id"` // with it, a channel may be called by its name
}

// Check fills in missing values, and refuses a message that no channel takes. lenient is the
// setting of that name.
func (s *SendMessage) Check(lenient bool) error {
	switch s.Kind {
	case "":
		s.Kind = KindNotify
	case "message": // as the MCP bridge says
		if s.Kind = KindNotify; s.Recipient() == "" {
			s.Kind = KindBroadcast
		}
	}
	to, correlated := s.Recipient(), s.Correlation != nil && *s.Correlation != ""
	role, isRole := strings.CutPrefix(to, ToRole)
	switch {
	case !slices.Contains(messageKinds, s.Kind):
		return NewFieldError("message_type", "one of %s", strings.Join(messageKinds, ", "))
	case to != "" && to != ToAll && !(isRole && IsAgentID(role)) && !IsValidAgentName(to):
		return NewFieldError("to", "an agent's id, role:<role>, or *")
	case s.Home != "" && (to == "" || to == ToAll || isRole):
		return NewFieldError("home", "it says where the agent is at home that to names")
	case s.Kind == KindRequest && to == ToAll:
		return NewFieldError("to", "a request goes to one agent or role")
	case s.Kind == KindRequest && to == "" && !lenient:
		return NewFieldError("to", "a request needs an agent or a role")
	case s.Kind == KindBroadcast && to != "" && to != ToAll:
		return NewFieldError("to", "a broadcast goes to *")
	case s.Kind == KindResponse && !correlated:
		return NewFieldError("correlation_id", "a response needs the id of its request")
	case s.Kind != KindResponse && correlated:
		return NewFieldError("correlation_id", "only a response has one")
	case s.Payload == nil || s.Payload.Kind() == 'n':
		return NewFieldError("payload", "an object is needed: {} if there is nothing to say")
	case s.Metadata.Kind() == 'n':
		return NewFieldError("metadata", "an object is needed, or none at all")
	}
	if err := NormalizeJSONObject("payload", &s.Payload); err != nil {
		return err
	}
	if len(s.Payload) > MaxPayload {
		return NewError("too_large", "payload: %d bytes, at most %d are taken: put large data elsewhere and refer to it", len(s.Payload), MaxPayload)
	}
	return checkMetadata(&s.Metadata)
}

// Recipient returns the recipient, or "" if none is named.
func (s *SendMessage) Recipient() string {
	switch {
	case s.Kind == KindBroadcast && (s.To == nil || *s.To == ""):
		return ToAll
	case s.To == nil:
		return ""
	}
	return *s.To
}

// MaxPayload bounds the payload of a message, in bytes of JSON.
const MaxPayload = 256 << 10

// checkMetadata refuses a v that is no object, or too long.
func checkMetadata(v *jsontext.Value) error {
	const most = 64 << 10
	if err := NormalizeJSONObject("metadata", v); err != nil {
		return err
	}
	if len(*v) > most {
		return NewError("too_large", "metadata: %d bytes, at most %d are taken", len(*v), most)
	}
	return nil
}

// Sent tells the outcome of a send.
type Sent struct {
	Message  jsontext.Value // as its sender sees it
	Repeated bool           // an earlier send with the same key made it
}

// AskMessage asks to send a request and to wait for the responses.
type AskMessage struct {
	Sender   string         `json:"sender"`
	To       *string        `json:"to"`
	Home     string         `json:"home,omitzero"` // of the agent that To names
	Payload  jsontext.Value `json:"payload"`
	Metadata jsontext.Value `json:"metadata"`
	Timeout  float64        `json:"timeout"`       // seconds
	Min      int            `json:"min_responses"` // answer with so many
	All      bool           `json:"all"`           // answer once all have responded, or at the timeout with what there is
}

const (
	askTimeout    = 30 * time.Second
	maxAskTimeout = time.Hour
)

// ParseTimeout returns how long the sender waits.
func (m *AskMessage) ParseTimeout() (time.Duration, error) {
	switch {
	case m.Timeout == 0:
		return askTimeout, nil
	case !(m.Timeout >= 0.001 && m.Timeout <= maxAskTimeout.Seconds()):
		return 0, NewFieldError("timeout", "0.001 to %d seconds", int(maxAskTimeout.Seconds()))
	}
	return time.Duration(m.Timeout * float64(time.Second)), nil
}

// MessageFilter selects the messages of a channel that a list holds. A field that is "" or nil
// selects nothing.
type MessageFilter struct {
	Since  string // those after the message with this id, or after this time
	To     string // those to this agent
	Types  []string
	Status string
	Limit  int
	Wait   time.Duration // for the first message, if there is none
	Plain  bool          // the caller has said none of this: if it waits for a response, it gets that at once
}

// Check refuses values that are not allowed.
func (f *MessageFilter) Check() error {
	if f.Status != "" {
		if err := CheckOneOf("status", f.Status, messageStatuses); err != nil {
			return err
		}
	}
	for _, k := range f.Types {
		if !slices.Contains(messageKinds, k) {
			return NewFieldError("types", "some of %s, with commas", strings.Join(messageKinds, ", "))
		}
	}
	if f.Wait < 0 || f.Wait > MaxWait {
		return NewFieldError("wait", "0 to %d seconds", int(MaxWait.Seconds()))
	}
	return Page{Limit: f.Limit}.CheckBounds()
}

const (
	MaxList      = 1000    // messages in one list
	MaxListBytes = 8 << 20 // after which nothing more is put into a list
	MaxWait      = 60 * time.Second
)
