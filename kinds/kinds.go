// Package kinds defines the messages of ACP/1: one table row for each of
// the twelve kinds (how it travels, what answers it, what its payload holds) and
// one table of error codes.
//
// [CheckEnvelope] validates a whole envelope: its kind, whether ref must be there, and
// its payload, in one pass over the text. That pass also finds the few fields by which
// a daemon routes; they are in the [Checked] envelope. Other fields are not checked:
// they are for the agents. This package does not know how messages travel.
package kinds

import (
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/wire"
)

// Class is how a kind travels.
type Class uint8

const (
	Exchange Class = iota // opens a bidirectional stream and is answered there
	Message               // has a unidirectional stream of its own and a receipt
	Reply                 // is used only on the reply half of an exchange
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

// Traits say what a daemon does with messages of a kind.
type Traits uint8

const (
	Policed      Traits = 1 << iota // policy says which peers may send it
	OfDelegation                    // it belongs to a delegation that is under way: no policy refuses it
	Report                          // it reports on a delegation, to whoever gave it
	Work                            // it gives somebody something new to do: a daemon that drains begins none
	Offered                         // agents take it; the daemon itself answers any other
	Wakes                           // it can begin a turn of a session
	Spare                           // there is room for some even if as many calls are open as may be

	Sent = Policed | OfDelegation // it is no reply; a kind that is sent is one of these
)

// Kind is a row of the table: all that a kind is, but for the code that handles it.
type Kind struct {
	Name     string
	Plural   string // what people call several of them; set for each kind that can wake a session
	Class    Class
	Reply    string // the kind that answers it, in addition to error, or ""
	NeedsRef bool   // ref names what it answers or concerns
	Traits   Traits
	Fields   []Field // of the payload; others pass unread
}

// kindTable has the kinds in the order in which people read them.
var kindTable = [...]Kind{
	{KindPing, "", Exchange, KindPong, false, Policed | Spare, nil},
	{KindPong, "", Reply, "", true, 0, []Field{
		{"status", Required | Line, newOneOfCheck("idle", "busy", "overloaded")},
		{"uptime_secs", Required, checkNumber},
		{"active_tasks", Required, checkNumber},
		{"agent_name", 0, checkText},
		{"attached", 0, checkNumber},
	}},
	{KindDiscover, "", Exchange, KindCapabilities, false, Policed, nil},
	{KindCapabilities, "", Reply, "", true, 0, []Field{
		{"agent_name", 0, checkText},
		{"agents", Line, checkTexts},
		{"sessions", 0, checkTexts},
		{"domains", 0, checkTexts},
		{"channels", 0, checkTexts},
		{"tools", 0, checkTexts},
		{"max_concurrent_tasks", 0, checkNumber},
		{"model", 0, checkText},
		{"details", 0, checkDetails},
	}},
	{KindQuery, "questions", Exchange, KindResponse, false, Policed | Work | Offered | Wakes, []Field{
		{"question", Required | Words | Line, checkNonEmpty},
		{"domain", 0, checkDomainText},
		{"max_tokens", 0, checkNumber},
		{"deadline_ms", 0, newMillisCheck(MaxQueryDeadline)},
	}},
	{KindResponse, "", Reply, "", true, 0, []Field{
		{"data", 0, acceptAnyValue},
		{"summary", Required | Words | Line, checkText},
		{"tokens_used", 0, checkNumber},
		{"truncated", 0, checkBoolean},
	}},
	{KindDelegate, "work", Exchange, KindAck, false, Policed | Work | Offered | Wakes, []Field{
		{"task", Required | Words | Line, checkNonEmpty},
		{"context", 0, checkObject},
		{"priority", 0, newOneOfCheck("normal", "urgent")},
		{"report_back", 0, checkBoolean},
		{"deadline_ms", 0, newMillisCheck(MaxTaskDeadline)},
		{"domain", 0, checkDomainText},
	}},
	{KindAck, "", Reply, "", true, 0, []Field{
		{"accepted", Required | Head, checkBoolean},
		{"estimated_ms", 0, checkNumber},
		{"code", Head | Line, checkErrorCode},
		{"message", Words | Line, checkText},
	}},
	{KindCancel, "", Exchange, KindAck, true, OfDelegation | Offered | Spare, []Field{
		{"reason", Words | Line, checkText},
	}},
	{KindNotify, "notices", Message, "", false, Policed | Work | Offered | Wakes, []Field{
		{"topic", Required | Head, checkTopic},
		{"data", Line, acceptAnyValue},
		{"importance", 0, newOneOfCheck("low", "medium", "high")},
	}},
	{KindResult, "results", Message, "", true, OfDelegation | Report | Offered | Wakes, []Field{
		{"status", Required | Head | Line, newOneOfCheck("completed", "failed", "partial")},
		{"outcome", Required | Words | Line, checkText},
		{"data", 0, acceptAnyValue},
		{"error", 0, checkText},
		{"progress", 0, checkProgress},
		{"message", Line, checkProgressMessage},
	}},
	{KindError, "errors", Message, "", true, OfDelegation | Report | Offered | Wakes, []Field{
		{"code", Required | Head | Line, checkErrorCode},
		{"message", Required | Words | Line, checkText},
		{"retryable", 0, checkBoolean},
		{"retry_after_ms", 0, checkNumber},
		{"details", 0, checkObject},
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

// ListNames returns the names of the kinds that have one of the traits.
func ListNames(traits Traits) (names []string) {
	for i := range kindTable {
		if kindTable[i].Has(traits) {
			names = append(names, kindTable[i].Name)
		}
	}
	return names
}

// Has reports whether the kind has one of the traits.
func (k *Kind) Has(traits Traits) bool { return k.Traits&traits != 0 }

// Has reports whether the kind of a name has one of the traits. An unknown kind has no traits.
func Has(name string, traits Traits) bool {
	k, known := FindKind(name)
	return known && k.Has(traits)
}

// FindWords returns the name of the field that is shown as text without its name, or "".
func (k *Kind) FindWords() string {
	for _, f := range k.Fields {
		if f.Has(Words) {
			return f.Name
		}
	}
	return ""
}

// AllowsReply reports whether a message of kind reply is valid on the reply half of an exchange that
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

// CheckPayload does the same for the kind of a name. An unknown kind is an error with the code
// unknown_kind.
func CheckPayload(name string, p wire.Payload) error {
	k, known := FindKind(name)
	if !known {
		return newUnknownKindError()
	}
	return k.CheckPayload(p)
}

// FindReportKind returns the kind of a payload that reports on a delegation, or "" for any other payload.
func FindReportKind(p wire.Payload) string {
	for _, name := range ListNames(Report) {
		if CheckPayload(name, p) == nil {
			return name
		}
	}
	return ""
}

// ParsePayload decodes a checked payload. If the payload was not checked, it may return an *Error
// with the code invalid. It drops a payload's field quoted: only the own daemon sets [Error.Quoted].
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

func newUnknownKindError() *Error {
	all := make([]string, len(kindTable))
	for i := range kindTable {
		all[i] = kindTable[i].Name
	}
	return Errorf(UnknownKind, "kind: not known: expected one of %s", strings.Join(all, ", "))
}
