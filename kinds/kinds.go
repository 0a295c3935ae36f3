// Package kinds says what the messages of ACP/1 mean: one table row for each of
// the twelve kinds (how it travels, what answers it, what its payload holds) and
// one table of error codes.
//
// [Check] validates a whole envelope: its kind, whether ref must be there, and
// its payload, in one pass over the text. That pass also finds the few fields by which
// a daemon routes; they are in the [Checked] envelope. Fields that the tables do not
// name are left alone: they are for the agents. This package does not know how
// messages travel.
package kinds

import (
	"strings"
	"time"

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

// Bounds of what a payload may ask for.
const (
	DefaultQueryDeadline = 30 * time.Second
	MaxQueryDeadline     = 600 * time.Second
	MaxTaskDeadline      = 30 * 24 * time.Hour
	MaxDomain            = 255 // bytes of a domain or topic
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
		required("status", oneOf("idle", "busy", "overloaded")),
		required("uptime_secs", number),
		required("active_tasks", number),
		optional("agent_name", text),
		optional("attached", number),
	}},
	{KindQuery, Exchange, KindResponse, false, []Field{
		required("question", nonEmpty),
		optional("domain", domainText),
		optional("max_tokens", number),
		optional("deadline_ms", millis(MaxQueryDeadline)),
	}},
	{KindResponse, Reply, "", true, []Field{
		optional("data", anything),
		required("summary", text),
		optional("tokens_used", number),
		optional("truncated", boolean),
	}},
	{KindDelegate, Exchange, KindAck, false, []Field{
		required("task", nonEmpty),
		optional("context", object),
		optional("priority", oneOf("normal", "urgent")),
		optional("report_back", boolean),
		optional("deadline_ms", millis(MaxTaskDeadline)),
		optional("domain", domainText),
	}},
	{KindAck, Reply, "", true, []Field{
		required("accepted", boolean),
		optional("estimated_ms", number),
		optional("code", errorCode),
		optional("message", text),
	}},
	{KindResult, Message, "", true, []Field{
		required("status", oneOf("completed", "failed", "partial")),
		required("outcome", text),
		optional("data", anything),
		optional("error", text),
	}},
	{KindNotify, Message, "", false, []Field{
		required("topic", topic),
		optional("data", anything),
		optional("importance", oneOf("low", "medium", "high")),
	}},
	{KindCancel, Exchange, KindAck, true, []Field{
		optional("reason", text),
	}},
	{KindDiscover, Exchange, KindCapabilities, false, nil},
	{KindCapabilities, Reply, "", true, []Field{
		optional("agent_name", text),
		optional("agents", texts),
		optional("domains", texts),
		optional("channels", texts),
		optional("tools", texts),
		optional("max_concurrent_tasks", number),
		optional("model", text),
	}},
	{KindError, Message, "", true, []Field{
		required("code", errorCode),
		required("message", text),
		optional("retryable", boolean),
		optional("retry_after_ms", number),
		optional("details", object),
	}},
}

// Table returns the table of all kinds.
func Table() []Kind { return append([]Kind(nil), kindTable[:]...) }

// Lookup returns what the table says of a kind, and false for an unknown one.
func Lookup(name string) (*Kind, bool) {
	for i := range kindTable {
		if kindTable[i].Name == name {
			return &kindTable[i], true
		}
	}
	return nil, false
}

// Answers reports whether reply may stand on the reply half of an exchange that
// a message of kind k opened.
func (k *Kind) Answers(reply string) bool {
	return k.Class == Exchange && (reply == k.Reply || reply == KindError)
}

// CheckPayload validates a payload of this kind, in one pass over its text. The error
// is an *Error with the code invalid and names the field.
func (k *Kind) CheckPayload(p wire.Payload) error {
	_, err := k.checkPayload(p)
	return err
}

// Parse decodes a checked payload. For one that was not checked the error is an *Error
// with the code invalid.
func Parse[T any](p wire.Payload) (*T, error) {
	v := new(T)
	if err := json.Unmarshal(p.Object(), v); err != nil {
		return nil, Errorf(Invalid, "payload: %s", syntaxProblem(err))
	}
	return v, nil
}

// Encode encodes a payload struct; JSON text in it stays as it was written. It panics if a
// jsontext.Value in it is not JSON: such values come from a parser.
func Encode(v any) wire.Payload {
	p, err := json.Marshal(v, json.Deterministic(true), jsontext.PreserveRawStrings(true), jsontext.AllowInvalidUTF8(true)) // which turns to U+FFFD
	if err != nil {
		panic("kinds: encode payload: " + err.Error())
	}
	return p
}

func kindNames() string {
	all := make([]string, len(kindTable))
	for i := range kindTable {
		all[i] = kindTable[i].Name
	}
	return strings.Join(all, ", ")
}
