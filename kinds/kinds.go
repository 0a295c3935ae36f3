// Package kinds says what the messages of ACP/1 mean: one table row for each of
// the twelve kinds (how it travels, what answers it, what its payload holds) and
// one table of error codes.
//
// [CheckEnvelope] validates a whole envelope: its kind, whether ref must be there, and
// its payload, in one pass over the text. That pass also finds the few fields by which
// a daemon routes; they are in the [Checked] envelope. Fields that the tables do not
// name are left alone: they are for the agents. This package does not know how
// messages travel.
package kinds

import (
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/wire"
)

// Class says how a kind travels.
type Class uint8

const (
	Exchange Class = iota // opens a bidirectional stream and is answered there
	Message               // has a unidirectional stream of its own and a receipt
	Reply                 // stands only on the reply half of an exchange
)

// The kinds.
const (
	KindPing         = "ping"
	KindPong         = "pong"
	KindQuery        = "query"
	KindResponse     = "response"
	KindDelegate     = "delegate"
	KindAck          = "ack"
	KindResult       = "result"
	KindNotify       = "notify"
	KindCancel       = "cancel"
	KindDiscover     = "discover"
	KindCapabilities = "capabilities"
	KindError        = "error"
)

// Bounds of payloads, in bytes.
const (
	MaxDomain          = 255      // of a domain or a topic
	MaxPartial         = 64 << 10 // of the payload of a partial result
	MaxProgressMessage = 1 << 10  // of the message in it
	MaxQuestion        = 64 << 10 // of the payload of a question about a delegation, and of that of its answer
)

// Bounds of what capabilities say of agents.
const (
	MaxDetails = 64  // agents
	MaxAbout   = 120 // characters
)

// Kind says how one kind travels, what answers it and what its payload holds.
type Kind struct {
	Name     string
	Class    Class
	Reply    string  // the kind that answers it, beside error; "": none
	NeedsRef bool    // ref names what it answers or concerns
	Fields   []Field // of the payload; others pass unread
}

var kindTable = [...]Kind{
	{KindPing, Exchange, KindPong, false, nil},
	{KindPong, Reply, "", true, []Field{
		newRequiredField("status", newOneOfCheck("idle", "busy", "overloaded")),
		newRequiredField("uptime_secs", checkNumber),
		newRequiredField("active_tasks", checkNumber),
		newOptionalField("agent_name", checkText),
		newOptionalField("attached", checkNumber),
	}},
	{KindQuery, Exchange, KindResponse, false, []Field{
		newRequiredField("question", checkNonEmpty),
		newOptionalField("domain", checkDomainText),
		newOptionalField("max_tokens", checkNumber),
		newOptionalField("deadline_ms", newMillisCheck(MaxQueryDeadline)),
	}},
	{KindResponse, Reply, "", true, []Field{
		newOptionalField("data", acceptAnyValue),
		newRequiredField("summary", checkText),
		newOptionalField("tokens_used", checkNumber),
		newOptionalField("truncated", checkBoolean),
	}},
	{KindDelegate, Exchange, KindAck, false, []Field{
		newRequiredField("task", checkNonEmpty),
		newOptionalField("context", checkObject),
		newOptionalField("priority", newOneOfCheck("normal", "urgent")),
		newOptionalField("report_back", checkBoolean),
		newOptionalField("deadline_ms", newMillisCheck(MaxTaskDeadline)),
		newOptionalField("domain", checkDomainText),
	}},
	{KindAck, Reply, "", true, []Field{
		newRequiredField("accepted", checkBoolean),
		newOptionalField("estimated_ms", checkNumber),
		newOptionalField("code", checkErrorCode),
		newOptionalField("message", checkText),
	}},
	{KindResult, Message, "", true, []Field{
		newRequiredField("status", newOneOfCheck("completed", "failed", "partial")),
		newRequiredField("outcome", checkText),
		newOptionalField("data", acceptAnyValue),
		newOptionalField("error", checkText),
		newOptionalField("progress", checkProgress),
		newOptionalField("message", checkProgressMessage),
	}},
	{KindNotify, Message, "", false, []Field{
		newRequiredField("topic", checkTopic),
		newOptionalField("data", acceptAnyValue),
		newOptionalField("importance", newOneOfCheck("low", "medium", "high")),
	}},
	{KindCancel, Exchange, KindAck, true, []Field{
		newOptionalField("reason", checkText),
	}},
	{KindDiscover, Exchange, KindCapabilities, false, nil},
	{KindCapabilities, Reply, "", true, []Field{
		newOptionalField("agent_name", checkText),
		newOptionalField("agents", checkTexts),
		newOptionalField("sessions", checkTexts),
		newOptionalField("domains", checkTexts),
		newOptionalField("channels", checkTexts),
		newOptionalField("tools", checkTexts),
		newOptionalField("max_concurrent_tasks", checkNumber),
		newOptionalField("model", checkText),
		newOptionalField("details", checkDetails),
	}},
	{KindError, Message, "", true, []Field{
		newRequiredField("code", checkErrorCode),
		newRequiredField("message", checkText),
		newOptionalField("retryable", checkBoolean),
		newOptionalField("retry_after_ms", checkNumber),
		newOptionalField("details", checkObject),
	}},
}

// ListKinds returns the table of all kinds.
func ListKinds() []Kind { return append([]Kind(nil), kindTable[:]...) }

// FindKind returns what the table says of a kind, and false for an unknown one.
func FindKind(name string) (*Kind, bool) {
	for i := range kindTable {
		if kindTable[i].Name == name {
			return &kindTable[i], true
		}
	}
	return nil, false
}

// AllowsReply reports whether reply may stand on the reply half of an exchange that
// a message of kind k opened.
func (k *Kind) AllowsReply(reply string) bool {
	return k.Class == Exchange && (reply == k.Reply || reply == KindError)
}

// CheckPayload validates a payload of this kind, in one pass over its text. The error
// is an *Error with the code invalid and names the field.
func (k *Kind) CheckPayload(p wire.Payload) error {
	_, err := k.readPayload(p)
	return err
}

// ParsePayload decodes a checked payload. For one that was not checked the error is an *Error
// with the code invalid. What a payload quotes is left out: only the own daemon sets [Error.Quoted].
func ParsePayload[T any](p wire.Payload) (*T, error) {
	v := new(T)
	if err := json.Unmarshal(p.Object(), v); err != nil {
		return nil, Errorf(Invalid, "payload: %s", describeSyntaxError(err))
	}
	if e, ok := any(v).(*Error); ok {
		e.Quoted = ""
	}
	return v, nil
}

// EncodePayload encodes a payload struct; JSON text in it stays as it was written. It panics if a
// jsontext.Value in it is not JSON: such values come from a parser.
func EncodePayload(v any) wire.Payload {
	p, err := json.Marshal(v, json.Deterministic(true), jsontext.PreserveRawStrings(true), jsontext.AllowInvalidUTF8(true)) // which turns to U+FFFD
	if err != nil {
		panic("kinds: encode payload: " + err.Error())
	}
	return p
}

func listKindNames() string {
	all := make([]string, len(kindTable))
	for i := range kindTable {
		all[i] = kindTable[i].Name
	}
	return strings.Join(all, ", ")
}
